"""What a level promises is the same for every rig, and has to be sampled often enough."""

import math

from rigproof.profiles.lint.limits import told
from rigproof.profiles.loading.files import DEFAULTS
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.models import LevelName

OWN_KEYS = ("least_share", "least_work_share")
# Fewer samples of measured work fail no card (criteria/loads.py). Of 30 s of training an H200 measured 3.
FEWEST_SAMPLES, MEASURED_SHARE = 5, 0.1


def level_problems(loaded: LoadedRig) -> list[str]:
    """A rig that says how much of a level is that level: it would not be heeded."""
    return [
        told(loaded, key, getattr(loaded.rig.levels, name), "not for a rig to say", "drop it")
        for name in OWN_KEYS
        if loaded.sources.get(key := f"levels.{name}", DEFAULTS) != DEFAULTS
    ]


def rate_problems(loaded: LoadedRig, level: LevelName) -> list[str]:
    """A stated `sampling.rate_hz` at which the level's training leaves too few samples to fail a card by."""
    key, rate_hz = "sampling.rate_hz", loaded.rig.sampling.rate_hz
    training_s = getattr(loaded.rig.levels, level).training_s
    if loaded.sources.get(key, DEFAULTS) == DEFAULTS or rate_hz is None or not training_s:
        return []
    least_hz = FEWEST_SAMPLES / (MEASURED_SHARE * training_s)
    if rate_hz >= least_hz:
        return []
    wrong = (
        f"of {training_s:g} s of training at the {level} level a tenth may be measured, which holds fewer "
        f"than the {FEWEST_SAMPLES} samples that a card can fail by"
    )
    return [told(loaded, key, rate_hz, wrong, f"write {math.ceil(least_hz)} or more")]
