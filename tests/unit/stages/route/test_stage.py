"""What the workers of the route stage are told."""

import pytest

from support.equal_hosts import asked, host_rig

CPU = {"sku": "unknown", "device": "cpu", "gemm_size": 256, "vram_gib_per_worker": 0.1, "cpus_per_worker": 1}


@pytest.mark.parametrize(("gpus", "have"), [([{"sku": "rtx-3090"}], True), ([CPU], False)])
def test_each_worker_knows_which_nodes_have_gpus_for_nccl(gpus, have):
    specs = asked(host_rig("route", 3, gpus=gpus), "route", 16.0).values()
    assert [one.gpus for one in specs] == [(have, True, True)] * 3
    assert {one.nodes for one in specs} == {("n1", "n2", "n3")}
