"""Strangers on a card are named, and what they explain is not blamed on it; all else stays the card's."""

from dataclasses import replace

import pytest

from rigproof.records.processes import GpuProcess
from rigproof.records.verdict import Outcome
from support.fault_changes import stranger_crashes

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
UNDISTURBED = "activity.undisturbed"
FAIL, WARN, PASS, NOT_MEASURED = Outcome.FAIL, Outcome.WARN, Outcome.PASS, Outcome.NOT_MEASURED


# Who is a stranger


def test_a_stranger_is_named_with_pid_program_user_memory_and_time(bench):
    bench.stranger(31, gone_s=52, used_mib=[520, 1229], sm_percent=[4, 48])
    verdict = bench.verdict(UNDISTURBED, GPU)
    assert (verdict.outcome, verdict.from_s) == (NOT_MEASURED, 31)
    assert verdict.detail == (
        "pid 5263 (python3, user ml) was there from t=31 s to t=52 s, 1.20 GiB, up to 48 % of the SMs"
    )
    assert "end that process" in verdict.remedy


@pytest.mark.parametrize(
    ("from_s", "fields", "outcome"),
    [
        pytest.param(31, {"subject": OTHER}, PASS, id="on the other card"),
        pytest.param(116, {"parents": (100,), "sm_percent": [50]}, PASS, id="started by a worker"),
        pytest.param(116, {"parents": (700, 101, 1), "sm_percent": [50]}, PASS, id="its grandchild"),
        pytest.param(3.6, {"pid": 199, "own": True, "used_mib": [60_000]}, PASS, id="lost as it opened"),
        pytest.param(40, {"parents": (50, 1), "name": "ray::Trainer"}, NOT_MEASURED, id="another job"),
        pytest.param(0.5, {"used_mib": [2000, 2100], "sm_percent": [0, 4]}, PASS, id="old and rests"),
        pytest.param(0.5, {"used_mib": [2000, 2512], "sm_percent": [0, 5.0]}, PASS, id="old, at its limit"),
        pytest.param(1.0, {}, PASS, id="there as foreign memory is read"),
        pytest.param(1.1, {}, NOT_MEASURED, id="there a moment later"),
        pytest.param(1.5, {"gone_s": 4.5}, PASS, id="gone before the load"),
        pytest.param(134.5, {}, PASS, id="came after the load"),
    ],
)
def test_who_is_a_stranger(bench, from_s, fields, outcome):
    bench.stranger(from_s, **fields)
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


def test_a_desktop_is_no_excuse_for_one_that_computes_nor_for_a_watch_that_broke_off(bench):
    bench.stranger(30, graphics=True, sm_percent=[40])
    assert bench.verdict(UNDISTURBED, GPU).outcome is WARN
    bench.slow(GPU, 0.5)
    assert bench.verdict("throughput.sustained", GPU).outcome is NOT_MEASURED
    bench.stranger(50, pid=5300)
    assert bench.verdict(UNDISTURBED, GPU).outcome is NOT_MEASURED
    bench.recording.processes = [one for one in bench.recording.processes if one.pid != 5300]
    bench.watched(GPU, t_s=60.0)
    assert bench.verdict(UNDISTURBED, GPU).outcome is NOT_MEASURED


def test_many_strangers_are_counted_and_a_pid_that_is_used_again_is_another_process(bench):
    bench.stranger(0.5, gone_s=20, graphics=True)
    bench.stranger(40)
    assert bench.verdict(UNDISTURBED, GPU).from_s == 40
    for pid in range(6000, 6006):
        bench.stranger(40, pid=pid)
    assert bench.verdict(UNDISTURBED, GPU).detail.endswith("; and 3 more")


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


def test_a_list_that_the_driver_does_not_give_is_not_applicable_unless_an_error_is_why(bench):
    bench.watched(GPU, readings=0)
    assert bench.verdict(UNDISTURBED, GPU).outcome is Outcome.NOT_APPLICABLE
    query = "nvmlDeviceGetComputeRunningProcesses"
    bench.event("nvml_error", GPU, f"{query}: Unknown Error", 1.0, query=query)
    assert bench.verdict(UNDISTURBED, GPU).outcome is NOT_MEASURED


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


@pytest.mark.parametrize(
    ("late", "seen_s", "outcome"),
    [
        ((), 3.5, PASS),
        (("pc1/gpu0#1",), 11.5, PASS),
        (("pc1/gpu0#0", "pc1/gpu0#1"), 14.0, PASS),
        (("pc1/gpu0#0", "pc1/gpu0#1"), 14.1, Outcome.NOT_APPLICABLE),
    ],
)
def test_in_a_container_a_process_is_ours_up_to_two_seconds_after_its_worker_was_there(
    contained, late, seen_s, outcome
):
    """However late that was."""
    recording = contained.recording
    recording.workers = [replace(one, t_s=12.0) if one.worker in late else one for one in recording.workers]
    recording.processes = [
        replace(one, t_s=seen_s) if (one.pid, one.t_s) == (70_101, 3.5) else one
        for one in recording.processes
    ]
    assert contained.verdict(UNDISTURBED, GPU).outcome is outcome
    assert contained.verdict(UNDISTURBED, OTHER).outcome is PASS


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
    assert contained.verdict(UNDISTURBED, GPU).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(("number", "outcome"), [(3, PASS), (4, Outcome.NOT_APPLICABLE)])
def test_in_a_container_the_processes_of_the_sharing_stage_are_ours_if_no_more_than_planned(
    contained, number, outcome
):
    """With one more, nobody can tell which of them it is."""
    for pid in range(75_000, 75_000 + number):
        contained.stranger(120, pid=pid, gone_s=130, sm_percent=[30])
    assert contained.verdict(UNDISTURBED, GPU).outcome is outcome


@pytest.mark.parametrize(("lost_s", "gone_s"), [((50,), None), ((50, 55), 55)])
def test_in_a_container_a_replaced_worker_is_ours_too(contained, lost_s, gone_s):
    """Also one that is lost with its first word: it came after the loss before it, not after its own."""
    contained.recording.processes.append(GpuProcess(50, GPU, 70_101, gone=True))
    for t_s in lost_s:
        contained.event("worker_died", GPU, "signal 9", t_s, "pc1/gpu0#1")
    first = next(one for one in contained.recording.workers if one.worker == "pc1/gpu0#1")
    contained.recording.add(replace(first, pid=180, t_s=55.0, generation=1))
    contained.stranger(54, pid=70_180, gone_s=gone_s)
    assert contained.verdict(UNDISTURBED, GPU).outcome is PASS


def test_in_a_container_that_tells_nobody_apart_an_oom_names_no_holder(contained):
    contained.stranger(4.5, pid=75_263)
    contained.event("oom", GPU, "12 GiB wanted", 40)
    assert contained.said("memory.no_oom", GPU) == (FAIL, "12 GiB wanted")


# An error of its own


def test_the_error_of_a_stranger_that_died_of_it_is_not_the_card_s(bench):
    stranger_crashes(bench)
    verdict = bench.verdict("health.xid", GPU)
    assert verdict.outcome is NOT_MEASURED
    assert verdict.detail.startswith("pid 5263 (python3, user ml) ended with an error of its own")


@pytest.mark.parametrize(("gone_s", "outcome"), [(53.0, NOT_MEASURED), (53.25, WARN), (None, WARN)])
def test_a_stranger_died_of_an_error_that_came_up_to_three_seconds_before_its_end(bench, gone_s, outcome):
    bench.stranger(45, gone_s=gone_s)
    bench.event("xid", GPU, "Xid 31: GPU memory page fault", 50.0, xid=31)
    assert bench.verdict("health.xid", GPU).outcome is outcome


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
