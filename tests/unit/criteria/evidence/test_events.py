"""Events are found by kind and subject, in the order of time."""

from rigproof.criteria.evidence.events import EventIndex
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
