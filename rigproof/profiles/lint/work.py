"""Training, feeding and sharing that cannot be done, or that nothing could be judged by."""

from collections.abc import Iterator
from itertools import pairwise

from rigproof.profiles.lint.limits import told
from rigproof.profiles.lint.stated import told_where_stated
from rigproof.profiles.loading.files import DEFAULTS
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.operands import CONTEXT_GIB
from rigproof.profiles.planning.planning import device_plan


def work_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    """Problems of what one device trains and is fed with."""
    yield from _training(loaded, device)
    yield from _rewards(loaded, device)


def sharing_problems(loaded: LoadedRig) -> Iterator[str]:
    """Problems of the processes that share a card."""
    workers = loaded.rig.sharing.workers
    if workers is None:
        return
    if not workers or workers[0] != 1 or any(two <= one for one, two in pairwise(workers)):
        wrong = "one process comes first, because the others are compared with it, and then ever more"
        yield told(loaded, "sharing.workers", list(workers), wrong, "write e.g. [1, 2, 3]")
    elif len(workers) == 1:
        yield told(loaded, "sharing.workers", [1], "nothing to compare with one process", "write e.g. [1, 2]")
    else:
        for device in loaded.devices():
            yield from _shared_memory(loaded, device, workers[-1])


def _shared_memory(loaded: LoadedRig, device: PromisedDevice, most: int) -> Iterator[str]:
    """What the processes fill together fits beside their contexts and those of the workers that wait."""
    plan = device_plan(loaded, device)
    share, memory_gib, contexts = loaded.rig.sharing.vram_share, plan.memory_gib, plan.workers + most
    key = "sharing.vram_share"
    if share is None or memory_gib is None or device.gpu.device == "cpu":
        return
    if loaded.sources.get(key, DEFAULTS) == DEFAULTS:
        return  # the stage takes what is left
    fitting = int(100 * (memory_gib - contexts * CONTEXT_GIB) / memory_gib) / 100
    if share > fitting:
        wrong = (
            f"{contexts} CUDA contexts of {CONTEXT_GIB:g} GiB do not fit beside it on the "
            f"{memory_gib:g} GiB of {device.subject}"
        )
        way_out = f"write {fitting:g} or less, or fewer workers" if fitting > 0 else "write fewer workers"
        yield told(loaded, key, share, wrong, way_out)


def _training(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    training, memory_gib = loaded.training_of(device), device_plan(loaded, device).memory_gib
    reserve_gib, batches = training.reserve_gib, training.batches
    if reserve_gib is not None and memory_gib is not None and reserve_gib >= memory_gib:
        wrong = f"all of the {memory_gib:g} GiB of {device.subject}, so no batch is ever tried"
        yield from told_where_stated(
            loaded, device, ("training.reserve_gib",), wrong, "write e.g. 2.0, or a tenth of the card"
        )
    if batches is not None and (not batches or any(two <= one for one, two in pairwise(batches))):
        wrong = "each batch size has to be over the one before it" if batches else "no batch size to measure"
        yield from told_where_stated(
            loaded, device, ("training.batches",), wrong, "write e.g. [1, 2, 4, 8, 16]"
        )
    batch, least = training.batch, loaded.memory_of(device).least_batch
    if batch is not None and least is not None and least > batch:
        wrong = f"least_batch = {least} is over training.batch = {batch}: a failure cannot make it smaller"
        yield from told_where_stated(
            loaded,
            device,
            ("memory.least_batch", "training.batch"),
            wrong,
            f"write least_batch = {batch} or less",
        )


def _rewards(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    """The speed-up that is asked for is one. A pool of one process, as for debugging, needs none."""
    share, processes = device.limits.reward_speedup_share, loaded.rig.feeding.processes
    if share is None or processes is None or processes == 1 or processes * share > 1:
        return
    keys = (f"{device.key}.limits.reward_speedup_share", "limits.reward_speedup_share", "feeding.processes")
    key = next((key for key in keys if loaded.sources.get(key, DEFAULTS) != DEFAULTS), keys[1])
    wrong = f"{processes} processes × {share:g} are no speed-up: rewards one after the other would pass"
    way_out = f"write reward_speedup_share = {(1.5 / processes):.2g} or more, or processes = 1"
    yield told(loaded, key, processes if key == "feeding.processes" else share, wrong, way_out)
