from dataclasses import replace

import pytest

from rigproof.records.verdict import Outcome, sentence
from support.rig_profile import LIMITS, RIG

GPU = "pc1/gpu0"
OOM, HEADROOM = "memory.no_oom", "memory.headroom"
ECC, REMAP = "memory.ecc", "memory.row_remap"
UNEXPLAINED = "0.499 GiB, limit ≥ 0.500 GiB; not judged: others hold the rest, or the plan is too large"


def outcome(bench, criterion):
    return bench.verdict(criterion, GPU).outcome


def test_an_oom_of_a_card_that_is_not_there_is_not_ignored(bench):
    bench.event("oom", "pc1/gpu9", "12 GiB wanted, 3 GiB free", 44.0)
    verdict = bench.verdict(OOM, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail.endswith("of pc1/gpu9, which is no device of the rig or of the run")


def test_a_policy_that_recovered_from_every_oom_hides_none_of_them(bench):
    before = bench.verdict("memory.success_rate", GPU)
    for technique in ("allocator", "memory_fraction", "progressive_allocation", "periodic_cleanup"):
        bench.event("memory_policy", GPU, technique, 30.0, f"{GPU}#0", technique=technique)
    assert bench.verdict(OOM, GPU).outcome is Outcome.PASS
    assert bench.verdict("memory.success_rate", GPU) == before
    for number in range(3):
        bench.event("oom", GPU, "12 GiB wanted, 3 GiB free", 44.0 + number, f"{GPU}#0", recovered=True)
        bench.event("memory_policy", GPU, "target: 10 % less", 44.5 + number, technique="target")
    verdict = bench.verdict(OOM, GPU)
    assert (verdict.outcome, verdict.measured, verdict.from_s) == (Outcome.FAIL, 3, 44.0)
    assert verdict.detail == "12 GiB wanted, 3 GiB free"
    assert bench.verdict("memory.success_rate", GPU).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("reported", "counted", "allowed", "expected"),
    [(0, 2, 0, Outcome.FAIL), (1, 1, 0, Outcome.FAIL), (1, 0, 1, Outcome.PASS)],
)
def test_ooms_that_the_allocator_counted_and_that_were_reported_are_the_same_ones(
    bench, reported, counted, allowed, expected
):
    bench.limits(ooms=allowed)
    for _ in range(reported):
        bench.event("oom", GPU, "12 GiB wanted")
    bench.reading(2, ooms=counted)
    verdict = bench.verdict(OOM, GPU)
    assert (verdict.outcome, verdict.measured) == (expected, max(reported, counted))


def test_an_allocation_that_needed_a_retry_warns(bench):
    bench.reading(2, alloc_retries=3)
    assert bench.said(OOM, GPU) == (
        Outcome.WARN,
        "3 allocations succeeded only after the cache was emptied",
    )


@pytest.mark.parametrize(
    ("change", "expected", "detail"),
    [
        (lambda one: None, Outcome.NOT_MEASURED, "pc1/gpu0#1 never reported its memory"),
        (
            lambda one: replace(one, stage="gemm"),
            Outcome.NOT_MEASURED,
            "pc1/gpu0#1 never reported its memory",
        ),
        (
            lambda one: one if one.t_s < 60 else None,
            Outcome.NOT_MEASURED,
            "pc1/gpu0#1 last reported its memory at t=40 s; the load ended at t=70 s",
        ),
        (
            lambda one: replace(one, t_s=min(one.t_s, 64.9)),
            Outcome.NOT_MEASURED,
            "pc1/gpu0#1 last reported its memory at t=65 s; the load ended at t=70 s",
        ),
        (lambda one: replace(one, t_s=min(one.t_s, 65.0)), Outcome.PASS, ""),
    ],
)
def test_each_worker_reports_its_memory_up_to_the_last_five_seconds_of_the_load(
    bench, change, expected, detail
):
    read = [change(one) if one.worker == "pc1/gpu0#1" else one for one in bench.recording.memory]
    bench.recording.memory = [one for one in read if one is not None]
    assert bench.said(OOM, GPU) == (expected, detail)


@pytest.mark.parametrize("kind", ["worker_died", "worker_failed", "worker_hung"])
def test_a_worker_that_was_lost_is_no_measurement_however_late(bench, kind):
    bench.event(kind, GPU, "gone", 69.5, "pc1/gpu0#1")
    assert outcome(bench, OOM) is Outcome.NOT_MEASURED
    assert bench.verdict(OOM, GPU).detail == "pc1/gpu0#1 was lost at t=70 s: gone"


@pytest.mark.parametrize("field", ["ooms", "alloc_retries"])
def test_an_allocator_that_keeps_no_count_on_a_gpu_is_no_measurement(bench, field):
    bench.recording.memory = [replace(one, **{field: None}) for one in bench.recording.memory]
    assert outcome(bench, OOM) is Outcome.NOT_MEASURED
    assert "PYTORCH_CUDA_ALLOC_CONF" in bench.verdict(OOM, GPU).detail


PLANNED_MIB = 0.7 * 141 * 1024 / 2  # of each of two workers, in matrices of 2 MiB


def fill(bench, worker="pc1/gpu0#1", **data):
    """What a worker reported that it had filled."""
    for number, event in enumerate(bench.recording.events):
        if (event.kind, event.stage, event.worker) == ("allocation", "sustained", worker):
            bench.recording.events[number] = replace(event, data={**event.data, **data})


@pytest.mark.parametrize(
    ("short_mib", "expected"), [(0, Outcome.PASS), (1.9, Outcome.PASS), (3.1, Outcome.NOT_MEASURED)]
)
def test_less_than_the_plan_is_no_measurement_where_a_matrix_more_would_have_fitted(
    bench, short_mib, expected
):
    """Whatever the worker says that it aimed at."""
    fill(bench, allocated_mib=PLANNED_MIB - short_mib, target_mib=PLANNED_MIB - short_mib)
    assert bench.verdict(OOM, GPU).outcome is expected


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (
            {"allocated_mib": PLANNED_MIB / 2},
            "filled 25267 MiB where the plan gives it 50534, and no failed allocation explains it",
        ),
        ({"allocated_mib": None}, "did not report how much memory it filled"),
        ({"precision": "fp9"}, "did not report how much memory it filled"),
        (
            {"allocated_mib": float("nan")},
            "filled nan MiB where the plan gives it 50534, and no failed allocation explains it",
        ),
        (None, "did not report that its memory was filled"),
    ],
)
def test_a_worker_that_filled_half_or_does_not_say_how_much_is_no_measurement(bench, data, why):
    if data is None:
        kept = (one for one in bench.recording.events if (one.kind, one.worker) != ("allocation", f"{GPU}#1"))
        bench.recording.events = list(kept)
    else:
        fill(bench, **data)
    assert bench.said(OOM, GPU) == (Outcome.NOT_MEASURED, f"{GPU}#1 {why}")


def test_less_than_the_plan_after_an_allowed_oom_passes(bench):
    bench.limits(ooms=1)
    bench.event("oom", GPU, "12 GiB wanted", worker="pc1/gpu0#1", recovered=True)
    fill(bench, allocated_mib=PLANNED_MIB * 0.9)
    assert bench.verdict(OOM, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize(("free_mib", "expected"), [(512, Outcome.PASS), (511, Outcome.NOT_MEASURED)])
def test_the_headroom_is_the_least_that_was_free_under_load(bench, free_mib, expected):
    bench.reading(1, device_free_mib=free_mib)
    verdict = bench.verdict(HEADROOM, GPU)
    assert verdict.outcome is expected
    if expected is Outcome.PASS:
        assert verdict.measured == 0.5
    else:
        assert (verdict.detail, verdict.from_s) == (UNEXPLAINED, 40.0)
        assert "end other programs" in verdict.remedy


@pytest.mark.parametrize(
    ("others_mib", "expected"),
    [(412, Outcome.WARN), (411, Outcome.NOT_MEASURED), (None, Outcome.NOT_MEASURED)],
)
def test_headroom_that_is_missing_for_others_alone_warns_and_says_so(bench, others_mib, expected):
    bench.reading(1, device_free_mib=100)
    was = bench.recording.foreign_memory[GPU]
    bench.recording.foreign_memory[GPU] = replace(was, used_mib=others_mib)
    verdict = bench.verdict(HEADROOM, GPU)
    assert verdict.outcome is expected
    if expected is Outcome.WARN:
        assert verdict.detail.startswith("others held 0.40 GiB before the run")


@pytest.mark.parametrize(("t_s", "counts"), [(29.9, False), (30.0, True), (70.0, True), (70.1, False)])
def test_free_memory_counts_from_the_loads_begin_to_its_end(bench, t_s, counts):
    bench.recording.add(replace(bench.recording.memory[0], t_s=t_s, device_free_mib=1024.0))
    assert bench.recording.memory[0].subject == GPU
    assert (bench.verdict(HEADROOM, GPU).measured == 1.0) is counts


@pytest.mark.parametrize(
    ("free_mib", "why"),
    [
        (None, "free memory was not read under load"),
        (float("nan"), "free memory was not read under load"),
        (142 * 1024, "145408 MiB are said to be free, more than the card has"),
    ],
)
def test_free_memory_that_no_card_has_is_no_measurement(bench, free_mib, why):
    bench.recording.memory = [replace(one, device_free_mib=free_mib) for one in bench.recording.memory]
    assert bench.said(HEADROOM, GPU) == (Outcome.NOT_MEASURED, why)


@pytest.mark.parametrize(
    ("after", "expected", "new", "detail"),
    [
        ({}, Outcome.PASS, 0, ""),
        ({"ecc_uncorrected": 3}, Outcome.FAIL, 1, "uncorrected, during the run"),
        ({"ecc_corrected": 9}, Outcome.WARN, 0, "5 corrected memory errors during the run"),
    ],
)
def test_errors_of_the_run_count_and_not_those_from_before(bench, after, expected, new, detail):
    bench.counters(GPU, "before", ecc_uncorrected=2)
    bench.counters(GPU, "after", **{"ecc_uncorrected": 2} | after)
    verdict = bench.verdict(ECC, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit, verdict.detail) == (expected, new, 0, detail)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_counter_that_is_missing_at_one_end_or_went_back_is_no_measurement(bench, moment):
    bench.counters(GPU, "before", ecc_uncorrected=5)
    assert outcome(bench, ECC) is Outcome.NOT_MEASURED
    bench.counters(GPU, moment, ecc_uncorrected=None, remapped_uncorrectable=None)
    assert outcome(bench, ECC) is outcome(bench, REMAP) is Outcome.NOT_MEASURED
    bench.recording.counters = [one for one in bench.recording.counters if one.moment != moment]
    assert outcome(bench, ECC) is outcome(bench, REMAP) is Outcome.NOT_MEASURED


@pytest.mark.parametrize(
    ("sku", "enabled", "owed"),
    [
        ("h200", True, True),
        ("h200", None, True),  # a card that has ECC, whose mode could not be read either
        ("h200", False, False),
        ("rtx-3090", None, False),  # its file lists both
        ("unknown", True, True),
        ("unknown", None, False),
        ("unknown", False, False),
    ],
)
def test_which_cards_have_to_count_errors(bench, sku, enabled, owed):
    card = {"sku": sku, "workers": 2, "memory_gib": 141}
    bench.rig(nodes=[{"name": "pc1", "gpus": [card]}])
    bench.gpu(GPU, ecc_enabled=enabled)
    for moment in ("before", "after"):
        bench.counters(GPU, moment, ecc_uncorrected=None, ecc_corrected=None, remapped_uncorrectable=None)
    expected = Outcome.NOT_MEASURED if owed else Outcome.NOT_APPLICABLE
    assert outcome(bench, REMAP) is outcome(bench, ECC) is expected


def test_a_card_whose_ecc_is_on_must_count_errors_whatever_its_file_says(bench):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "rtx-3090", "workers": 2}]}])
    for moment in ("before", "after"):
        bench.counters(GPU, moment, ecc_uncorrected=None, remapped_uncorrectable=None)
    assert outcome(bench, ECC) is Outcome.NOT_MEASURED
    assert outcome(bench, REMAP) is Outcome.NOT_APPLICABLE


def test_errors_that_were_counted_are_judged_on_any_card(bench):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "rtx-3090", "workers": 2}]}])
    bench.gpu(GPU, ecc_enabled=None)
    bench.counters(GPU, "after", ecc_uncorrected=1, remap_failed=True)
    assert bench.verdict(ECC, GPU).outcome is bench.verdict(REMAP, GPU).outcome is Outcome.FAIL


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


PLANNED = [OOM, HEADROOM, "memory.success_rate", "distribution.workers_spread"]


@pytest.mark.parametrize("criterion", PLANNED)
@pytest.mark.parametrize("other", [{"vram_share": 0.5}, {"gemm_size": 2048}])
def test_work_that_another_profile_plans_was_not_done(bench, criterion, other):
    bench.judged_by(gpu_defaults=RIG["gpu_defaults"] | other)
    verdict = bench.verdict(criterion, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert "this run was planned with 2 workers of " in verdict.detail
    assert verdict.detail.endswith("; run again with that profile")


@pytest.mark.parametrize("criterion", PLANNED)
def test_another_number_of_workers_fails_no_healthy_rig(bench, criterion):
    nodes = [node | {"gpus": [gpu | {"workers": 1} for gpu in node["gpus"]]} for node in RIG["nodes"]]
    bench.judged_by(nodes=nodes)
    assert bench.verdict(criterion, GPU).outcome is Outcome.NOT_MEASURED
    assert bench.verdict(criterion, "pc2/gpu0").outcome is Outcome.PASS
    assert Outcome.FAIL not in {one.outcome for one in bench.verdicts()}


def test_another_profile_with_the_same_plan_judges_by_its_own_limit_and_by_the_runs_grid(bench):
    bench.judged_by(limits=LIMITS | {"headroom_gib": 140}, sampling={"rate_hz": 50})
    assert "limit ≥ 140 GiB" in bench.verdict(HEADROOM, GPU).detail
    for criterion in {*PLANNED, "thermal.core_temperature"} - {HEADROOM}:
        assert bench.verdict(criterion, GPU).outcome is Outcome.PASS, criterion


def test_torchs_own_advice_is_left_out_and_who_holds_the_rest_stays(bench):
    message = "CUDA out of memory. Tried to allocate 2.00 MiB. Process 5182 has 72.46 GiB memory in use."
    advice = "Of the allocated memory 6.03 GiB is allocated by PyTorch. Try expandable_segments:True"
    bench.event("oom", GPU, f"{message} {advice}", 44.0, holders=[])
    assert bench.verdict(OOM, GPU).detail == "2 MiB wanted"
    assert bench.verdict("memory.success_rate", GPU).detail.endswith("first: 2 MiB wanted")


def test_torchs_message_becomes_what_was_wanted_and_what_was_free(bench):
    torch = (
        "CUDA out of memory. Tried to allocate 128.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which "
        "72.00 MiB is free. Including non-PyTorch memory, this process has 139.60 GiB memory in use. Of the "
        "allocated memory 0.90 GiB is allocated by PyTorch. If reserved but unallocated memory is large try "
        "setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )
    holders = "pid 5263 (python3, user ml) holds 0.10 GiB"
    for t_s in (35.0, 36.0):
        bench.event("oom", GPU, f"{torch}; {holders}", t_s, holders=holders)
    assert sentence(bench.verdict(OOM, GPU)) == (
        f"{GPU} memory.no_oom: 2 OOMs, limit 0 (from t=35 s): 128 MiB wanted, 72 MiB free; {holders}. End "
        "that process, or lower `vram_share` in the rig profile."
    )


@pytest.mark.parametrize(
    ("free", "then", "words", "step"),
    [
        ("72.00 MiB", "", "128 MiB wanted, 72 MiB free. ", "Lower `vram_share` or the number of workers"),
        (
            "13.74 GiB",
            "11.00 GiB allowed; ",
            "128 MiB wanted, 13.7 GiB free, but this process may hold 11 GiB at most. ",
            "Lower `vram_share`, or raise the cap: `memory.fraction_share`",
        ),
        (
            "20.69 MiB",
            "Of the allocated memory 3.00 GiB is allocated by PyTorch, and 4.08 GiB is reserved by PyTorch "
            "but unallocated. If reserved but unallocated memory is large try setting it.",
            "128 MiB wanted, 20.7 MiB free, and 4.08 GiB held by torch in pieces that are too small. ",
            "Lower `vram_share`, or switch on `memory.expandable_segments`",
        ),
        (
            "900.00 MiB",  # somebody gave it back before torch looked
            "Of the allocated memory 3.00 GiB is allocated by PyTorch, and 4.00 MiB is reserved by PyTorch "
            "but unallocated.",
            "128 MiB wanted, 900 MiB free a moment later. ",
            "Lower `vram_share` or the number of workers",
        ),
        ("512.00 KiB", "", "128 MiB wanted, 512 KiB free. ", "Lower `vram_share` or the number of workers"),
    ],
)
def test_an_allocation_that_failed_beside_enough_memory_says_why(bench, free, then, words, step):
    torch = (
        "CUDA out of memory. Tried to allocate 128.00 MiB. GPU 0 has a total capacity of 23.68 GiB of which "
        f"{free} is free. Including non-PyTorch memory, this process has 9.10 GiB memory in use. {then}"
    )
    bench.event("oom", GPU, torch, 35.0)
    assert f": {words}{step}" in sentence(bench.verdict(OOM, GPU))


@pytest.mark.parametrize(
    ("spares", "expected", "words"),
    [
        ((3072, 0, 0, 0, 0), Outcome.PASS, ""),
        ((3000, 70, 2, 0, 0), Outcome.PASS, ""),
        ((3071, 0, 0, 1, 0), Outcome.WARN, "1 with few spare rows"),
        ((3069, 0, 0, 2, 1), Outcome.WARN, "1 with no and 2 with few spare rows"),
        (None, Outcome.PASS, ""),
    ],
)
def test_banks_that_run_out_of_spare_rows_warn(bench, spares, expected, words):
    bench.counters(GPU, "after", remap_spares=spares)
    verdict = bench.verdict(REMAP, GPU)
    assert verdict.outcome is expected
    assert verdict.detail.endswith(words)
