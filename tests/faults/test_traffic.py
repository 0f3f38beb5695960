"""Two ranks on this host reduce by gloo, and on one GPU by NCCL: what the interfaces count is told.

NCCL refuses two ranks on one GPU of a host, and takes no sockets inside a host: so each rank says that it is
on another one (NCCL_HOSTID).
"""

import pytest

from support.traffic_member import reduced
from support.two_devices import gpus_here, needs_gpus

MB = 4.0
GLOO = [("gloo", "as it is", ""), ("gloo", "pinned", "lo")]
NCCL = [("NCCL", "as it is", ""), ("NCCL", "pinned", "lo")]


def apart():
    """The environment of two ranks that seem to be on two hosts, without InfiniBand."""
    return [{"NCCL_HOSTID": f"host{rank}", "NCCL_NET": "Socket"} for rank in range(2)]


@pytest.mark.skipif(gpus_here() > 0, reason="a machine without a GPU shows it")
def test_gloos_bytes_are_counted_and_nccl_without_a_gpu_broke_with_the_reason_and_is_not_tried_again():
    for told in reduced([*GLOO, *NCCL], MB):
        assert [one.tried for one in told] == [*GLOO, NCCL[0]]
        assert [one.came for one in told] == ["done", "done", "broken"]
        assert [one.carrier for one in told[:2]] == ["lo", "lo"]
        assert all(one.more["sent_mb"]["lo"] >= MB for one in told[:2])
        why = told[2].more["message"]
        assert "without NCCL" in why or "the GPU cannot be used: " in why


def test_nccl_is_not_tried_where_gloo_did_not_get_through():
    """gloo finds no interface of that name, as it is and pinned."""
    arms = [GLOO[0], ("gloo", "pinned", "eno9"), NCCL[0]]
    for told in reduced(arms, MB, [{"GLOO_SOCKET_IFNAME": "eno9"}] * 2):
        assert [(one.tried, one.came) for one in told] == [(arms[0], "failed"), (arms[1], "failed")]
        assert all(one.more["message"] for one in told)


@needs_gpus(1)
def test_nccls_bytes_are_counted_at_the_interface_that_carries_them_as_it_is_and_pinned():
    """To an address of its own a host sends by loopback, whichever interface has the address."""
    for told in reduced([*GLOO, *NCCL], MB, apart()):
        assert [(one.tried, one.came) for one in told] == [(one, "done") for one in (*GLOO, *NCCL)], told
        assert {one.carrier for one in told} == {"lo"}
        assert all(one.more["sent_mb"]["lo"] >= MB for one in told), told
        assert all(one.more["seconds"] > 0 for one in told)


@needs_gpus(1)
@pytest.mark.parametrize("both", [True, False])
def test_an_interface_that_does_not_exist_fails_as_it_is_and_pinned_nccl_works(both):
    """The rank whose variable is sound waits for the other one until its process is ended."""
    environment = apart()
    for own in environment if both else environment[:1]:
        own["NCCL_SOCKET_IFNAME"] = "eno9"
    for told in reduced([*GLOO, *NCCL], MB, environment):
        assert [one.came for one in told[:2]] == ["done", "done"]
        assert told[2].came in ("failed", "hung"), told
        assert (told[3].came, told[3].carrier) == ("done", "lo"), told


@needs_gpus(1)
def test_a_rank_without_its_gpu_is_said_by_both():
    first, second = apart()
    for told in reduced([*GLOO, *NCCL], MB, [first, second | {"CUDA_VISIBLE_DEVICES": ""}]):
        assert [one.came for one in told] == ["done", "done", "broken"]
        assert "the GPU cannot be used: " in told[2].more["message"]
