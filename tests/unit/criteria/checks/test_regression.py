"""A card is held against its own earlier runs, which the recording has; its sisters are the control."""

from dataclasses import replace

import pytest

from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.records.earlier import Earlier, EarlierRate, EarlierRates, earlier_event
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome, sentence
from support.fault_changes import GPU, OTHER, sag
from support.peers import make_peers, subject_of

REGRESSION = "history.regression"
FAIL, WARN, PASS, NO_LIMIT = Outcome.FAIL, Outcome.WARN, Outcome.PASS, Outcome.NO_LIMIT
NOT_MEASURED = Outcome.NOT_MEASURED
SHARES = (1.0, 1.002, 0.999, 1.001, 0.998, 1.0, 1.001, 0.999)
BF16, SUSTAINED = "gemm_bf16_tflops", "sustained_tflops"


def past(rate, number=8, figure=BF16, others="", size=1024, **more):
    runs = tuple(EarlierRate(f"run-{place}", rate * one, **more) for place, one in enumerate(SHARES[:number]))
    return EarlierRates(figure, "TFLOP/s", {"precision": ["bf16"], "size": [size]}, runs, others)


def record(bench, subject, *figures, problems=()):
    bench.recording.events.append(earlier_event(subject, Earlier(figures, problems), 5.0))


def judged(bench, subject=GPU):
    """By all criteria: what others measured is what it compares."""
    (found,) = [one for one in bench.verdicts() if (one.criterion, one.subject) == (REGRESSION, subject)]
    return found


def rate_of(bench, subject=GPU, figure=BF16):
    return next(
        rate.value
        for one in bench.verdicts()
        for rate in one.rates
        if (one.subject, rate.figure) == (subject, figure)
    )


def test_without_earlier_runs_it_is_no_limit_and_says_how_many_are_needed(bench):
    found = judged(bench)
    assert found.outcome is NO_LIMIT
    assert found.detail == "too few to tell: 0 of 5 earlier runs under the same conditions"


def test_below_five_runs_it_says_what_the_others_were_under(bench):
    record(bench, GPU, past(900.0, 4, others="9 others had driver 570.1"))
    assert judged(bench).outcome is NO_LIMIT
    assert judged(bench).detail == (
        "too few to tell: 4 of 5 earlier runs of gemm_bf16_tflops under the same conditions; "
        "9 others had driver 570.1"
    )


def test_a_card_as_fast_as_before_passes_and_says_against_what(bench):
    record(bench, GPU, past(rate_of(bench)))
    found = judged(bench)
    assert (found.outcome, found.unit) == (PASS, "TFLOP/s")
    assert found.measured >= found.limit == pytest.approx(0.98 * rate_of(bench), rel=2e-3)
    assert found.detail.endswith("of 8 earlier runs; 1 figure compared")
    assert judged(bench, OTHER).outcome is NO_LIMIT


@pytest.mark.parametrize("figure", [BF16, SUSTAINED])
def test_a_card_that_lost_five_percent_fails_by_name_with_what_it_did_before(bench, figure):
    now = rate_of(bench, figure=figure)
    record(bench, GPU, past(now / 0.95, figure=figure, sm_clock_mhz=1800.0))
    found = judged(bench)
    assert found.outcome is FAIL
    assert found.measured == pytest.approx(now)
    assert found.detail.startswith(f"{figure} -5 % of 8 earlier runs; ")
    assert " MHz; no card alike to compare with" in found.detail
    assert len(sentence(found)) <= 255


def test_what_is_slower_by_less_than_the_share_passes(bench):
    record(bench, GPU, past(rate_of(bench) / 0.985))
    assert judged(bench).outcome is PASS


def test_other_work_is_not_compared(bench):
    record(bench, GPU, past(2000.0, size=4096))
    assert judged(bench).outcome is NO_LIMIT
    assert judged(bench).detail.startswith("too few to tell: 0 of 5")


def host_paced(bench, subject=GPU):
    bench.rounds(subject, "gemm", host_paced=lambda one: one.label("precision") == "bf16")


def test_a_rate_that_its_host_lowered_is_not_the_cards_loss(bench):
    record(bench, GPU, past(2 * rate_of(bench)))
    assert judged(bench).outcome is FAIL
    host_paced(bench)
    found = judged(bench)
    assert found.outcome is NOT_MEASURED
    assert "waited for its host to launch products of size 1024" in found.detail
    assert "gemm_size" in found.remedy
    bench.limits(launch_ms=0.0001)  # a host that is itself too slow
    assert judged(bench).outcome is FAIL


def test_a_rate_that_its_host_set_passes_if_it_is_no_lower(bench):
    record(bench, GPU, past(rate_of(bench)))
    host_paced(bench)
    assert judged(bench).outcome is PASS


def test_other_rates_that_the_host_set_are_no_excuse(bench):
    now = rate_of(bench, figure="gemm_fp32_tflops")
    fp32 = past(now / 0.95, figure="gemm_fp32_tflops")
    record(bench, GPU, replace(fp32, labels={"precision": ["fp32"], "size": [1024]}))
    bench.rounds(GPU, "gemm", host_paced=lambda one: one.label("precision") != "fp32")
    found = judged(bench)
    assert (found.outcome, found.measured) == (FAIL, now)


@pytest.mark.parametrize("share", [0.9, 1.0])
def test_a_rate_that_its_host_lowered_more_hides_no_loss_of_the_card(bench, share):
    now = rate_of(bench, figure="gemm_fp32_tflops")
    fp32 = past(now / share, figure="gemm_fp32_tflops")
    record(
        bench, GPU, past(2 * rate_of(bench)), replace(fp32, labels={"precision": ["fp32"], "size": [1024]})
    )
    host_paced(bench)
    found = judged(bench)
    assert found.outcome is (FAIL if share < 1 else NOT_MEASURED)
    assert found.measured == (now if share < 1 else None)


@pytest.mark.parametrize("slow", [0.95, 1.0])
def test_a_file_that_cannot_be_read_keeps_a_pass_from_being_one(bench, slow):
    problem = "history/lab/0003_x.json: left out: no JSON; move it out of this folder"
    record(bench, GPU, past(rate_of(bench) / slow), problems=(problem,))
    found = judged(bench)
    assert found.outcome is (FAIL if slow < 1 else WARN)
    assert problem in found.detail


def test_only_unreadable_files_are_told_too(bench):
    record(bench, GPU, problems=("history/lab/0001_x.json: left out: no JSON",))
    assert judged(bench).outcome is NO_LIMIT
    assert judged(bench).detail.startswith("history/lab/0001_x.json: left out")


def test_a_figure_of_before_that_was_not_measured_now_is_not_passed_over(bench):
    record(bench, GPU, past(660.0), past(650.0, figure=SUSTAINED))
    bench.recording.rounds = [one for one in bench.recording.rounds if one.stage != "sustained"]
    found = judged(bench)
    assert found.outcome is NOT_MEASURED
    assert "sustained_tflops was not measured" in found.detail


@pytest.mark.parametrize("data", [{}, {"figures": [{"figure": "x"}]}, {"figures": 5}])
def test_a_damaged_event_is_not_measured(bench, data):
    bench.recording.events.append(Event(5.0, "earlier_rates", GPU, "", data=data))
    found = judged(bench)
    assert (found.outcome, found.detail) == (
        NOT_MEASURED,
        "what was recorded of earlier runs is damaged",
    )


def test_a_profile_of_before_has_no_such_limits(bench):
    record(bench, GPU, past(900.0))
    bench.limits(regression_runs=None)
    assert judged(bench).detail == "the profile has no limits.regression_runs"


def test_what_others_took_is_not_the_card_s_own(bench):
    now = rate_of(bench, figure=SUSTAINED)
    record(bench, GPU, past(now, figure=SUSTAINED))
    sag(bench, share=0.5)
    assert judged(bench).outcome is FAIL
    bench.stranger(60, sm_percent=[4, 48])
    found = judged(bench)
    assert found.outcome is NOT_MEASURED
    assert found.detail.startswith("pid 5263")
    assert found.remedy


def test_the_cpu_as_the_device_warns_since_others_use_it_too(bench, monkeypatch):
    monkeypatch.setattr(DeviceEvidence, "is_cpu", property(lambda _: True))
    record(bench, GPU, past(rate_of(bench) / 0.9))
    found = judged(bench)
    assert found.outcome is WARN
    assert found.detail.startswith("gemm_bf16_tflops -10 % of 8 earlier runs")
    assert (found.remedy.partition(",")[0], found.severity) == (
        "find who else uses this CPU (if virtual",
        "warn",
    )


@pytest.fixture
def eight(bench):
    """Eight equal cards, each with the same history, of which it lost 4 %."""
    make_peers(bench, 8)
    now = rate_of(bench, subject_of(0))
    for index in range(8):
        record(bench, subject_of(index), past(now / 0.96))
    return bench


def test_all_cards_of_a_kind_together_are_a_condition_and_no_card(eight):
    found = judged(eight, subject_of(3))
    assert found.outcome is WARN
    assert "so did 7 other cards alike: a condition, no card" in found.detail
    assert found.remedy.startswith("find what changed for all:")
    assert found.severity == "config"
    assert len(sentence(found)) <= 255


def test_one_card_beside_sound_sisters_fails_alone(eight):
    now = rate_of(eight, subject_of(0))
    eight.recording.events = [one for one in eight.recording.events if one.kind != "earlier_rates"]
    for index in range(8):
        record(eight, subject_of(index), past(now / (0.96 if index == 3 else 1.0)))
    outcomes = {index: judged(eight, subject_of(index)).outcome for index in range(8)}
    assert outcomes == {index: FAIL if index == 3 else PASS for index in range(8)}
    assert "7 of 7 other cards alike did not" in judged(eight, subject_of(3)).detail


def test_sisters_that_were_no_slower_though_their_host_set_their_pace_are_a_control(eight):
    now = rate_of(eight, subject_of(0))
    eight.recording.events = [one for one in eight.recording.events if one.subject != subject_of(0)]
    record(eight, subject_of(0), past(now))
    assert "1 of 7 other cards alike did not" in judged(eight, subject_of(3)).detail
    host_paced(eight, subject_of(0))
    found = judged(eight, subject_of(3))
    assert found.outcome is FAIL
    assert "1 of 7 other cards alike did not" in found.detail


def test_what_all_cards_lost_hides_no_figure_that_the_host_lowered(eight):
    now = rate_of(eight, subject_of(0), "gemm_fp32_tflops")
    fp32 = past(now / 0.9, figure="gemm_fp32_tflops")
    for index in range(8):
        old = next(one for one in eight.recording.events if one.subject == subject_of(index))
        eight.recording.events.remove(old)
        figures = past(rate_of(eight, subject_of(0)) / 0.96), replace(fp32, labels={"precision": ["fp32"]})
        record(eight, subject_of(index), *figures)
    assert judged(eight, subject_of(3)).outcome is WARN
    host_paced(eight, subject_of(3))
    assert judged(eight, subject_of(3)).outcome is NOT_MEASURED


@pytest.mark.parametrize("lost", [0.5, 0.96])
def test_what_all_cards_lost_hides_no_loss_of_one_card(eight, lost):
    """Whether the card's own loss is the larger one, or that of all."""
    now = rate_of(eight, subject_of(0), SUSTAINED)
    eight.recording.events = [one for one in eight.recording.events if one.kind != "earlier_rates"]
    for index in range(8):
        own = past(now / (0.94 if index == 3 else 1.0), figure=SUSTAINED)
        record(eight, subject_of(index), past(rate_of(eight, subject_of(0)) / lost), own)
    outcomes = {index: judged(eight, subject_of(index)).outcome for index in range(8)}
    assert outcomes == {index: FAIL if index == 3 else WARN for index in range(8)}
    assert judged(eight, subject_of(3)).detail.startswith("sustained_tflops -6 % ")


def test_two_of_eight_are_cards_too(eight):
    eight.recording.events = [
        replace(one, data=one.data | {"figures": []})
        if one.kind == "earlier_rates" and one.subject not in (subject_of(1), subject_of(2))
        else one
        for one in eight.recording.events
    ]
    now = rate_of(eight, subject_of(0))
    record(eight, subject_of(5), past(now))
    assert judged(eight, subject_of(1)).outcome is FAIL
    assert "1 of 2 other cards alike did not" in judged(eight, subject_of(1)).detail


def attempts(bench, shares, waited=()):
    """The sustained stage as so many attempts, with shares of its rates; the host set the pace of some."""
    last = bench.recording.stages["sustained"]
    width_s = (last.loaded_to_s - last.loaded_from_s) / len(shares)
    begins_s = [last.start_s, *(last.loaded_from_s + place * width_s for place in range(1, len(shares)))]
    record(bench, GPU, past(rate_of(bench, figure=SUSTAINED), figure=SUSTAINED))
    for place, share in enumerate(shares):
        to_s = begins_s[place + 1] if place + 1 < len(shares) else 1e9
        bench.recording.rounds = [
            replace(one, work=one.work * share, host_paced=place in waited)
            if one.stage == "sustained" and one.subject == GPU and begins_s[place] <= one.t_s < to_s
            else one
            for one in bench.recording.rounds
        ]
    ends_s = [*begins_s[1:], last.end_s]
    every = [
        replace(
            last,
            start_s=begin_s,
            end_s=end_s,
            loaded_from_s=max(begin_s + 1, last.loaded_from_s),
            loaded_to_s=end_s - 1,
        )
        for begin_s, end_s in zip(begins_s, ends_s, strict=True)
    ]
    bench.recording.stages["sustained"] = every[-1]
    bench.recording.earlier_attempts["sustained"] = tuple(every[:-1])


@pytest.mark.parametrize(
    ("shares", "outcome"),
    [
        ((0.95, 1.0), WARN),  # once only
        ((0.95, 1.0, 1.0, 1.0), WARN),
        ((0.95, 0.95, 1.0, 1.0), WARN),
        ((0.95, 0.95, 0.95, 1.0), FAIL),
        ((0.95, 0.95, 0.95, 0.95), FAIL),
        ((1.0, 1.0), PASS),
    ],
)
def test_the_median_of_all_attempts_counts_and_a_low_one_warns(bench, shares, outcome):
    attempts(bench, shares)
    found = judged(bench)
    assert found.outcome is outcome
    assert f"in {len(shares)} attempts" in found.detail


@pytest.mark.parametrize(
    ("shares", "waited", "outcome"),
    [
        ((0.5, 0.5, 0.5, 1.0), {0, 1, 2}, PASS),  # by the card's own pace it is as fast as before
        ((0.5, 0.95, 0.95), {0}, FAIL),  # and it is not
        ((0.95, 1.0), {1}, WARN),  # so fast is the card at least
        ((0.5, 1.0), {0, 1}, PASS),
        ((0.5, 0.5), {0, 1}, NOT_MEASURED),
    ],
)
def test_what_the_host_lowered_is_no_attempt_of_the_card(bench, shares, waited, outcome):
    attempts(bench, shares, waited)
    assert judged(bench).outcome is outcome
