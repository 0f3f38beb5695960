"""Feeding that nothing could be judged by."""

from collections.abc import Iterator

from rigproof.profiles.lint.limits import Bound, stage_limit_problems, told
from rigproof.profiles.lint.stated import stated
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.feeding.settings import FeedingSettings

SHARE, PROCESSES = "stages.feeding.reward_speedup_share", "stages.feeding.processes"
BOUNDS = {
    # What hands out the work and gathers the results runs on one CPU, whatever the number of processes.
    "reward_speedup_share": Bound(highest=0.95, above="is more than any pool of processes reaches"),
    "reward_loss_share": Bound(highest=0.5, above="calls a pool sound that loses every other strategy"),
}


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Of its limits."""
    yield from stage_limit_problems(loaded, "feeding", BOUNDS)
    for device in loaded.devices():
        yield from _speedup_problems(loaded, device)


def _speedup_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    """The speed-up that is asked for is one. A pool of one process, as for debugging, needs none."""
    settings = device.settings(FeedingSettings)
    share, processes = settings.reward_speedup_share, settings.processes
    if processes == 1 or processes * share > 1:
        return
    key = stated(loaded, device, SHARE, PROCESSES) or SHARE
    wrong = f"{processes} processes × {share:g} are no speed-up: rewards one after the other would pass"
    way_out = f"write reward_speedup_share = {(1.5 / processes):.2g} or more, or processes = 1"
    yield told(loaded, key, processes if key.endswith(PROCESSES) else share, wrong, way_out)
