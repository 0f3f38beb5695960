"""Memory that ran out because others held it is not blamed on a card."""

import pytest

from rigproof.records.verdict import Outcome
from support.fault_changes import stranger_takes_memory

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
FAIL, NOT_MEASURED = Outcome.FAIL, Outcome.NOT_MEASURED


def outcomes(bench, *criteria, subject=GPU):
    return [bench.verdict(one, subject).outcome for one in criteria]


def test_memory_that_a_stranger_holds_is_reported_with_who_holds_how_much(bench):
    stranger_takes_memory(bench)
    bench.stranger(46.5, used_mib=[141_824])
    verdict = bench.verdict("memory.no_oom", GPU)
    assert verdict.outcome is NOT_MEASURED
    assert "pid 5263 (python3, user ml) held memory of this card from t=45 s on (138" in verdict.detail
    assert verdict.detail.endswith("so this is not the card's own: 1 OOM, limit 0, from t=50 s")
    assert outcomes(bench, "memory.success_rate", "memory.headroom") == [NOT_MEASURED, NOT_MEASURED]
    held = bench.verdict("memory.headroom", GPU).detail
    assert "limit ≥ 0.50 GiB; not judged: pid 5263 (python3, user ml) holds 138 GiB" in held


def test_an_oom_before_the_stranger_came_is_the_plan_s(bench):
    stranger_takes_memory(bench)
    bench.event("oom", GPU, "12 GiB wanted", 29, "pc1/gpu0#1")
    assert outcomes(bench, "memory.no_oom", "memory.success_rate") == [FAIL, FAIL]


def test_an_oom_names_who_held_memory_before_the_run_too(bench):
    bench.stranger(0.5, used_mib=[3174], sm_percent=[0])
    bench.event("oom", GPU, "12 GiB wanted", 40)
    verdict = bench.verdict("memory.no_oom", GPU)
    assert verdict.outcome is FAIL
    assert verdict.detail == "12 GiB wanted; pid 5263 (python3, user ml) holds 3.10 GiB"


WANTED = (
    "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of 139.80 GiB of which {} is free."
)
OWN = "Including non-PyTorch memory, this process has {} memory in use."


@pytest.mark.parametrize(("wanted", "outcome"), [("3.00 GiB", NOT_MEASURED), ("4.00 GiB", FAIL)])
def test_memory_that_ran_out_is_others_if_they_hold_what_was_missing(bench, wanted, outcome):
    """They were there before the run, and the plan seemed to fit beside them."""
    bench.stranger(0.5, used_mib=[3174])
    bench.event("oom", GPU, WANTED.format(wanted, "72.00 MiB"), 40)
    verdicts = [bench.verdict(name, GPU) for name in ("memory.no_oom", "memory.success_rate")]
    assert {one.outcome for one in verdicts} == {outcome}
    if outcome is NOT_MEASURED:
        assert all("pid 5263 (python3, user ml) holds 3.10 GiB" in one.detail for one in verdicts)


def test_memory_that_ran_out_is_the_card_s_if_others_held_too_little_once(bench):
    bench.stranger(0.5, used_mib=[3174])
    for wanted in ("3.00 GiB", "4.00 GiB"):
        bench.event("oom", GPU, WANTED.format(wanted, "72.00 MiB"), 40)
    assert bench.verdict("memory.no_oom", GPU).outcome is FAIL


@pytest.mark.parametrize(("own", "outcome"), [("100.00 GiB", NOT_MEASURED), ("137.00 GiB", FAIL)])
def test_whom_the_driver_does_not_list_torch_still_counts(bench, own, outcome):
    """A neighbouring container: the card is full, and neither we nor a process that is listed hold it."""
    worker = bench.plan().workers_of(OTHER)[0].worker
    bench.event("oom", OTHER, f"{WANTED.format('3.00 GiB', '0.50 GiB')} {OWN.format(own)}", 40, worker)
    verdict = bench.verdict("memory.no_oom", OTHER)
    assert verdict.outcome is outcome
    assert (outcome is FAIL) or "others hold 39.3 GiB of this card" in verdict.detail


@pytest.mark.parametrize(
    ("error", "own", "outcome"),
    [
        ("MemoryError: no room for operands of size 128", "1.00 GiB", NOT_MEASURED),
        ("MemoryError: no room for operands of size 128", "139.80 GiB", FAIL),  # the plan is too large
        ("RuntimeError: CUDA error: device-side assert triggered", "1.00 GiB", FAIL),
    ],
)
def test_a_task_without_memory_is_no_loss_of_the_rig_if_others_hold_it(bench, error, own, outcome):
    worker = bench.plan().workers_of(OTHER)[0].worker
    bench.event("oom", OTHER, f"{WANTED.format('32.00 MiB', '0.00 MiB')} {OWN.format(own)}", 40, worker)
    bench.event("worker_failed", OTHER, f"its task failed: {error}", 41, worker)
    verdict = bench.verdict("cluster.no_timeouts", "rig")
    assert verdict.outcome is outcome
    assert (outcome is FAIL) or "others hold 139 GiB of this card" in verdict.detail


def test_nor_is_it_if_another_worker_had_none_or_none_is_known_to_have_run_out(bench):
    worker = bench.plan().workers_of(OTHER)[0].worker
    bench.event("oom", OTHER, f"{WANTED.format('32.00 MiB', '0.00 MiB')} {OWN.format('1 GiB')}", 42, worker)
    bench.event("worker_failed", OTHER, "its task failed: MemoryError: no room", 41, worker)
    assert bench.verdict("cluster.no_timeouts", "rig").outcome is FAIL


def test_memory_that_others_held_does_not_excuse_a_wrong_result(bench):
    bench.stranger(0.5, used_mib=[3174])
    bench.event("oom", GPU, WANTED.format("3.00 GiB", "72.00 MiB"), 40)
    bench.event("wrong_result", GPU, "1 of 9 elements differ", 41, "pc1/gpu0#1")
    assert outcomes(bench, "memory.no_oom", "compute.exact") == [FAIL, FAIL]


def test_an_oom_that_names_its_holders_names_them_once(bench):
    bench.stranger(0.5, used_mib=[3174])
    bench.event("oom", GPU, "12 GiB wanted; pid 9 holds 3 GiB", 40, holders="pid 9 holds 3 GiB")
    assert bench.verdict("memory.no_oom", GPU).detail == "12 GiB wanted; pid 9 holds 3 GiB"
