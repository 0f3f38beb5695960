"""rigproof proves that a GPU training rig is fit before a training session starts."""

from pathlib import Path

__version__ = "0.1.0"


def require_accepted(
    max_age: str | None = "24h",
    *,
    level: str | None = None,
    hwprofile: str | None = None,
    report_dir: str | Path = "reports",
    power_limits: bool = False,
) -> None:
    """Raise RuntimeError unless this machine was accepted; see `rigproof.history.standing`."""
    from rigproof.history import standing  # noqa: PLC0415 - only whoever calls it

    standing.require_accepted(
        max_age, level=level, hwprofile=hwprofile, report_dir=report_dir, power_limits=power_limits
    )
