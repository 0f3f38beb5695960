"""Lint of settings with which no waves could be made or judged."""

from collections import Counter
from collections.abc import Iterator

from rigproof.profiles.lint.limits import Bound, rig_problem, stage_limit_problems
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.transient.schedule import least_length_s
from rigproof.stages.transient.settings import STAGE, TransientSettings

BOUNDS = {
    # The first wave of a frequency warms up, and a third of the others is compared with another third.
    "least_waves": Bound(lowest=4, below="leaves too few bursts to compare the first with the last"),
    "wave_share": Bound(lowest=0.5, below="calls a host tested that made half of its waves"),
    # A quarter of a period apart, one GPU's burst begins in the middle of another's.
    "phase_share": Bound(highest=0.25, above="calls bursts in phase that overlap by half"),
    "phase_ms": Bound(highest=50, above="calls bursts in phase that overlap by half at 5 Hz"),
    # A power brake halves the clock.
    "others_share": Bound(0.5, 0.99, "allows others to lose half of their rate", "fails sound hosts"),
    "fall_share": Bound(0.5, 0.99, "allows a card to lose half of its rate", "fails sound hosts"),
    "psu_share": Bound(lowest=0.3, below="warns of a supply that is hardly used"),
}


def problems(loaded: LoadedRig, level: LevelName) -> Iterator[str]:
    """Problems with limits, frequencies and the length of the stage."""
    yield from stage_limit_problems(loaded, STAGE, BOUNDS)
    settings = loaded.settings(TransientSettings)
    frequencies = settings.frequencies_hz
    key = "stages.transient.frequencies_hz"
    if not frequencies or len(set(frequencies)) < len(frequencies):
        wrong = "names a frequency twice" if frequencies else "names no frequency"
        yield rig_problem(loaded, key, list(frequencies), wrong, "write e.g. [1, 5, 20]")
        return
    shortest, longest = settings.duty_share
    if not shortest < 0.5 < longest <= 0.75:
        wrong = "waves that are on for half of their period are not within it, or are no longer waves"
        key = "stages.transient.duty_share"
        yield rig_problem(loaded, key, list(settings.duty_share), wrong, "write e.g. [0.3, 0.6]")
    length_s = settings.length_s.at(level)
    hosts = Counter(device.node for device in loaded.devices() if device.gpu.device == "cuda")
    if length_s and hosts:
        node, gpus = hosts.most_common(1)[0]
        least_s = least_length_s(gpus, settings)
        if length_s < least_s:
            wrong = f"too short for {settings.least_waves} waves of each frequency on {gpus} GPUs of {node}"
            way_out = f"write {least_s:.0f} or more, or fewer or higher frequencies"
            yield rig_problem(loaded, f"stages.transient.length_s.{level}", length_s, wrong, way_out)
