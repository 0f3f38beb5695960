"""Lint of training settings that cannot work, or could not be judged."""

import math
from collections.abc import Iterator
from itertools import pairwise

from rigproof.profiles.lint.limits import Bound, rig_problem, stage_limit_problems
from rigproof.profiles.lint.stated import problems_where_stated
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.planning import device_plan
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.training.settings import SPEEDUP_HIGHEST, SPEEDUP_LOWEST, TrainingSettings

TABLE = "stages.training"
# Fewer samples of measured work fail no card (criteria/evidence/loads.py). Of 30 s of training, 3 s were
# measured work on an H200.
FEWEST_SAMPLES, MEASURED_SHARE = 5, 0.1
BOUNDS = {
    # Measured: 0.66 on an H200.
    "precision_share": Bound(0.3, 0.9, "passes a precision that hardly trains", "fails sound cards"),
    "training_unknown_share": Bound(0.05, 0.65, "passes a card that hardly trains", "fails sound cards"),
    "training_speedup": Bound(
        SPEEDUP_LOWEST,
        SPEEDUP_HIGHEST,
        "passes a card that 16-bit slows down",
        "is more than any card reaches",
    ),
}


def problems(loaded: LoadedRig, level: LevelName) -> Iterator[str]:
    """Problems with each device's training, with its limits, and with the sampling rate."""
    yield from stage_limit_problems(loaded, "training", BOUNDS)
    for device in loaded.devices():
        yield from _work_problems(loaded, device)
    yield from _rate_problems(loaded, level)


def _work_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    training, memory_gib = device.settings(TrainingSettings), device_plan(loaded, device).memory_gib
    batches, batch = training.batches, training.batch
    if memory_gib is not None and training.reserve_gib >= memory_gib:
        wrong = f"all of the {memory_gib:g} GiB of {device.subject}, so no batch is ever tried"
        way_out = "write e.g. 2.0, or a tenth of the card"
        yield from problems_where_stated(loaded, device, (f"{TABLE}.reserve_gib",), wrong, way_out)
    if not batches or any(after <= before for before, after in pairwise(batches)):
        wrong = "each batch size must exceed the previous one" if batches else "no batch size to measure"
        way_out = "write e.g. [1, 2, 4, 8, 16]"
        yield from problems_where_stated(loaded, device, (f"{TABLE}.batches",), wrong, way_out)
    least = loaded.memory_of(device).least_batch
    if least > batch:
        wrong = f"least_batch = {least} is over {TABLE}.batch = {batch}: a failure cannot make it smaller"
        names = ("memory.least_batch", f"{TABLE}.batch")
        yield from problems_where_stated(loaded, device, names, wrong, f"write least_batch = {batch} or less")


def _rate_problems(loaded: LoadedRig, level: LevelName) -> Iterator[str]:
    """A stated `sampling.rate_hz` at which the level's training gives too few samples to fail a card."""
    key, rate_hz = "sampling.rate_hz", loaded.rig.sampling.rate_hz
    length_s = loaded.settings(TrainingSettings).length_s.at(level)
    if not loaded.states(key) or not length_s:
        return
    least_hz = FEWEST_SAMPLES / (MEASURED_SHARE * length_s)
    if rate_hz < least_hz:
        wrong = (
            f"of {length_s:g} s of training at the {level} level a tenth may be measured work, with fewer "
            f"than the {FEWEST_SAMPLES} samples needed to fail a card"
        )
        yield rig_problem(loaded, key, rate_hz, wrong, f"write {math.ceil(least_hz)} or more")
