"""Errors that the kernel counts on a card's link."""

from dataclasses import replace

import pytest

from rigproof.records.samples import PcieErrors
from rigproof.records.verdict import Outcome

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
ERRORS = "transfer.errors"


def recorded(bench, *records):
    """Only these readings of the GPU: time, card's correctable, and other fields."""
    kept = [one for one in bench.recording.of(PcieErrors) if one.subject != GPU]
    first = PcieErrors(2.0, GPU, 0, 0, 0, "0000:16:01.0", 0, 0, 0)
    made = [
        replace(first, t_s=float(t_s), correctable=count, **(more[0] if more else {}))
        for t_s, count, *more in records
    ]
    bench.recording.put(PcieErrors, [*kept, *made])


def test_errors_from_before_the_run_are_no_fault(bench):
    verdict = bench.verdict(ERRORS, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.PASS, 0, 32)


@pytest.mark.parametrize("field", ["fatal", "nonfatal", "port_fatal", "port_nonfatal"])
def test_one_lost_transaction_fails_at_either_end_of_the_link(bench, field):
    bench.pcie(GPU, 60, **{field: lambda one: getattr(one, field) + 1})
    verdict = bench.verdict(ERRORS, GPU)
    end = "the upstream port 0000:16:01.0" if field.startswith("port") else "the card"
    kind = "fatal" if field.endswith("_fatal") or field == "fatal" else "non-fatal"
    assert (verdict.outcome, verdict.detail) == (Outcome.FAIL, f"1 {kind} error of {end}")
    assert (verdict.measured, verdict.from_s) == (None, 60.0)
    assert bench.verdict(ERRORS, OTHER).outcome is Outcome.PASS


def test_a_rig_may_allow_some_of_them(bench):
    bench.pcie(GPU, 60, nonfatal=3)
    bench.limits(pcie_uncorrected=2)
    assert bench.verdict(ERRORS, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize(("more", "outcome"), [(32, Outcome.PASS), (33, Outcome.FAIL)])
@pytest.mark.parametrize("field", ["correctable", "port_correctable"])
def test_more_than_32_correctable_errors_in_a_minute_fail(bench, field, more, outcome):
    bench.pcie(GPU, 60, **{field: lambda one: getattr(one, field) + more})
    verdict = bench.verdict(ERRORS, GPU)
    assert (verdict.outcome, verdict.measured) == (outcome, more)


def test_a_burst_is_not_averaged_away_over_a_long_run(bench):
    bench.stage("sharing", end_s=3700.0)
    minutes = [(60 * number, 0) for number in range(1, 30)]
    burst = [(1800 + second, 2 * second) for second in range(1, 31)]
    recorded(bench, (2, 0), *minutes, *burst, *((1800 + 60 * number, 60) for number in range(1, 35)))
    verdict = bench.verdict(ERRORS, GPU)
    assert (verdict.outcome, verdict.measured, verdict.from_s) == (Outcome.FAIL, 60.0, 1770.0)


def test_as_many_over_many_minutes_are_few_in_each(bench):
    bench.stage("sharing", end_s=3600.0)
    recorded(bench, *((2 + 60 * number, 30 * number) for number in range(61)))
    assert bench.verdict(ERRORS, GPU).measured == 30.0


def test_a_kernel_that_counts_nothing_is_not_applicable(bench):
    nothing = dict.fromkeys(("fatal", "nonfatal", "correctable"))
    bench.pcie(GPU, **nothing, **{f"port_{name}": None for name in nothing})
    verdict = bench.verdict(ERRORS, GPU)
    assert verdict.outcome is Outcome.NOT_APPLICABLE
    assert "sysfs has no aer_dev_*" in verdict.detail


def test_a_port_that_is_not_counted_leaves_the_card_to_be_judged(bench):
    bench.pcie(GPU, **{f"port_{name}": None for name in ("fatal", "nonfatal", "correctable")})
    assert bench.verdict(ERRORS, GPU).outcome is Outcome.PASS
    bench.pcie(GPU, 60, correctable=100)
    assert bench.verdict(ERRORS, GPU).outcome is Outcome.FAIL


def test_no_record_at_all_is_not_measured_unless_the_recording_is_older_than_its_limit(bench):
    bench.recording.put(PcieErrors, [])
    assert bench.said(ERRORS, GPU) == (
        Outcome.NOT_MEASURED,
        "its node's agent recorded no PCIe errors, nor that it could not read any",
    )
    bench.limits(pcie_uncorrected=None, pcie_correctable_minute=None)
    assert bench.verdict(ERRORS, GPU).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("records", "outcome"),
    [
        ([(2, 0), (92, 0), (136, 0)], Outcome.PASS),  # one that came late by half a minute
        ([(9, 0), (60, 0, {"fatal": 1})], Outcome.FAIL),  # whatever else was missed
    ],
)
def test_a_late_reading_leaves_nothing_out_and_an_error_that_was_seen_counts(bench, records, outcome):
    recorded(bench, *records)
    assert bench.verdict(ERRORS, GPU).outcome is outcome


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([(9, 0), (60, 0), (136, 0)], "not read before the load"),
        ([(2, 0), (60, 0), (120, 0)], "not read after the load"),
        ([(2, 0), (136, 0)], "not read for 134 s, from t=2 s on"),
        ([(2, 5), (60, 0), (120, 0), (136, 0)], "of the card went back"),
        ([(2, 0), (60, 0), (120, None), (136, 0)], "of the card were not counted throughout"),
        ([(2, None), (60, 0), (120, 0), (136, 0)], "of the card were not counted throughout"),
    ],
)
def test_what_may_have_been_missed_does_not_pass(bench, records, reason):
    recorded(bench, *records)
    verdict = bench.verdict(ERRORS, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert reason in verdict.detail


def test_counts_that_stand_still_because_the_card_is_lost_do_not_pass(bench):
    bench.event("gpu_lost", GPU, "GPU is lost", t_s=50.0)
    assert bench.said(ERRORS, GPU) == (
        Outcome.NOT_MEASURED,
        "nothing crossed its link from t=50 s on: GPU is lost",
    )


@pytest.mark.parametrize("limit", ["pcie_uncorrected", "pcie_correctable_minute"])
def test_without_a_limit_nothing_passes(bench, limit):
    bench.limits(**{limit: None})
    assert bench.verdict(ERRORS, GPU).outcome is Outcome.NOT_MEASURED
