"""The shortest length of a stage that lint allows: with it a sound rig is accepted, with less it is not."""

import pytest

from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.verdict import Decision, decide
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS

LEVEL = "extended"
OPTIONAL = [kind.name for kind in KINDS if issubclass(kind.settings, OptionalSettings)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.shortest_s], ids=lambda kind: kind.name)
def test_it_is_neither_too_long_nor_too_short(tmp_path, kind):
    """At some levels other stages are left out: none of them stands in for the one that is too short."""

    def decision(length_s):
        lengths = dict.fromkeys(OPTIONAL, 0.0) | {"sustained": 7.0, kind.name: length_s}
        lines = [f"{stage}.length_s.{LEVEL} = {seconds}" for stage, seconds in lengths.items()]
        times = ["gemm.settle_s", "gemm.measure_s", "sustained.settle_s"]
        lines += [f"{one}.{LEVEL} = 2" for one in times]
        profile = tmp_path / "short.toml"
        profile.write_text('name = "short"\nextends = "dual-3090-3070"\n[stages]\n' + "\n".join(lines))
        return decide(judge_all(simulated_recording(load_rig(str(profile), KINDS), LEVEL)))

    own = f"`shortest_s` of {kind.name}, {kind.shortest_s} s,"
    assert decision(kind.shortest_s) is Decision.ACCEPTED, f"{own} is too short to judge the stage"
    assert decision(0.8 * kind.shortest_s) is Decision.INCOMPLETE, f"{own} could be a fifth less, or 0"
