"""Ranks on two hosts whose cable is pulled out in the middle of each collective operation, without Ray."""

from rigproof.criteria.evidence.fronts import NEXT_STEPS, halt
from rigproof.records.measurements import Event
from rigproof.stages.collective.stage import OPERATIONS
from support.network_hosts import Network
from support.rank_ends import Groups
from support.waiting import wait_for


def test_a_cable_that_is_pulled_out_inside_any_operation_is_what_is_named() -> None:
    """All five at once, each by ranks of its own; one cable is all that they have."""
    with Network("pc1", "pc2", named=True) as network:
        for name in network.hosts:
            network.carry(name, mbit=100.0)
        groups = Groups(network, {one: 7000 + number for number, one in enumerate(OPERATIONS)})
        groups.until_measured()
        network.pull_out("pc2")
        emitted = groups.finish()
        for host in network.hosts.values():
            wait_for(lambda host=host: not host.pids(), "the end of all that ran there")
    for operation, records in emitted.items():
        events = [one for one in records if isinstance(one, Event)]
        assert len(events) == 2, events
        found = halt(events, 2)
        assert found is not None
        assert (found.how, found.operation, found.missing) == ("unreached", operation, ()), found
        assert found.words.startswith("rank 1 (pc2/gpu0) could not reach rank 0's host 10.77.0.1 (")
        assert (found.by_others, found.next_step) == (False, NEXT_STEPS["unreached"])
