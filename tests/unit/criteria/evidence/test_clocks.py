"""A node whose clock and the driver's came apart is not measured, and no hardware is blamed for the hole."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from rigproof.criteria.evidence.clocks import MOVED_S, _moved, contradiction
from rigproof.records.measurements import Stage
from rigproof.records.verdict import Outcome

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
TABLES = ("gpu_samples", "host_samples", "rounds", "events", "memory")


def jump(bench, at_s, by_s):
    """The clock of pc1 jumps."""

    def moved(one):
        of_node = one.subject == "pc1" or one.subject.startswith("pc1/")
        return replace(one, t_s=one.t_s + by_s) if of_node and one.t_s >= at_s else one

    for name in TABLES:
        setattr(bench.recording, name, [moved(one) for one in getattr(bench.recording, name)])


@pytest.mark.parametrize(
    ("by_s", "says"),
    [
        (
            30.0,
            "work of the sustained stage until t=100 s after a hole of 30 s from t=50 s on, which ended at "
            "t=71 s",
        ),
        (-30.0, "work of the sustained stage from t=20 s on, which began at t=26 s"),
    ],
)
def test_a_clock_that_jumps_in_mid_run_rejects_nothing_and_is_named(bench, by_s, says):
    jump(bench, 50.0, by_s)
    verdicts = bench.verdicts()
    assert not [one for one in verdicts if one.outcome is Outcome.FAIL]
    found = {(one.criterion, one.subject): one for one in verdicts}
    for criterion in ("activity.gpu_active", "throughput.stability", "throughput.sustained", "clock.ratio"):
        verdict = found[criterion, GPU]
        assert verdict.outcome is Outcome.NOT_MEASURED
        assert verdict.detail == f"the clocks of pc1 and of the driver came apart: {says}"
        assert verdict.remedy.startswith("find out what stopped or moved a clock")
        assert found[criterion, OTHER].outcome is Outcome.PASS
    assert found["host.responsiveness", "pc1"].outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize(("by_s", "outcome"), [(0.9, Outcome.PASS), (2.1, Outcome.NOT_MEASURED)])
def test_a_round_may_end_a_second_after_its_stage(bench, by_s, outcome):
    last_s = max(one.t_s for one in bench.recording.rounds if (one.subject, one.stage) == (GPU, "sustained"))
    late_s = 71.0 + by_s - last_s
    bench.rounds(GPU, "sustained", last_s - 0.01, last_s + 0.01, t_s=lambda one: one.t_s + late_s)
    assert bench.verdict("throughput.sustained", GPU).outcome is outcome


def test_a_card_that_computes_wrong_fails_whatever_its_clock_did(bench):
    bench.event("wrong_result", GPU, "a product differs", 40.0)
    jump(bench, 50.0, 30.0)
    assert bench.verdict("compute.exact", GPU).outcome is Outcome.FAIL


def test_a_stage_that_was_measured_once_more_moved_no_clock(bench):
    stage = bench.recording.stages["sustained"]
    bench.recording.first_attempts["sustained"] = replace(stage, end_s=48.0, loaded_to_s=48.0)
    bench.stage("sustained", start_s=48.0, loaded_from_s=49.0)
    for subject in (GPU, OTHER):
        assert "came apart" not in bench.verdict("throughput.sustained", subject).detail
        assert bench.verdict("throughput.sustained", subject).outcome is not Outcome.NOT_MEASURED


@pytest.mark.parametrize(
    ("early_s", "says"),
    [
        (
            0.0,
            "work of the gemm stage until t=80 s after a hole of 43 s from t=35 s on, which ended at t=60 s",
        ),
        (0.5, "work of the gemm stage from t=24 s on, which began at t=26 s"),
    ],
)
def test_work_that_begins_as_early_as_it_may_is_wrong_only_at_its_end(early_s, says):
    begun_s = 26.0 - MOVED_S - early_s
    table = SimpleNamespace(begins_s=np.asarray([begun_s, 78.0]), t_s=np.asarray([35.0, 80.0]))
    from_s, said = _moved("gemm", table, np.asarray([True, True]), (26.0, 60.0))
    assert (from_s, said) == (begun_s if early_s else 35.0, says)


@pytest.mark.parametrize("error_s", [1.1, 1e15, -1.0, float("nan")])
def test_work_on_a_clock_that_was_not_read_to_within_a_second_is_not_measured(bench, error_s):
    bench.node("pc1", clock_error_s=error_s)
    verdict = bench.verdict("activity.gpu_active", GPU)
    assert (verdict.outcome, "the clock of pc1 was read to within" in verdict.detail) == (
        Outcome.NOT_MEASURED,
        True,
    )
    assert bench.verdict("activity.gpu_active", OTHER).outcome is Outcome.PASS


@pytest.mark.parametrize(("loaded_from_s", "fits"), [(None, True), (21.2, False)])
def test_a_stage_that_nobody_took_may_end_before_its_common_start(loaded_from_s, fits):
    stage = Stage("transient", 21.4, 21.1, "failed", loaded_from_s=loaded_from_s)
    assert (contradiction([stage]) == "") is fits
