"""A gemm stage that is too short to judge a GPU's clock and power by, or has too few rounds."""

from collections.abc import Iterator

from rigproof.criteria.evidence.loads import SHORTEST_S
from rigproof.profiles.lint.limits import rig_problem
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.gemm.settings import GemmSettings

FEWEST_ROUNDS = 4  # in simulation sound cards are accepted with four, and rejected with two


def problems(loaded: LoadedRig, level: LevelName) -> Iterator[str]:
    """Of the time that each precision is measured for at this level, where the rig has a GPU."""
    measure_s = loaded.settings(GemmSettings).measure_s.at(level)
    with_gpu = any(device.gpu.device == "cuda" for device in loaded.devices())
    if with_gpu and 0 < measure_s < SHORTEST_S:
        wrong = f"clock, power and activity of a GPU are judged over {SHORTEST_S:g} s of work or more"
        key = f"stages.gemm.measure_s.{level}"
        yield rig_problem(loaded, key, measure_s, wrong, f"write {SHORTEST_S:g} or more")
    round_s = loaded.rig.levels.round_s.at(level)
    if measure_s > 0 and round_s * FEWEST_ROUNDS > measure_s:
        wrong = f"leaves fewer than {FEWEST_ROUNDS} rounds in the {measure_s:g} s of each precision"
        key = f"levels.round_s.{level}"
        yield rig_problem(loaded, key, round_s, wrong, f"write {measure_s / FEWEST_ROUNDS:g} or less")
