"""A rate is not blamed on a card as far as a stranger, or who ended its worker, can have taken it."""

from dataclasses import replace

import pytest

from rigproof.records.verdict import Outcome
from support.fault_changes import stranger_computes

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
UNDISTURBED, SUSTAINED, STABILITY = "activity.undisturbed", "throughput.sustained", "throughput.stability"
FAIL, PASS, NOT_MEASURED, NO_LIMIT = Outcome.FAIL, Outcome.PASS, Outcome.NOT_MEASURED, Outcome.NO_LIMIT


def outcomes(bench, *criteria, subject=GPU):
    return [bench.verdict(one, subject).outcome for one in criteria]


def test_a_rate_that_a_stranger_took_is_not_measured_with_its_name(bench):
    stranger_computes(bench)
    verdict = bench.verdict(STABILITY, GPU)
    assert (verdict.outcome, verdict.measured) == (NOT_MEASURED, None)
    assert verdict.detail.startswith("pid 5263 (python3, user ml) computed on this card from t=60 s on")
    assert "limit ≥ 95 %" in verdict.detail


def test_without_the_stranger_the_same_rate_is_the_card_s(bench):
    bench.slow(GPU, 0.5, from_s=60)
    assert bench.verdict(STABILITY, GPU).outcome is FAIL


def test_a_pass_stays_a_pass(bench):
    bench.stranger(45, sm_percent=[60])
    bad = [one for one in bench.verdicts() if one.outcome not in (PASS, NO_LIMIT)]
    assert [(one.criterion, one.outcome) for one in bad] == [(UNDISTURBED, NOT_MEASURED)]


@pytest.mark.parametrize(
    "fields",
    [
        {"from_s": 94, "gone_s": 110, "sm_percent": [60]},  # in another stage
        {"from_s": 45, "subject": OTHER, "sm_percent": [60]},
        {"from_s": 45, "sm_percent": [1]},  # it rests
    ],
)
def test_a_stranger_that_did_not_compute_here_and_then_explains_no_rate(bench, fields):
    bench.slow(GPU, 0.5)
    bench.stranger(**fields)
    assert outcomes(bench, SUSTAINED) == [FAIL]
    assert outcomes(bench, UNDISTURBED, subject=fields.get("subject", GPU)) == [NOT_MEASURED]


def test_where_it_is_unknown_who_uses_the_sms_a_stranger_explains_a_rate_by_being_there(bench):
    bench.slow(GPU, 0.5, from_s=45)
    bench.watched(GPU, sm_readable=False)
    bench.stranger(45, sm_percent=[None])
    assert bench.verdict(SUSTAINED, GPU).outcome is NOT_MEASURED


# The sustained stage is from 26 to 71 s; the list is read every 1.1 s.


@pytest.mark.parametrize(
    ("from_s", "gone_s", "percent", "outcome"),
    [
        (40, 41, 6, FAIL),
        (40, 41, 100, FAIL),
        (40, 41, None, FAIL),
        (40, 43, 100, FAIL),
        (40, 55, 6, FAIL),  # as long as half of it takes, but it was as slow before and after
        (40, 55, None, FAIL),
        (26, None, 6, NOT_MEASURED),
        (15, 25.9, 100, FAIL),
        (73, 80, 100, FAIL),
    ],
)
def test_a_stranger_explains_no_more_of_the_sustained_rate_than_it_can_have_taken(
    bench, from_s, gone_s, percent, outcome
):
    """All of the card while it was there, whatever it used of the SMs, and nothing of any other time."""
    bench.slow(GPU, 0.5)
    bench.stranger(from_s, gone_s=gone_s, sm_percent=[percent])
    assert bench.verdict(SUSTAINED, GPU).outcome is outcome


@pytest.mark.parametrize(("percent", "elsewhere", "outcome"), [(6, 1, NOT_MEASURED), (6, 0.5, FAIL)])
def test_it_explains_the_rate_that_was_low_while_it_was_there(bench, percent, elsewhere, outcome):
    bench.slow(GPU, elsewhere)
    bench.rounds(GPU, "sustained", 39, 55, work=lambda one: one.work * 0.1)
    bench.stranger(40, gone_s=55, sm_percent=[percent])
    assert bench.verdict(SUSTAINED, GPU).outcome is outcome


@pytest.mark.parametrize(
    ("share", "gone_s", "outcome"), [(0.3, 41, FAIL), (0.3, 55, FAIL), (0.5, 55, NOT_MEASURED)]
)
def test_so_it_does_of_the_rig_s_sum(bench, share, gone_s, outcome):
    """Of this card's part in it alone: in 16 of 40 s it can have taken half of that, and not two thirds."""
    bench.slow(GPU, share)
    bench.stranger(40, gone_s=gone_s, sm_percent=[60])
    assert bench.verdict("throughput.combined", "rig").outcome is outcome


def test_two_brief_strangers_explain_more_than_one(bench):
    for from_s, to_s in ((29, 36), (38, 50)):
        bench.rounds(GPU, "sustained", from_s, to_s, work=lambda one: one.work * 0.03)
    bench.stranger(30, gone_s=33, sm_percent=[60])
    assert bench.verdict(SUSTAINED, GPU).outcome is FAIL
    bench.stranger(40, gone_s=46, pid=6000, sm_percent=[60])
    assert bench.verdict(SUSTAINED, GPU).outcome is NOT_MEASURED


def test_one_that_was_there_before_may_have_computed_for_five_readings_until_it_is_seen_to(bench):
    bench.slow(GPU, 0.5, from_s=56)
    bench.stranger(0.5, sm_percent=[0])
    bench.stranger(61, sm_percent=[20])
    assert bench.verdict(STABILITY, GPU).outcome is NOT_MEASURED


@pytest.mark.parametrize(("gone_s", "outcome"), [(50, FAIL), (65, FAIL), (68.5, NOT_MEASURED)])
def test_a_stranger_that_had_gone_when_the_rate_fell_explains_nothing(bench, gone_s, outcome):
    """The last quarter begins at 64.4 s."""
    bench.slow(GPU, 0.5, from_s=60)
    bench.stranger(30, gone_s=gone_s, sm_percent=[60])
    assert bench.verdict(STABILITY, GPU).outcome is outcome


# Of the gemm stage, from 5 to 25 s, fp32 is measured from 7.5 to 10 s.


@pytest.mark.parametrize(
    ("from_s", "gone_s", "share", "outcome"),
    [
        (9.5, 10, 0.5, NOT_MEASURED),  # it can have been there for 1.6 s
        (9.5, 10, 0.1, FAIL),
        (6, 9.5, 0.1, NOT_MEASURED),
        (11.2, 20, 0.5, FAIL),  # while other precisions were measured
        (15, None, 0.5, FAIL),
    ],
)
def test_a_stranger_explains_of_a_rate_only_what_it_can_have_taken_while_that_was_measured(
    bench, from_s, gone_s, share, outcome
):
    bench.slow(GPU, share, stage="gemm")
    bench.stranger(from_s, gone_s=gone_s, sm_percent=[60])
    assert bench.verdict("throughput.gemm_fp32", GPU).outcome is outcome


def test_the_rig_s_sum_is_explained_by_a_card_s_stranger(bench):
    bench.slow(GPU, 0.3)
    bench.stranger(31, sm_percent=[70])
    assert bench.verdict("throughput.combined", "rig").outcome is NOT_MEASURED


@pytest.mark.parametrize("kind", ["wrong_result", "worker_died", "worker_hung", "worker_failed", "gpu_lost"])
def test_what_no_stranger_can_do_stays_the_card_s(bench, kind):
    stranger_computes(bench)
    bench.event(kind, GPU, "it happened", 61, "pc1/gpu0#1")
    assert bench.verdict(STABILITY, GPU).outcome is FAIL


def test_heat_is_not_a_stranger_s_doing(bench):
    bench.stranger(45, sm_percent=[60])
    bench.samples(GPU, 50, 60, core_temperature_c=88, clock_event_reasons=0x40)
    assert outcomes(bench, "thermal.core_temperature", "thermal.throttle") == [FAIL, FAIL]


# A worker that others ended: of two on this card, the first one

WORKER = "pc1/gpu0#0"


def killed(bench, t_s, **fields):
    """By Ray's monitor, and not replaced."""
    bench.lose(WORKER, "worker_died", "it is gone", t_s)
    bench.recording.events[-1] = replace(bench.recording.events[-1], data={"disturbed": "free RAM"}, **fields)


@pytest.mark.parametrize(
    ("t_s", "share", "outcome"),
    [
        (50, 0.8, NOT_MEASURED),
        (50, 0.6, FAIL),
        (32, 0.8, NOT_MEASURED),
        (32, 0.5, FAIL),  # the other worker was slow as well
        (69, 0.5, FAIL),
    ],
)
def test_a_worker_that_others_ended_explains_the_work_that_it_did_not_do(bench, t_s, share, outcome):
    bench.slow(GPU, share)
    killed(bench, t_s)
    assert outcomes(bench, SUSTAINED) == [outcome]


def test_a_rate_that_was_measured_before_a_worker_was_ended_is_the_card_s(bench):
    bench.slow(GPU, 0.5, stage="gemm")
    killed(bench, 24, stage="gemm")
    assert bench.verdict("throughput.gemm_fp32", GPU).outcome is FAIL


def test_a_worker_that_others_ended_explains_nothing_of_another_card(bench):
    bench.slow(OTHER, 0.5)
    killed(bench, 50)
    assert bench.verdict(SUSTAINED, OTHER).outcome is FAIL


def test_a_card_that_stood_idle_before_its_worker_was_ended_is_to_blame(bench):
    """The loss can have been noticed 10 s late, and not more."""
    worker = "pc2/gpu0#0"
    for lost_s, outcome in ((39, NOT_MEASURED), (60, FAIL)):
        bench.recording.rounds = [
            one for one in bench.recording.rounds if (one.stage, one.subject) != ("sustained", OTHER)
        ]
        bench.event("worker_died", OTHER, "it is gone", lost_s, worker, disturbed="free RAM")
        assert bench.verdict("activity.gpu_active", OTHER).outcome is outcome
        bench.recording.events.pop()
