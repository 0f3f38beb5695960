"""Strangers on a card are named, and what they explain is not blamed on it; all else stays the card's."""

from dataclasses import replace

import pytest

from rigproof.records.processes import GpuProcess
from rigproof.records.verdict import Outcome
from support.fault_changes import stranger_computes, stranger_crashes, stranger_takes_memory

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
UNDISTURBED, SUSTAINED, STABILITY = "activity.undisturbed", "throughput.sustained", "throughput.stability"
FAIL, WARN, PASS, NOT_MEASURED = Outcome.FAIL, Outcome.WARN, Outcome.PASS, Outcome.NOT_MEASURED


def outcomes(bench, *criteria, subject=GPU):
    return [bench.verdict(one, subject).outcome for one in criteria]


# Who is a stranger


def test_a_stranger_is_named_with_pid_program_user_memory_and_time(bench):
    bench.stranger(31, gone_s=52, used_mib=[520, 1229], sm_percent=[4, 48])
    verdict = bench.verdict(UNDISTURBED, GPU)
    assert (verdict.outcome, verdict.from_s) == (NOT_MEASURED, 31)
    assert verdict.detail == (
        "pid 5263 (python3, user ml) was there from t=31 s to t=52 s, 1.20 GiB, up to 48 % of the SMs"
    )
    assert "end that process" in verdict.remedy


def test_the_other_card_is_left_alone(bench):
    bench.stranger(31)
    assert bench.verdict(UNDISTURBED, OTHER).outcome is PASS


@pytest.mark.parametrize("parents", [(100,), (700, 101, 1)])
def test_what_a_worker_started_is_ours(bench, parents):
    """As the sharing stage does."""
    bench.stranger(116, parents=parents, sm_percent=[50])
    assert bench.verdict(UNDISTURBED, GPU).outcome is PASS


def test_a_worker_that_never_said_its_name_is_ours(bench):
    """It was lost while it opened the card; its node's agent knew it."""
    bench.stranger(3.6, pid=199, own=True, used_mib=[60_000])
    assert bench.verdict(UNDISTURBED, GPU).outcome is PASS


def test_another_job_of_the_same_raylet_is_a_stranger(bench):
    bench.stranger(40, parents=(50, 1), name="ray::Trainer")
    assert "ray::Trainer" in bench.verdict(UNDISTURBED, GPU).detail


def test_who_was_there_before_and_rests_is_foreign_memory_s_business(bench):
    bench.stranger(0.5, used_mib=[2000, 2100], sm_percent=[0, 4])
    assert bench.verdict(UNDISTURBED, GPU).outcome is PASS


@pytest.mark.parametrize(("from_s", "outcome"), [(1.0, PASS), (1.1, NOT_MEASURED)])
def test_who_is_there_as_foreign_memory_is_read_was_there_before_the_run(bench, from_s, outcome):
    bench.stranger(from_s)
    assert bench.verdict(UNDISTURBED, GPU).outcome is outcome


@pytest.mark.parametrize(
    "fields", [{"sm_percent": [0, 5.1]}, {"used_mib": [2000, 2513]}], ids=["computes", "grows"]
)
def test_who_was_there_before_is_a_stranger_once_it_computes_or_grows(bench, fields):
    bench.stranger(0.5, **fields)
    for number, one in enumerate(bench.recording.processes):
        if one.pid == 5263 and one.t_s == 1.5:
            bench.recording.processes[number] = replace(one, t_s=45.0)
    verdict = bench.verdict(UNDISTURBED, GPU)
    assert (verdict.outcome, verdict.from_s) == (NOT_MEASURED, 45)


def test_what_is_at_its_limit_passes(bench):
    bench.stranger(0.5, used_mib=[2000, 2512], sm_percent=[0, 5.0])
    assert bench.verdict(UNDISTURBED, GPU).outcome is PASS


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"used_mib": [300]}, PASS),
        ({"used_mib": [300], "sm_percent": [0, 30]}, Outcome.WARN),
        ({"used_mib": [100, 513]}, Outcome.WARN),
    ],
    ids=["a desktop", "a game", "a browser that takes memory"],
)
def test_what_draws_is_a_stranger_only_where_it_computes_or_grows(bench, fields, outcome):
    bench.stranger(45, graphics=True, **fields)
    assert bench.verdict(UNDISTURBED, GPU).outcome is outcome


@pytest.mark.parametrize(
    ("used_mib", "sm_percent", "outcome"),
    [
        (0, 0, Outcome.WARN),
        (1, 0, NOT_MEASURED),
        (0, 1, NOT_MEASURED),
        (None, 0, NOT_MEASURED),  # nobody knows what it holds
        (0, None, NOT_MEASURED),
    ],
)
def test_an_empty_context_only_warns(bench, used_mib, sm_percent, outcome):
    bench.stranger(45, used_mib=[used_mib], sm_percent=[sm_percent])
    assert bench.verdict(UNDISTURBED, GPU).outcome is outcome


def test_beside_one_that_computes_a_desktop_is_no_excuse(bench):
    bench.stranger(45, graphics=True, sm_percent=[6])
    bench.stranger(50, pid=5300)
    assert bench.verdict(UNDISTURBED, GPU).outcome is NOT_MEASURED


def test_a_desktop_that_was_seen_by_a_watch_that_broke_off_is_no_pass(bench):
    bench.stranger(45, graphics=True, sm_percent=[6])
    bench.watched(GPU, t_s=60.0)
    assert bench.verdict(UNDISTURBED, GPU).outcome is Outcome.NOT_MEASURED


def test_a_rate_that_a_desktop_took_is_not_measured(bench):
    bench.stranger(30, graphics=True, sm_percent=[40])
    bench.slow(GPU, 0.5)
    assert bench.verdict("throughput.sustained", GPU).outcome is Outcome.NOT_MEASURED


def test_who_came_and_went_before_the_load_disturbed_nothing(bench):
    bench.stranger(1.5, gone_s=4.5)
    assert bench.verdict(UNDISTURBED, GPU).outcome is PASS


def test_who_comes_after_the_load_disturbs_nothing(bench):
    bench.stranger(134.5)
    assert bench.verdict(UNDISTURBED, GPU).outcome is PASS


def test_many_strangers_are_counted_and_some_are_named(bench):
    for pid in range(6000, 6007):
        bench.stranger(40, pid=pid)
    assert bench.verdict(UNDISTURBED, GPU).detail.endswith("; and 3 more")


def test_a_pid_that_is_used_again_is_another_process(bench):
    """The desktop that had it is gone; what has it now computes."""
    bench.stranger(0.5, gone_s=20, graphics=True)
    bench.stranger(40)
    assert bench.verdict(UNDISTURBED, GPU).from_s == 40


# Nobody looked, or nobody can tell


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"t_s": 100.0}, "were only watched until t=100 s"),
        ({"longest_gap_s": 10.5}, "were not watched for 10 s"),
        ({"from_s": 9.0}, "only watched from t=9 s on"),
        ({"t_s": float("nan")}, "only watched until"),
        ({"longest_gap_s": float("nan")}, "not watched"),
    ],
)
def test_a_watch_that_was_not_whole_is_no_pass(bench, fields, why):
    bench.watched(GPU, **fields)
    verdict = bench.verdict(UNDISTURBED, GPU)
    assert verdict.outcome is NOT_MEASURED
    assert why in verdict.detail


def test_a_stranger_that_was_seen_is_named_although_the_watch_broke_off(bench):
    bench.watched(GPU, t_s=60.0)
    bench.stranger(45)
    assert "pid 5263" in bench.verdict(UNDISTURBED, GPU).detail


def test_a_list_that_the_driver_does_not_give_is_not_applicable(bench):
    bench.watched(GPU, readings=0)
    verdict = bench.verdict(UNDISTURBED, GPU)
    assert verdict.outcome is Outcome.NOT_APPLICABLE


def test_a_list_that_failed_by_an_error_is_not_measured(bench):
    bench.watched(GPU, readings=0)
    query = "nvmlDeviceGetComputeRunningProcesses"
    bench.event("nvml_error", GPU, f"{query}: Unknown Error", 1.0, query=query)
    verdict = bench.verdict(UNDISTURBED, GPU)
    assert verdict.outcome is NOT_MEASURED


def test_without_its_sms_nobody_can_tell_whether_an_old_process_computes(bench):
    bench.watched(GPU, sm_readable=False)
    assert bench.verdict(UNDISTURBED, GPU).outcome is PASS
    bench.stranger(0.5, sm_percent=[None])
    verdict = bench.verdict(UNDISTURBED, GPU)
    assert verdict.outcome is Outcome.NOT_APPLICABLE
    assert "pid 5263 (python3, user ml)" in verdict.detail


# A container, where the driver tells the host's pids


@pytest.fixture
def contained(bench):
    """The same run with pids that our workers do not know: 100 is 70100 on the host."""
    bench.recording.processes = [
        replace(one, pid=one.pid + 70_000, user=None, name=None, parents=())
        for one in bench.recording.processes
    ]
    return bench


def test_in_a_container_ours_are_those_that_came_while_our_workers_started(contained):
    assert outcomes(contained, UNDISTURBED) == [PASS]
    assert outcomes(contained, UNDISTURBED, subject=OTHER) == [PASS]


def test_in_a_container_a_stranger_is_named_by_its_pid_alone(contained):
    """/proc tells of another process that has this number here."""
    contained.stranger(45, pid=75_263, user="root", name="bash", sm_percent=[60])
    verdict = contained.verdict(UNDISTURBED, GPU)
    assert verdict.outcome is NOT_MEASURED
    assert verdict.detail.startswith("pid 75263 was there from t=45 s on")


def test_in_a_container_who_comes_while_our_workers_start_cannot_be_told_apart(contained):
    contained.stranger(4.5, pid=75_263)
    verdict = contained.verdict(UNDISTURBED, GPU)
    assert verdict.outcome is Outcome.NOT_APPLICABLE
    assert "3 processes appeared while 2 of ours started" in verdict.detail


def test_in_a_container_that_lists_nobody_ours_are_not_there_either(contained):
    contained.recording.processes.clear()
    verdict = contained.verdict(UNDISTURBED, GPU)
    assert verdict.outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(("number", "outcome"), [(3, PASS), (4, Outcome.NOT_APPLICABLE)])
def test_in_a_container_the_processes_of_the_sharing_stage_are_ours_if_no_more_than_planned(
    contained, number, outcome
):
    """With one more, nobody can tell which of them it is."""
    for pid in range(75_000, 75_000 + number):
        contained.stranger(120, pid=pid, gone_s=130, sm_percent=[30])
    assert contained.verdict(UNDISTURBED, GPU).outcome is outcome


def test_in_a_container_a_replaced_worker_is_ours_too(contained):
    contained.recording.processes.append(GpuProcess(50, GPU, 70_101, gone=True))
    contained.event("worker_died", GPU, "signal 9", 50, "pc1/gpu0#1")
    first = next(one for one in contained.recording.workers if one.worker == "pc1/gpu0#1")
    contained.recording.add(replace(first, pid=180, t_s=55.0, generation=1))
    contained.stranger(54, pid=70_180)
    assert contained.verdict(UNDISTURBED, GPU).outcome is PASS


def test_in_a_container_a_replacement_that_was_lost_with_its_first_word_is_ours_too(contained):
    """It came after the loss before it, not after its own."""
    first = next(one for one in contained.recording.workers if one.worker == "pc1/gpu0#1")
    contained.recording.add(replace(first, pid=180, t_s=55.0, generation=1))
    for lost_s in (50, 55):
        contained.event("worker_died", GPU, "signal 9", lost_s, "pc1/gpu0#1")
    contained.stranger(54, pid=70_180, gone_s=55)
    assert contained.verdict(UNDISTURBED, GPU).outcome is PASS


def test_in_a_container_a_worker_that_starts_long_after_the_other_is_ours_too(contained):
    recording = contained.recording
    recording.workers = [
        replace(one, t_s=12.0) if one.worker == "pc1/gpu0#1" else one for one in recording.workers
    ]
    recording.processes = [
        replace(one, t_s=11.5) if (one.pid, one.t_s) == (70_101, 3.5) else one for one in recording.processes
    ]
    assert contained.verdict(UNDISTURBED, GPU).outcome is PASS


@pytest.mark.parametrize(("seen_s", "outcome"), [(14.0, PASS), (14.1, Outcome.NOT_APPLICABLE)])
def test_in_a_container_a_process_is_ours_up_to_two_seconds_after_its_worker_was_there(
    contained, seen_s, outcome
):
    recording = contained.recording
    recording.workers = [replace(one, t_s=12.0) if one.subject == GPU else one for one in recording.workers]
    recording.processes = [
        replace(one, t_s=seen_s) if (one.pid, one.t_s) == (70_101, 3.5) else one
        for one in recording.processes
    ]
    assert contained.verdict(UNDISTURBED, GPU).outcome is outcome


def test_in_a_container_that_tells_nobody_apart_an_oom_names_no_holder(contained):
    contained.stranger(4.5, pid=75_263)
    contained.event("oom", GPU, "12 GiB wanted", 40)
    verdict = contained.verdict("memory.no_oom", GPU)
    assert (verdict.outcome, verdict.detail) == (FAIL, "12 GiB wanted")


# What a stranger explains


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
    bad = [one for one in bench.verdicts() if one.outcome is not PASS]
    assert [(one.criterion, one.outcome) for one in bad] == [(UNDISTURBED, NOT_MEASURED)]


def test_a_stranger_of_another_stage_explains_nothing(bench):
    bench.slow(GPU, 0.5)
    bench.stranger(94, gone_s=110, sm_percent=[60])
    assert bench.verdict(SUSTAINED, GPU).outcome is FAIL


def test_a_stranger_of_another_card_explains_nothing(bench):
    bench.slow(GPU, 0.5)
    bench.stranger(45, subject=OTHER, sm_percent=[60])
    assert bench.verdict(SUSTAINED, GPU).outcome is FAIL


def test_a_stranger_that_rests_explains_no_rate(bench):
    bench.slow(GPU, 0.5)
    bench.stranger(45, sm_percent=[1])
    assert outcomes(bench, SUSTAINED, UNDISTURBED) == [FAIL, NOT_MEASURED]


def test_where_it_is_unknown_who_uses_the_sms_a_stranger_explains_a_rate_by_being_there(bench):
    bench.slow(GPU, 0.5)
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
        (40, 55, 6, NOT_MEASURED),
        (40, 55, None, NOT_MEASURED),
        (26, None, 6, NOT_MEASURED),
        (15, 25.9, 100, FAIL),
        (73, 80, 100, FAIL),
    ],
)
def test_a_stranger_explains_no_more_of_the_sustained_rate_than_it_can_have_taken(
    bench, from_s, gone_s, percent, outcome
):
    """All of the card for twice the time that it was there, whatever it used of the SMs."""
    bench.slow(GPU, 0.5)
    bench.stranger(from_s, gone_s=gone_s, sm_percent=[percent])
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
    bench.slow(GPU, 0.5)
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


def test_memory_that_a_stranger_holds_is_reported_with_who_holds_how_much(bench):
    stranger_takes_memory(bench)
    bench.stranger(46.5, used_mib=[141_824])
    verdict = bench.verdict("memory.no_oom", GPU)
    assert verdict.outcome is NOT_MEASURED
    assert "pid 5263 (python3, user ml) held memory of this card from t=45 s on (138" in verdict.detail
    assert verdict.detail.endswith("so this is not the card's own: 1 OOM, limit 0, from t=50 s")
    assert outcomes(bench, "memory.success_rate", "memory.headroom") == [NOT_MEASURED, NOT_MEASURED]


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


def test_the_error_of_a_stranger_that_died_of_it_is_not_the_card_s(bench):
    stranger_crashes(bench)
    verdict = bench.verdict("health.xid", GPU)
    assert verdict.outcome is NOT_MEASURED
    assert verdict.detail.startswith("pid 5263 (python3, user ml) ended with an error of its own")


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (lambda b: b.event("xid", GPU, "again", 60, xid=31), WARN),
        (lambda b: b.event("xid", GPU, "double-bit ECC error", 50.3, xid=48), FAIL),
        (lambda b: b.event("worker_failed", GPU, "CUDA error 700", 50.5, "pc1/gpu0#1"), WARN),
    ],
    ids=["another one while nobody left", "one of the hardware", "our worker failed too"],
)
def test_other_xids_stay_the_card_s_or_ours(bench, change, outcome):
    stranger_crashes(bench)
    change(bench)
    assert bench.verdict("health.xid", GPU).outcome is outcome


def test_an_xid_while_the_stranger_stayed_is_not_its(bench):
    bench.stranger(45)
    bench.event("xid", GPU, "Xid 31: GPU memory page fault", 50.2, xid=31)
    assert bench.verdict("health.xid", GPU).outcome is WARN


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
