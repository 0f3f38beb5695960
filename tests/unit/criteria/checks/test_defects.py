import pytest

from rigproof.records.verdict import Outcome

GPU, DEFECTS = "pc1/gpu0", "health.defects"
NOTHING = {
    "sram_threshold_exceeded": None,
    "inforom_valid": None,
    "channel_repair_pending": None,
    "tpc_repair_pending": None,
}


def test_a_card_that_reports_no_defect_passes(bench):
    assert bench.said(DEFECTS, GPU) == (Outcome.PASS, "the card reports none")


@pytest.mark.parametrize(
    ("report", "what", "step"),
    [
        (
            {"sram_threshold_exceeded": True},
            "caches (SRAM) exceed NVIDIA's threshold",
            "have the card replaced",
        ),
        ({"inforom_valid": False}, "the checksum of its InfoROM is wrong", "have its InfoROM restored"),
        ({"channel_repair_pending": True}, "a memory channel is waiting", "reset the GPU"),
        ({"tpc_repair_pending": True}, "a compute unit (TPC) is waiting", "reset the GPU"),
    ],
)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_each_defect_fails_with_its_own_next_step(bench, report, what, step, moment):
    bench.counters(GPU, moment, **report)
    verdict = bench.verdict(DEFECTS, GPU)
    assert verdict.outcome is Outcome.FAIL
    assert what in verdict.detail
    assert verdict.detail.endswith(f"{moment} the load")
    assert step in verdict.remedy


def test_a_driver_that_reports_none_of_them_does_not_apply(bench):
    for moment in ("before", "after"):
        bench.counters(GPU, moment, **NOTHING)
    assert bench.verdict(DEFECTS, GPU).outcome is Outcome.NOT_APPLICABLE
    bench.event("nvml_error", GPU, "Unknown Error", query="nvmlDeviceGetRepairStatus", code=999)
    assert bench.verdict(DEFECTS, GPU).outcome is Outcome.NOT_MEASURED


def test_a_driver_that_reports_some_of_them_is_judged_by_these(bench):
    for moment in ("before", "after"):
        bench.counters(GPU, moment, **NOTHING | {"inforom_valid": True})
    assert bench.verdict(DEFECTS, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize("lost", NOTHING)
def test_what_was_reported_before_the_load_has_to_be_reported_after_it(bench, lost):
    bench.counters(GPU, "after", **{lost: None})
    assert bench.verdict(DEFECTS, GPU).outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize("moment", ["before", "after"])
def test_reports_of_one_end_of_the_run_alone(bench, moment):
    bench.recording.counters = [one for one in bench.recording.counters if one.moment == moment]
    expected = Outcome.NOT_MEASURED if moment == "before" else Outcome.PASS
    assert bench.verdict(DEFECTS, GPU).outcome is expected
