"""Hosts that are lost in the middle of each collective operation, as their ranks see it, without Ray."""

import pytest

from rigproof.criteria.evidence.fronts import NEXT_STEPS, halt
from rigproof.records.measurements import Event
from rigproof.stages.collective.stage import OPERATIONS
from support.network_hosts import Network, kill_all
from support.rank_ends import Groups
from support.waiting import wait_for

PORTS = {one: 7000 + number for number, one in enumerate(OPERATIONS)}
CABLE, POWER = ("pc1", "pc2"), ("pc3", "pc4")
Found = dict[tuple[str, ...], dict[str, list[Event]]]


@pytest.fixture(scope="module")
def events() -> Found:
    """What two pairs of hosts emit, by operation: pc2's cable is pulled out, and pc3 has no power any more.

    All operations at once, each by ranks of its own; one cable is all that a host has.
    """
    with Network(*CABLE, *POWER, named=True) as network:
        for name in network.hosts:
            network.carry(name, mbit=100.0)
        groups = {pair: Groups(network, pair, PORTS) for pair in (CABLE, POWER)}
        for pair in groups.values():
            pair.until_measured()
        network.pull_out("pc2")
        network.pull_out("pc3")
        kill_all(network["pc3"])
        emitted = {pair: ends.finish() for pair, ends in groups.items()}
        for host in network.hosts.values():
            wait_for(lambda host=host: not host.pids(), "the end of all that ran there")
    return {
        pair: {name: [one for one in every if isinstance(one, Event)] for name, every in found.items()}
        for pair, found in emitted.items()
    }


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_cable_that_is_pulled_out_inside_any_operation_is_what_is_named(
    events: Found, operation: str
) -> None:
    own = events[CABLE][operation]
    assert len(own) == 2, own
    found = halt(own, 2)
    assert found is not None
    assert (found.how, found.operation, found.missing) == ("unreached", operation, ()), found
    assert found.words.startswith("rank 1 (pc2/gpu0) could not reach rank 0's host 10.77.0.1 (")
    assert (found.by_others, found.next_step) == (False, NEXT_STEPS["unreached"])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_who_is_left_when_the_host_of_rank_0_has_no_power_does_not_blame_itself(
    events: Found, operation: str
) -> None:
    """Nothing comes from that host any more; that it is lost the driver sees by itself."""
    (own,) = events[POWER][operation]
    assert (own.kind, own.data["rank"], own.data["inside"]) == ("rank_stuck", 1, True)
    found = halt([own], 2)
    assert found is not None
    assert (found.how, found.operation, found.missing) == ("unreached", operation, ()), found
    assert found.words.startswith("rank 1 (pc4/gpu0) could not reach rank 0's host 10.77.0.3 (")
