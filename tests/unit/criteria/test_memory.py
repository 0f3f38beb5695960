from dataclasses import replace

import pytest

from rigproof.records.verdict import Outcome

GPU = "pc1/gpu0"
OOM, RATE, HEADROOM = "memory.no_oom", "memory.success_rate", "memory.headroom"
ECC, REMAP = "memory.ecc", "memory.row_remap"


def outcome(bench, criterion):
    verdict = bench.verdict(criterion, GPU)
    return verdict.outcome, verdict.required


def test_an_oom_that_was_recovered_fails_and_says_what_was_wanted(bench):
    bench.event("oom", GPU, "12 GiB wanted, 3 GiB free", 44.0, recovered=True)
    verdict = bench.verdict(OOM, GPU)
    assert (verdict.outcome, verdict.measured, verdict.from_s) == (Outcome.FAIL, 1, 44.0)
    assert verdict.detail == "12 GiB wanted, 3 GiB free"


def test_an_oom_that_only_the_allocator_counted_fails(bench):
    bench.recording.memory[2] = replace(bench.recording.memory[2], ooms=2)
    verdict = bench.verdict(OOM, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, 2)


def test_one_oom_is_not_counted_twice(bench):
    bench.event("oom", GPU, "12 GiB wanted")
    bench.recording.memory[2] = replace(bench.recording.memory[2], ooms=1)
    assert bench.verdict(OOM, GPU).measured == 1


def test_as_many_ooms_as_the_profile_allows_pass(bench):
    bench.limits(ooms=1)
    bench.event("oom", GPU, "12 GiB wanted")
    assert bench.verdict(OOM, GPU).outcome is Outcome.PASS


def test_an_allocation_that_needed_a_retry_warns(bench):
    bench.recording.memory[2] = replace(bench.recording.memory[2], alloc_retries=3)
    verdict = bench.verdict(OOM, GPU)
    assert (verdict.outcome, verdict.detail) == (
        Outcome.WARN,
        "3 allocations succeeded only after the cache was emptied",
    )


def test_a_worker_that_never_reported_its_memory_is_no_measurement(bench):
    bench.recording.memory = [one for one in bench.recording.memory if one.worker != "pc1/gpu0#1"]
    assert outcome(bench, OOM) == (Outcome.NOT_MEASURED, True)


@pytest.mark.parametrize(("failures", "expected"), [(10, Outcome.PASS), (11, Outcome.FAIL)])
def test_ninety_five_percent_of_tasks_must_end_well(bench, failures, expected):
    bench.drop("rounds", GPU)
    bench.event("task_succeeded", GPU, count=190)
    for number in range(failures):
        bench.event(("worker_failed", "worker_hung", "worker_died", "oom")[number % 4], GPU, "it broke")
    assert bench.verdict(RATE, GPU).outcome is expected


def test_rounds_count_as_tasks_whether_verified_or_not(bench):
    bench.rounds(GPU, "gemm", verified=False)
    assert bench.verdict(RATE, GPU).detail == "0 of 208 failed"


def test_no_tasks_at_all_are_no_measurement(bench):
    bench.drop("rounds", GPU)
    assert outcome(bench, RATE) == (Outcome.NOT_MEASURED, True)


@pytest.mark.parametrize(("free_mib", "expected"), [(512, Outcome.PASS), (511, Outcome.FAIL)])
def test_the_headroom_is_the_least_that_was_free_under_load(bench, free_mib, expected):
    bench.recording.memory[1] = replace(bench.recording.memory[1], device_free_mib=free_mib)
    verdict = bench.verdict(HEADROOM, GPU)
    assert (verdict.outcome, verdict.measured) == (expected, free_mib / 1024)


def test_free_memory_outside_the_load_is_not_judged(bench):
    bench.recording.memory[0] = replace(bench.recording.memory[0], t_s=28.0, device_free_mib=1)
    assert bench.verdict(HEADROOM, GPU).outcome is Outcome.PASS


def test_free_memory_that_was_never_read_is_no_measurement(bench):
    bench.recording.memory = [replace(one, device_free_mib=None) for one in bench.recording.memory]
    assert outcome(bench, HEADROOM) == (Outcome.NOT_MEASURED, True)


def test_free_memory_that_is_not_a_number_is_no_measurement(bench):
    nan = float("nan")
    for place, free_mib in ((0, nan), (1, 10_000.0)):
        bench.recording.memory[place] = replace(bench.recording.memory[place], device_free_mib=free_mib)
    assert outcome(bench, HEADROOM) == (Outcome.NOT_MEASURED, True)


def test_an_uncorrected_error_during_the_run_fails(bench):
    bench.counters(GPU, "before", ecc_uncorrected=2)
    bench.counters(GPU, "after", ecc_uncorrected=3)
    verdict = bench.verdict(ECC, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.FAIL, 1, 0)


def test_errors_from_before_the_run_do_not_count(bench):
    for moment in ("before", "after"):
        bench.counters(GPU, moment, ecc_uncorrected=2)
    assert bench.verdict(ECC, GPU).outcome is Outcome.PASS


def test_corrected_errors_during_the_run_warn(bench):
    bench.counters(GPU, "after", ecc_corrected=9)
    verdict = bench.verdict(ECC, GPU)
    assert (verdict.outcome, verdict.detail) == (Outcome.WARN, "5 corrected memory errors during the run")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_counter_that_is_missing_at_one_end_is_no_measurement(bench, moment):
    bench.counters(GPU, moment, ecc_uncorrected=None, remapped_uncorrectable=None)
    assert outcome(bench, ECC) == (Outcome.NOT_MEASURED, True)
    assert outcome(bench, REMAP) == (Outcome.NOT_MEASURED, True)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_counters_that_were_not_read_at_one_end_are_no_measurement(bench, moment):
    bench.recording.counters = [one for one in bench.recording.counters if one.moment != moment]
    assert outcome(bench, ECC) == (Outcome.NOT_MEASURED, True)
    assert outcome(bench, REMAP) == (Outcome.NOT_MEASURED, True)


def test_a_counter_that_went_back_is_no_measurement(bench):
    bench.counters(GPU, "before", ecc_uncorrected=5)
    assert outcome(bench, ECC) == (Outcome.NOT_MEASURED, True)


@pytest.mark.parametrize("enabled", [None, False])
def test_a_card_without_ecc_is_not_required_to_count_errors(bench, enabled):
    bench.gpu(GPU, ecc_enabled=enabled)
    for moment in ("before", "after"):
        bench.counters(GPU, moment, ecc_uncorrected=None, ecc_corrected=None, remapped_uncorrectable=None)
    assert outcome(bench, ECC) == (Outcome.NOT_MEASURED, False)
    assert outcome(bench, REMAP) == (Outcome.NOT_MEASURED, False)


def test_a_card_with_ecc_is_required_to_count_errors(bench):
    for moment in ("before", "after"):
        bench.counters(GPU, moment, ecc_uncorrected=None, remapped_uncorrectable=None)
    assert outcome(bench, ECC) == (Outcome.NOT_MEASURED, True)
    assert outcome(bench, REMAP) == (Outcome.NOT_MEASURED, True)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"remap_pending": True}, Outcome.FAIL),
        ({"remap_failed": True}, Outcome.FAIL),
        ({"remapped_uncorrectable": 511}, Outcome.WARN),
        ({"remapped_uncorrectable": 512}, Outcome.FAIL),
        ({"remapped_uncorrectable": 2}, Outcome.WARN),
        ({"remapped_correctable": 1}, Outcome.WARN),
        ({"remap_pending": None}, Outcome.NOT_MEASURED),
        ({"retired_pages": 10}, Outcome.PASS),
        ({"retired_pages": 11}, Outcome.WARN),
        ({"retired_pages": 63}, Outcome.FAIL),
    ],
)
def test_remapped_rows_and_retired_pages(bench, fields, expected):
    bench.counters(GPU, "after", **fields)
    assert bench.verdict(REMAP, GPU).outcome is expected


def test_rows_that_were_remapped_long_ago_pass(bench):
    for moment in ("before", "after"):
        bench.counters(GPU, moment, remapped_uncorrectable=200)
    assert bench.verdict(REMAP, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(3, 3, Outcome.PASS), (3, 4, Outcome.WARN), (60, 63, Outcome.FAIL), (None, 3, Outcome.NOT_MEASURED)],
)
def test_a_card_before_ampere_is_judged_by_its_retired_pages(bench, before, after, expected):
    for moment, pages in (("before", before), ("after", after)):
        bench.counters(
            GPU,
            moment,
            remapped_uncorrectable=None,
            remapped_correctable=None,
            remap_pending=None,
            remap_failed=None,
            retired_pages=pages,
        )
    assert bench.verdict(REMAP, GPU).outcome is expected
