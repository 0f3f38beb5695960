import pytest

from rigproof.cluster.matching import FoundNode
from rigproof.cluster.placement import WantedGpu, bundle_cpus, infeasible


def wanted(index, node, cpus=2.0):
    return WantedGpu(f"{node.name}/gpu{index}", f"GPU-{index}", node, cpus)


FULL = FoundNode("1", "full", "", "", cpus=16, gpus=2)
BARE = FoundNode("2", "bare", "", "", cpus=16, gpus=0)


def test_a_node_that_offers_no_gpu_is_not_waited_for():
    refused = infeasible([wanted(0, FULL), wanted(0, BARE), wanted(1, BARE)])
    assert set(refused) == {"bare/gpu0", "bare/gpu1"}
    assert "--num-gpus" in refused["bare/gpu0"]


@pytest.mark.parametrize(("cpus", "each"), [((2, 3), 3), ((8, 8), 8), ((12, 2), 8), ((0, 0), 0)])
def test_every_gpu_gets_the_cpus_of_the_neediest_as_far_as_they_go(cpus, each):
    assert bundle_cpus([wanted(i, FULL, count) for i, count in enumerate(cpus)]) == each
