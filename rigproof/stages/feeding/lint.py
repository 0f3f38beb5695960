"""Lint of feeding settings that could not be judged."""

from collections.abc import Iterator

from rigproof.profiles.lint.limits import Bound, rig_problem, stage_limit_problems
from rigproof.profiles.lint.stated import stated
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.feeding.settings import FeedingSettings

SHARE, PROCESSES = "stages.feeding.reward_speedup_share", "stages.feeding.processes"
BOUNDS = {
    # Work is distributed and results are collected on one CPU, whatever the number of processes.
    "reward_speedup_share": Bound(highest=0.95, above="is more than any pool of processes reaches"),
    "reward_loss_share": Bound(highest=0.5, above="passes a pool that loses every other strategy"),
}


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Problems with its limits."""
    yield from stage_limit_problems(loaded, "feeding", BOUNDS)
    for device in loaded.devices():
        yield from _speedup_problems(loaded, device)


def _speedup_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    """The required speed-up must be over 1, except for a pool of one process, as for debugging."""
    settings = device.settings(FeedingSettings)
    share, processes = settings.reward_speedup_share, settings.processes
    if processes == 1 or processes * share > 1:
        return
    key = stated(loaded, device, SHARE, PROCESSES) or SHARE
    wrong = f"{processes} processes × {share:g} is no speed-up: rewards one after the other would pass"
    way_out = f"write reward_speedup_share = {(1.5 / processes):.2g} or more, or processes = 1"
    yield rig_problem(loaded, key, processes if key.endswith(PROCESSES) else share, wrong, way_out)
