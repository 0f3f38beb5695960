"""Lint of settings with which the patterns would test too little."""

from collections.abc import Iterator

from rigproof.profiles.lint.limits import Bound, rig_problem, stage_limit_problems
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.pattern.settings import STAGE, PatternSettings

BOUNDS = {
    "tested_share": Bound(lowest=0.5, below="passes a card half of whose memory is never tested"),
    # GDDR6X that throttles loses a tenth and more; one card is within 1 % over runs.
    "hot_share": Bound(0.5, 0.98, "allows a rate that halves", "fails sound cards"),
    # Operations of torch on the host: about 1 GiB/s on a single thread.
    "cpu_mib": Bound(1, 4096, "tests nothing but the processor's caches", "takes a CPU minutes"),
}


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Problems with its limits, and with what is filled."""
    yield from stage_limit_problems(loaded, STAGE, BOUNDS)
    tables = [("", loaded.settings(PatternSettings))]
    tables += [(f"{device.key}.", device.settings(PatternSettings)) for device in loaded.devices()]
    seen = set()
    for prefix, own in tables:
        if own.free_share < own.tested_share and (own.free_share, own.tested_share) not in seen:
            seen.add((own.free_share, own.tested_share))
            key = f"{prefix}stages.{STAGE}.free_share"
            wrong = f"under tested_share = {own.tested_share:g}, so that too little is always tested"
            yield rig_problem(loaded, key, own.free_share, wrong, f"write {own.tested_share:g} or more")
