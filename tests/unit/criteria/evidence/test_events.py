"""Events are found by kind and subject, in the order of time."""

import pytest

from rigproof.criteria.evidence.events import FREE_RAM, EventIndex
from rigproof.records.measurements import Event

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"


def test_events_of_several_kinds_come_in_the_order_of_time():
    happened = (("oom", 50.0), ("worker_died", 40.0), ("oom", 30.0))
    found = EventIndex(
        [*(Event(t_s, kind, GPU, kind) for kind, t_s in happened), Event(10.0, "oom", OTHER, "")]
    )
    assert [one.t_s for one in found.of(GPU, "oom", "worker_died")] == [30.0, 40.0, 50.0]
    assert [one.t_s for one in found.of(GPU, "oom")] == [30.0, 50.0]
    assert [one.t_s for one in found.of_kind("oom")] == [10.0, 30.0, 50.0]
    assert (found.of(GPU, "paused"), len(found.of_kind("paused"))) == ([], 0)


def test_a_criterion_was_left_out_for_the_first_reason():
    def left_out(t_s, why):
        return Event(t_s, "left_out", GPU, why, data={"criterion": "power.draw"})

    assert EventIndex([left_out(2.0, "later"), left_out(1.0, "first")]).left_out == {
        (GPU, "power.draw"): "first"
    }


def oom_kills(*seen):
    return [Event(t_s, "oom_kills", node, "", data={"killed": killed}) for t_s, node, killed in seen]


@pytest.mark.parametrize(
    ("kind", "subject", "seen_s", "marked"),
    [
        ("worker_died", GPU, 40.5, True),
        ("worker_died", GPU, 30.0, True),
        ("worker_died", GPU, 29.9, False),
        ("worker_died", GPU, 45.1, False),
        ("worker_failed", GPU, 40.5, True),
        ("worker_hung", GPU, 40.5, False),  # a killed process does not hang
        ("wrong_result", GPU, 40.5, False),
        ("worker_died", OTHER, 40.5, False),  # of another node
        ("agent_died", "pc1", 75.0, True),  # by the agent that took over
        ("agent_died", "pc1", 100.1, False),
    ],
)
def test_a_loss_while_the_kernel_killed_for_lack_of_memory_is_no_fault_of_the_rig(
    kind, subject, seen_s, marked
):
    events = [*oom_kills((3.0, "pc1", 7), (seen_s, "pc1", 8)), Event(40.0, kind, subject, "it is gone")]
    (loss,) = EventIndex(events).of_kind(kind)
    assert loss.data.get("disturbed") == (FREE_RAM if marked else None)
    assert loss.message == "it is gone" + ("; the kernel's OOM killer ended a process of pc1 then" * marked)


@pytest.mark.parametrize(
    ("error", "marked"),
    [
        ("its task failed: AcceleratorError: CUDA error: uncorrectable ECC error encountered", False),
        ("its device did not open: CUDA error 802", False),
        ("its task failed: RuntimeError: CUDA error: out of memory", True),  # pinned memory is the host's
        ("its task failed: RuntimeError: the memory test ended with status -9", True),
    ],
)
def test_no_killing_explains_a_device_that_failed(error, marked):
    events = [*oom_kills((3.0, "pc1", 7), (40.5, "pc1", 8)), Event(40.0, "worker_failed", GPU, error)]
    assert ("disturbed" in EventIndex(events).of_kind("worker_failed")[0].data) is marked


def test_killings_before_the_run_explain_nothing():
    """The first count is what there was; so is the same count of a second agent."""
    events = [*oom_kills((39.0, "pc1", 7), (41.0, "pc1", 7)), Event(40.0, "worker_died", GPU, "it is gone")]
    assert "disturbed" not in EventIndex(events).of_kind("worker_died")[0].data


def test_what_was_not_the_rig_s_already_keeps_its_own_cause():
    loss = Event(40.0, "worker_died", GPU, "it is gone", data={"disturbed": "Ray's own"})
    assert EventIndex([*oom_kills((3.0, "pc1", 7), (40.5, "pc1", 8)), loss]).of_kind("worker_died") == [loss]


def marked(*events):
    return [one.t_s for one in EventIndex(events).of_kind("worker_died") if "disturbed" in one.data]


def died(*moments_s, subject=GPU):
    return [Event(t_s, "worker_died", subject, "it is gone") for t_s in moments_s]


@pytest.mark.parametrize(
    ("counts", "lost_s", "explained_s"),
    [
        ([(40.5, 8)], [40.0, 40.2], [40.2]),
        ([(40.5, 8)], [38.0, 44.0], [38.0]),  # as near as the other one is not
        ([(40.5, 9)], [38.0, 44.0], [38.0, 44.0]),
        ([(40.5, 8), (44.5, 9)], [40.0, 44.0], [40.0, 44.0]),
        ([(40.5, 8), (44.5, 8)], [40.0, 44.0], [40.0]),
        ([(40.5, 9_000_000)], [40.0, 44.0], [40.0, 44.0]),
        ([(40.5, 7), (41.0, 3)], [40.0], []),  # a counter that falls
    ],
)
def test_each_process_that_the_kernel_killed_explains_one_loss(counts, lost_s, explained_s):
    seen = oom_kills((3.0, "pc1", 7), *((t_s, "pc1", killed) for t_s, killed in counts))
    assert marked(*seen, *died(*lost_s)) == explained_s
