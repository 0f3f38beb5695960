"""Clocks that came apart, and hosts that stood still."""

from copy import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rigproof.criteria.evidence.clocks import (
    MOVED_S,
    _moved,
    awake,
    contradiction,
    cut_into,
    gaps_of,
    standstills,
    uncounted,
    within,
)
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import judge
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.disk.store import read_recording
from rigproof.records.measurements import TFLOP, Round, Stage
from rigproof.records.verdict import Outcome
from rigproof.stages.registry import KINDS

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
TABLES = ("gpu_samples", "host_samples", "rounds", "events", "memory")
SAMPLES = Path(__file__).resolve().parents[4] / "reports" / "samples"
RATES = ("throughput.stability", "throughput.sustained", "throughput.peer_outlier", "activity.gpu_active")
OTHERS = (
    *("throughput.gemm_fp32", "throughput.gemm_fp8", "training.step", "scaling.sharing"),
    *("memory.bandwidth", "feeding.idle_gaps", "transfer.h2d", "power.transient"),
)


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
    bench.recording.earlier_attempts["sustained"] = (replace(stage, end_s=48.0, loaded_to_s=48.0),)
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


@cache
def sample(name):
    return read_recording(SAMPLES / name)


def paused(recording, stage, share, seconds, *, inside=False):
    """The same run if its host had stood still for `seconds` at that share of a stage's load.

    `inside`: during a round, which then took longer; else between two.
    """
    run, its = copy(recording), recording.stages[stage]
    at_s = its.loaded_from_s + share * (its.loaded_to_s - its.loaded_from_s)

    def later(one):
        return replace(one, t_s=one.t_s + seconds) if one.t_s > at_s else one

    def later_round(one):
        longer = inside and one.t_s - one.seconds < at_s < one.t_s
        return replace(later(one), seconds=one.seconds + seconds * longer)

    run.rounds = [later_round(one) for one in recording.rounds]
    run.gpu_samples = list(map(later, recording.gpu_samples))
    woke = next(one for one in recording.host_samples if one.t_s > at_s).t_s
    run.host_samples = [
        replace(later(one), wakeup_delays_ms=(1000 * seconds,)) if one.t_s == woke else later(one)
        for one in recording.host_samples
    ]
    moments = ("start_s", "end_s", "loaded_from_s", "loaded_to_s")
    run.stages = {
        name: replace(
            one, **{key: t_s + seconds for key in moments if (t_s := getattr(one, key)) and t_s > at_s}
        )
        for name, one in recording.stages.items()
    }
    return run


def failed(recording, names=RATES):
    """What of these fails."""
    evidence = Evidence(recording, LoadedRig.restore(recording.run.rig, KINDS))
    return {
        (name, subject)
        for name in names
        for subject in recording.gpus
        if judge(CATALOGUE[name], subject, evidence).outcome is Outcome.FAIL
    }


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("seconds", [0.2, 0.5, 0.8, 3.0])
@pytest.mark.parametrize("name", ["h100-quick", "h200-x2-quick"])
def test_a_host_that_stands_still_slows_no_card(name, seconds, inside):
    for share in (0.34, 0.6, 0.85, 0.97):
        assert not failed(paused(sample(name), "sustained", share, seconds, inside=inside)), share


@pytest.mark.parametrize("stage", ["gemm", "training", "feeding", "sharing", "bandwidth", "transient"])
def test_nor_does_it_in_any_other_stage(stage):
    for inside in (False, True):
        run = paused(sample("h100-extended"), stage, 0.6, 0.8, inside=inside)
        assert not failed(run, (*RATES, *OTHERS))


def slower(recording, subject, since_s, share=0.88):
    recording.rounds = [
        replace(one, work=one.work * share) if one.subject == subject and one.t_s > since_s else one
        for one in recording.rounds
    ]
    return recording


def test_a_card_that_sags_meanwhile_is_still_rejected():
    run = paused(sample("h200-x2-quick"), "sustained", 0.7, 0.5)
    run = slower(run, "vm/gpu0", run.stages["sustained"].loaded_to_s - 4)
    assert ("throughput.stability", "vm/gpu0") in failed(run)


def test_a_card_that_pauses_by_itself_is_still_rejected():
    run = copy(sample("h100-quick"))
    to_s = run.stages["sustained"].loaded_to_s - 0.5
    run.rounds = [one for one in run.rounds if not to_s - 0.6 < one.t_s < to_s]
    assert failed(run) == {("throughput.stability", "vm/gpu0")}


def test_a_host_whose_probe_woke_up_in_time_did_not_stand_still():
    """The samples are missing, and so is the card's work: it paused, and the sampling was late."""
    run = copy(sample("h100-quick"))
    to_s = run.stages["sustained"].loaded_to_s - 0.5
    run.rounds = [one for one in run.rounds if not to_s - 0.6 < one.t_s < to_s]
    run.host_samples = [one for one in run.host_samples if not to_s - 0.6 < one.t_s < to_s]
    assert failed(run) == {("throughput.stability", "vm/gpu0")}


def test_readings_that_come_half_as_often_disturb_no_sound_card():
    run = copy(sample("h100-quick"))
    run.host_samples = run.host_samples[::2]
    assert not failed(run)


def test_a_host_that_stands_still_in_each_round_measures_nothing_and_fails_nothing():
    run = copy(sample("h100-quick"))
    run.host_samples = [replace(one, wakeup_delays_ms=(100.0,)) for one in run.host_samples[::2]]
    assert not failed(run)
    verdict = judge(
        CATALOGUE["activity.gpu_active"],
        "vm/gpu0",
        Evidence(run, LoadedRig.restore(run.run.rig, KINDS)),
    )
    assert "its host stood still in each of its rounds" in verdict.detail


# The parts


def rounds_of(*spans, verified=True):
    labels = {"precision": "bf16"}
    who = ("gemm", "n/gpu0#0", "n/gpu0", "measure")
    return Rounds.of_records(
        [Round(end, *who, end - begin, 1.0, TFLOP, verified, labels) for begin, end in spans]
    )


def test_a_gap_is_longer_than_the_grid_of_the_samples_explains():
    assert gaps_of(np.asarray([0.0, 0.1, 0.25, 0.41, 0.5]), 10.0).tolist() == [[0.25, 0.41]]
    assert not len(gaps_of(np.asarray([0.0, 1.0, 2.2]), 1.0))
    assert not len(gaps_of(np.empty(0), 10.0))


def test_the_host_ran_where_its_probe_woke_up_in_time():
    gaps, told_s = np.asarray([[1.0, 2.0], [3.0, 3.2], [5.0, 6.0]]), np.asarray([2.1, 3.4, 4.9])
    assert awake(gaps, told_s, np.asarray([0.7, 0.03, 0.01]), 10.0).tolist() == [True, True, False]
    assert awake(gaps, told_s, np.asarray([0.8, 0.05, 0.01]), 10.0).tolist() == [False, False, False]
    assert not awake(gaps, np.empty(0), np.empty(0), 10.0).any()


def test_the_host_ran_where_a_round_ended_in_the_gap():
    gap = np.asarray([[1.0, 2.0]])
    assert standstills(gap, np.asarray([0.9, 1.05, 1.95, 2.5]), 10.0).tolist() == gap.tolist()
    assert not len(standstills(gap, np.asarray([0.9, 1.5]), 10.0))


def test_the_rounds_that_it_cut_into_and_their_time_do_not_count():
    rounds, still = rounds_of((0.0, 0.9), (0.9, 1.1), (1.8, 2.2), (2.2, 3.0)), np.asarray([[1.0, 2.0]])
    cut = cut_into(rounds, still, 0.05)
    assert cut.tolist() == [False, True, True, False]
    assert cut_into(rounds, still, 0.6).tolist() == [False] * 4
    assert uncounted(rounds.only(cut), still).tolist() == [[0.9, 2.2]]
    both = np.asarray([[1.0, 2.0], [2.1, 2.3]])
    assert uncounted(rounds, both).tolist() == [[0.9, 3.0]]
    assert within(np.asarray([[0.9, 2.2], [5.0, 6.0]]), 2.0, 5.5) == pytest.approx(0.7)


def test_a_long_round_does_not_feel_it_and_a_wrong_one_always_counts():
    still = np.asarray([[1.0, 1.2]])
    assert not cut_into(rounds_of((0.0, 9.0)), still, 0.05).any()
    assert cut_into(rounds_of((0.0, 9.0)), still, 0.0).all()
    assert not cut_into(rounds_of((-np.inf, 9.0)), still, 0.0).any()
    assert not cut_into(rounds_of((0.9, 1.1), verified=False), still, 0.05).any()


@pytest.mark.parametrize(
    ("virtualization", "outcome"),
    [("passthrough", Outcome.NOT_MEASURED), ("none", Outcome.FAIL), (None, Outcome.FAIL)],
)
def test_a_virtual_machine_that_was_stopped_as_a_whole_is_no_failure_of_its_own(virtualization, outcome):
    """All of it stood still for 0.9 s. A machine of one's own that does so freezes by itself."""
    run = paused(sample("h200-x2-quick"), "sustained", 0.6, 0.9)
    run.gpus = {name: replace(one, virtualization=virtualization) for name, one in run.gpus.items()}
    evidence = Evidence(run, LoadedRig.restore(run.run.rig, KINDS))
    verdict = judge(CATALOGUE["host.responsiveness"], "vm", evidence)
    assert verdict.outcome is outcome
    assert ("the whole virtual machine stood still" in verdict.detail) == (outcome is Outcome.NOT_MEASURED)


def test_a_late_wake_up_while_a_virtual_machine_works_on_is_its_own():
    recording = sample("h200-x2-quick")
    run, its = copy(recording), recording.stages["sustained"]
    woke = next(one for one in recording.host_samples if one.t_s > its.loaded_from_s + 8).t_s
    run.host_samples = [
        replace(one, wakeup_delays_ms=(900.0,)) if one.t_s == woke else one for one in recording.host_samples
    ]
    evidence = Evidence(run, LoadedRig.restore(run.run.rig, KINDS))
    assert judge(CATALOGUE["host.responsiveness"], "vm", evidence).outcome is Outcome.FAIL
