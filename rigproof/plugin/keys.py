"""How the plugin's parts find each other."""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rigproof.telemetry.inventory import Detection

# The HardwareSession, and the Ending of it; importing their types here would be circular.
SESSION, ENDING = pytest.StashKey[Any](), pytest.StashKey[Any]()
DETECTION: "pytest.StashKey[Detection | None]" = (
    pytest.StashKey()
)  # looks at this machine; None if it is of no matter


def criterion_and_subject(item: pytest.Item) -> tuple[str, str] | None:
    """The criterion that a hardware test judges; None for any other test."""
    marker = item.get_closest_marker("criterion")
    call = getattr(item, "callspec", None)
    subject = None if call is None else call.params.get("subject")
    if marker is None or not isinstance(subject, str):
        return None
    return marker.args[0], subject
