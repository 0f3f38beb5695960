"""rigproof proves that a GPU training rig is fit before a training session starts."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rigproof.history.standing import require_accepted as require_accepted

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`require_accepted` is imported when it is asked for, so that nobody else pays for it."""
    if name == "require_accepted":
        from rigproof.history.standing import require_accepted  # noqa: PLC0415

        return require_accepted
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
