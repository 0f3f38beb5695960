"""Lint of sharing settings that cannot work, or could not be judged."""

from collections.abc import Iterator
from itertools import pairwise

from rigproof.profiles.lint.limits import Bound, rig_problem, stage_limit_problems
from rigproof.profiles.lint.stated import stated
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.operands import CONTEXT_GIB
from rigproof.profiles.planning.planning import device_plan
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.sharing.settings import SharingSettings

WORKERS, VRAM = "stages.sharing.workers", "stages.sharing.vram_share"
BOUNDS = {
    # Measured: 0.92 on an H200 with 2 and with 3 processes.
    "sharing_share": Bound(lowest=0.5, below="allows sharing that halves the rate"),
}


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Problems with the processes that share a card, and with their limits."""
    yield from stage_limit_problems(loaded, "sharing", BOUNDS)
    for device in loaded.devices():
        yield from _device_problems(loaded, device)


def _device_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    workers = device.settings(SharingSettings).workers
    key = stated(loaded, device, WORKERS) or WORKERS
    if not workers or workers[0] != 1 or any(after <= before for before, after in pairwise(workers)):
        wrong = "must start with 1, with which the others are compared, and then increase"
        yield rig_problem(loaded, key, list(workers), wrong, "write e.g. [1, 2, 3]")
    elif len(workers) == 1:
        yield rig_problem(loaded, key, [1], "nothing to compare with one process", "write e.g. [1, 2]")
    else:
        yield from _memory_problems(loaded, device, workers[-1])


def _memory_problems(loaded: LoadedRig, device: PromisedDevice, most: int) -> Iterator[str]:
    """The memory that the processes fill must fit beside their contexts and those of the idle workers."""
    plan, share = device_plan(loaded, device), device.settings(SharingSettings).vram_share
    memory_gib, contexts = plan.memory_gib, plan.workers + most
    key = stated(loaded, device, VRAM)
    if memory_gib is None or device.gpu.device == "cpu" or key is None:
        return  # with the default, the stage takes what is free
    fitting = int(100 * (memory_gib - contexts * CONTEXT_GIB) / memory_gib) / 100
    if share > fitting:
        wrong = (
            f"{contexts} CUDA contexts of {CONTEXT_GIB:g} GiB do not fit beside it on the "
            f"{memory_gib:g} GiB of {device.subject}"
        )
        way_out = f"write {fitting:g} or less, or fewer workers" if fitting > 0 else "write fewer workers"
        yield rig_problem(loaded, key, share, wrong, way_out)
