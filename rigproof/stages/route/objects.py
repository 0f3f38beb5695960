"""An object that each of a group takes from the store of the next one, by Ray; what the cards sent meanwhile.

The workers do it themselves, since Ray knows them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rigproof.devices.meeting import Meeting
from rigproof.devices.specs import OBJECT_SILENT_S, Objects
from rigproof.host.interfaces import counters
from rigproof.records.message_text import what_it_says
from rigproof.stages.route.stage import Came
from rigproof.stages.route.traffic import sent_mb


def take_object(
    meeting: Meeting,
    group: Sequence[tuple[int, str]],
    objects: Objects | None,
    megabytes: float,
    go_on: Callable[[], bool],
) -> tuple[Came, Mapping[str, Any]]:
    """What came of it, and more, as `traffic.reduce_all` tells it. `group`: ranks and addresses, own first.

    All that meet must take part, and do nothing else meanwhile; `objects` is None if the group has no stores.
    SilentError and EndedError are those of the meeting.
    """
    import numpy as np  # noqa: PLC0415 - stages' settings need none

    def data(rank: int) -> Any:
        return np.frombuffer(np.random.default_rng(rank).bytes(int(megabytes * 1e6)), np.uint8)

    (own, _), (other, address) = group[0], group[1 % len(group)]
    if objects is not None:
        objects.offer(data(own))
    came: Came = "done"
    more: dict[str, Any] = {}
    try:
        meeting.exchange("objects are there", None, 2 * OBJECT_SILENT_S)
        before = counters()
        if objects is not None:
            try:
                more["seconds"], found = objects.get(address, OBJECT_SILENT_S, go_on)
                came = "done" if np.array_equal(found, data(other)) else "wrong"
            except TimeoutError:
                came = "failed"
                more["message"] = f"nothing came from the store there for {OBJECT_SILENT_S:g} s"
            except RuntimeError as error:  # of Ray
                came, more["message"] = "broken", what_it_says(error, 160)
        meeting.exchange("objects have come", None, 2 * OBJECT_SILENT_S)
        more["sent_mb"] = sent_mb(before, counters())
    finally:
        if objects is not None:
            objects.withdraw()
    return came, more
