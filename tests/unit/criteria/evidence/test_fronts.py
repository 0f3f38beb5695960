"""Which rank kept a group from its end, by how far each of them came."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from rigproof.criteria.evidence import fronts
from rigproof.criteria.evidence.fronts import halt_of
from rigproof.records.measurements import Event

STAGE, TEAM = "collective", "n1"


def event(rank, kind="rank_stuck", message="it was silent for 3 s", stage=STAGE, **data):
    told = {"rank": rank, "group": "", "operation": "all_reduce", "sequence": 7, "mib": 16, "inside": True}
    return Event(
        10.0 + rank, kind, TEAM, f"rank {rank}: {message}", stage, f"n1/gpu{rank}#0", {**told, **data}
    )


def halt(*events, size=3):
    def of_kinds(*kinds):
        return sorted((one for one in events if one.kind in kinds), key=lambda one: one.t_s)

    team = SimpleNamespace(events=of_kinds, members=tuple(range(size)))
    found = halt_of(team, STAGE, group="")
    return found and (found.how, found.missing, found.words)


def died(rank, status=None, message="RuntimeError: x", **data):
    return event(rank, "rank_died", message, status=status, **data)


def test_a_group_that_came_to_its_end_has_none():
    assert halt() is None
    assert halt(event(0, stage="training"), event(1, group="n1/gpu0 n1/gpu1")) is None


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (
            {"sequence": 6, "inside": False},
            "rank 1 (n1/gpu1) stood still after all_reduce 6 (16 MiB), and the others waited inside "
            "all_reduce 7 (16 MiB)",
        ),
        (
            {"sequence": 0, "inside": False, "operation": "start", "mib": 0},
            "rank 1 (n1/gpu1) stood still after start 0, and the others waited inside all_reduce 7 (16 MiB)",
        ),
        (
            {"sequence": 6},
            "rank 1 (n1/gpu1) stood still inside all_reduce 6 (16 MiB), and the others waited inside "
            "all_reduce 7 (16 MiB)",
        ),
    ],
)
def test_the_rank_that_is_furthest_behind_is_missing(last, words):
    assert halt(event(0), event(1, **last), event(2)) == ("stuck", ("n1/gpu1",), words)


def test_ranks_that_ended_are_ahead_of_one_that_is_stuck():
    found = halt(event(2, sequence=9, inside=False))
    assert found == (
        "stuck",
        ("n1/gpu2",),
        "rank 2 (n1/gpu2) stood still after all_reduce 9 (16 MiB), and the others ended",
    )


@pytest.mark.parametrize(
    ("halves", "missing"),
    [
        ((9, 8, 9), ("n1/gpu1",)),  # gloo: it left the fourth operation, and does not enter the fifth
        ((128, 6, 128), ("n1/gpu1",)),  # NCCL: its host queued three, the others' hosts all
        ((128, 7, 128), ()),  # it may wait for the others, as where NCCL connects them
        ((4, 9, 2), ("n1/gpu0", "n1/gpu2")),
        ((9, 7, 9), ()),  # inside an earlier one: what it waits for may be lost
        ((128, 128, 128), ()),
        ((8, 8, 8), ()),
    ],
)
def test_in_a_step_of_many_operations_who_stands_between_two_is_missing(halves, missing):
    how, named, words = halt(*(event(rank, halves=one) for rank, one in enumerate(halves)))
    assert (how, named) == ("stuck", missing)
    assert ("stood still between two operations, and the others waited inside" in words) == bool(missing)


def test_nobody_is_named_if_all_are_inside():
    found = halt(event(0), event(1), event(2))
    assert found == (
        "stuck",
        (),
        "all 3 ranks were stuck inside all_reduce 7 (16 MiB): which one cannot be told",
    )


def test_a_rank_that_a_signal_stopped_is_named_wherever_it_was():
    found = halt(event(0), event(1, held=True), event(2))
    assert found[:2] == ("held", ("n1/gpu1",))
    assert found[2] == "the process of rank 1 (n1/gpu1) was stopped by a signal inside all_reduce 7 (16 MiB)"


STARVED = {"meanwhile": "others left 9 % of the CPU of n1: other programs", "disturbed": "end these programs"}


def test_a_rank_whose_host_others_kept_busy_is_not_to_blame():
    where = "stood still inside all_reduce 6 (16 MiB) while others left 9 % of the CPU of n1: other programs"
    for others in ([event(0), event(2)], [event(0, sequence=6)], []):
        found = halt(event(1, sequence=6, **STARVED), *others)
        assert found == ("starved", ("n1/gpu1",), f"rank 1 (n1/gpu1) {where}")


def test_only_of_those_that_are_behind_it_is_asked_whether_their_hosts_were_busy():
    assert halt(event(0), event(1, sequence=6), event(2, **STARVED))[:2] == ("stuck", ("n1/gpu1",))
    assert halt(event(0, held=True), event(1, sequence=6, **STARVED))[0] == "held"


def test_a_busy_host_excuses_nobody_who_stood_outside_an_operation_on_another_one():
    outside = {"sequence": 6, "inside": False}
    both = event(0, **outside), event(1, **outside, **STARVED)
    assert halt(*both, event(2))[:2] == ("stuck", ("n1/gpu0", "n1/gpu1"))
    assert halt(event(0, **outside, **STARVED), both[1], event(2))[0] == "starved"
    between = event(0, halves=8), event(1, halves=9, **STARVED)
    assert halt(*between, size=2)[:2] == ("stuck", ("n1/gpu0",))
    assert halt(event(0, halves=8, **STARVED), event(1, halves=9), size=2)[:2] == ("starved", ("n1/gpu0",))


def test_a_rank_that_is_late_is_left_alone_as_the_one_that_waits_for_it_is_ended():
    """The first one in an operation is the first to pass its deadline: it is not the one to blame."""
    gone = {"make": died, "message": "it failed: RuntimeError: Connection closed by peer"}
    first, size = event(0), {"size": 2}
    assert halt(first, of_host(1, **gone), **size)[:2] == ("stuck", ())
    assert halt(first, of_host(1, sequence=6, inside=False, **gone), **size)[:2] == ("stuck", ("pc2/gpu0",))
    assert halt(first, of_host(1, **gone, **STARVED), **size)[:2] == ("starved", ("pc2/gpu0",))
    assert halt(first, of_host(1, **gone))[:2] == ("stuck", ("n1/gpu0", "pc2/gpu0"))  # the third one ended


def test_what_to_do_about_a_busy_host_is_who_made_it_so():
    found = fronts.halt([event(0, **STARVED)], 2)
    assert (found.next_step, found.by_others) == ("end these programs", True)


@pytest.mark.parametrize(
    "peer", ["Connection closed by peer [10.0.0.2]:4711", "ncclRemoteError: x", "Broken pipe"]
)
def test_one_that_was_left_alone_is_not_to_blame_for_a_death(peer):
    gone = died(0, message=f"it failed: RuntimeError: {peer}")
    assert halt(gone, died(1, -9, "it ended with status -9"), event(2)) == (
        "killed",
        ("n1/gpu1",),
        "the process of rank 1 (n1/gpu1) was killed (signal 9) inside all_reduce 7 (16 MiB)",
    )
    assert halt(gone, died(1, -11, "it ended with status -11"))[:2] == ("died", ("n1/gpu1",))
    assert halt(gone, event(1, sequence=6, inside=False))[:2] == ("stuck", ("n1/gpu1",))
    assert halt(gone, died(1, message=f"it failed: {peer}")) == (
        "stuck",
        (),
        "the ranks lost the connection to each other inside all_reduce 7 (16 MiB)",
    )


def test_a_rank_whose_code_could_not_be_loaded_says_nothing_about_its_card():
    how, devices, words = halt(died(1, 1, "it ended with status 1: ImportError: libnccl.so.2"), event(2))
    assert (how, devices) == ("unloaded", ("n1/gpu1",))
    assert words.endswith("it ended with status 1: ImportError: libnccl.so.2")


def test_an_error_of_all_names_all_and_what_it_said():
    found = halt(*(died(rank, message="it failed: ValueError: no NCCL") for rank in range(5)), size=5)
    assert found[0] == "failed"
    assert found[2] == (
        "rank 0 (n1/gpu0), rank 1 (n1/gpu1), rank 2 (n1/gpu2) and 2 more ended inside all_reduce 7 (16 MiB): "
        "it failed: ValueError: no NCCL"
    )


def test_an_error_of_many_lines_is_one_in_a_verdict():
    _, _, words = halt(died(1, message="it failed: AcceleratorError: CUDA error: assert\nSearch for it\n"))
    assert words.endswith("inside all_reduce 7 (16 MiB): it failed: AcceleratorError: CUDA error: assert")


def test_a_worker_that_is_lost_explains_all_others():
    message = "it lost n1/gpu1#0; the others were told to stop"
    lost = Event(12.0, "crew_failed", TEAM, message, STAGE, data={"workers": ["n1/gpu1#0"]})
    assert halt(lost, died(0, message="it failed: Connection closed by peer"), event(2)) == (
        "lost",
        ("n1/gpu1",),
        message,
    )


def test_a_part_that_lost_a_worker_says_nothing_of_the_whole_group():
    lost = Event(12.0, "crew_failed", TEAM, "it lost n1/gpu1#0", STAGE, data={"workers": [], "size": 2})
    assert halt(lost, event(0), event(1), event(2))[0] == "stuck"
    assert halt(lost) is None


def of_host(rank, unreached="", make=event, **more):
    found = make(rank, unreached=unreached, **more)
    return replace(found, worker=f"pc{rank + 1}/gpu0#0")


TIMED_OUT = "10.0.0.1 (timed out)"


@pytest.mark.parametrize(
    ("unreached", "missing", "who"),
    [
        (["", TIMED_OUT], (), "rank 1 (pc2/gpu0)"),
        (["", TIMED_OUT, ""], ("pc2/gpu0",), "rank 1 (pc2/gpu0)"),
        (["", TIMED_OUT, TIMED_OUT], ("pc1/gpu0",), "rank 1 (pc2/gpu0), rank 2 (pc3/gpu0)"),
    ],
)
def test_a_host_that_is_cut_off_is_named_and_not_a_gpu(unreached, missing, who):
    found = halt(*(of_host(rank, how) for rank, how in enumerate(unreached)), size=len(unreached))
    where = "inside all_reduce 7 (16 MiB)"
    assert found == ("unreached", missing, f"{who} could not reach rank 0's host {TIMED_OUT} {where}")


def test_what_a_signal_did_is_said_also_of_a_host_that_is_cut_off():
    held = of_host(1, TIMED_OUT, held=True)
    assert halt(of_host(0), held, size=2)[0] == "held"
    message = "it failed: RuntimeError: Connection timed out"
    gone = of_host(1, TIMED_OUT, make=died, message=message)
    assert halt(of_host(0), gone, size=2)[0] == "unreached"
    assert halt(of_host(0), of_host(1, TIMED_OUT, make=died, status=-9), size=2)[0] == "killed"


@pytest.mark.parametrize(
    "error",
    [
        "OutOfMemoryError: CUDA out of memory",
        "DistBackendError: NCCL error in: a.cpp:1\nncclUnhandledCudaError: it failed\nLast error:\n"
        "Cuda failure 2 'out of memory'",
        "RuntimeError: CUDA driver error: out of memory",
        "RuntimeError: Triton Error [CUDA]: out of memory",
        "RuntimeError: Cannot allocate memory (12)",
        "MemoryError",
    ],
)
def test_memory_that_ran_short_is_said(error):
    assert halt(died(1, message=f"it failed: {error}"))[0] == "memory"


@pytest.mark.parametrize(
    ("error", "how", "step"),
    [
        (
            "DistBackendError: NCCL error in: a.cpp:1, unhandled system error\nLast error:\nError while "
            "creating shared memory segment /dev/shm/nccl-x5SHjQ (size 9637888), error: "
            "No space left on device (28)",
            *("shm", "start the container with `--shm-size=8g` or `--ipc=host`; else free /dev/shm on n1"),
        ),
        ("OSError: [Errno 28] No space left on device", "shm", "start the container"),
        ("OSError: [Errno 24] Too many open files", "limits", "see `ulimit -n`"),
        ("RuntimeError: can't start new thread", "limits", "see `ulimit -n`"),
        ("DistNetworkError: EADDRINUSE, message: Address already in use", "limits", "see `ulimit -n`"),
    ],
)
def test_what_a_host_does_not_give_blames_no_card(error, how, step):
    team = SimpleNamespace(events=lambda *_: [died(1, message=f"it failed: {error}")], members=(1, 2, 3))
    found = halt_of(team, STAGE)
    assert found.how == how
    assert found.by_others
    assert found.next_step.startswith(step)


@pytest.mark.parametrize("odd", [{"sequence": None}, {"mib": "x"}, {"inside": 3}, {"status": "x"}])
def test_damaged_events_end_nothing(odd):
    assert halt(event(0), event(1, **odd)) is not None
