import pytest

from rigproof.cluster.ray.gpu_probe import Probed
from rigproof.cluster.ray.matching import FoundNode
from rigproof.cluster.ray.placement import WantedGpu, bundle_cpus, infeasible, refusal


def wanted(index, node, cpus=2.0):
    return WantedGpu(f"{node.name}/gpu{index}", f"GPU-{index}", node, cpus)


FULL = FoundNode("1", "full", "", "", cpus=16, gpus=2)
BARE = FoundNode("2", "bare", "", "", cpus=16, gpus=0)


def test_a_node_that_offers_no_gpu_is_not_waited_for():
    refused = infeasible([wanted(0, FULL), wanted(0, BARE), wanted(1, BARE)])
    assert set(refused) == {"bare/gpu0", "bare/gpu1"}
    assert refused["bare/gpu0"] == (
        "its node offers Ray no GPU of the 2 promised; start Ray there with --num-gpus=2"
    )


@pytest.mark.parametrize(("cpus", "each"), [((2, 3), 3), ((8, 8), 8), ((12, 2), 8), ((0, 0), 0)])
def test_every_gpu_gets_the_cpus_of_the_neediest_as_far_as_they_go(cpus, each):
    assert bundle_cpus([wanted(i, FULL, count) for i, count in enumerate(cpus)]) == each


OTHER, BROKEN = Probed("GPU-x"), Probed(error="cuInit failed with CUDA error 802")


@pytest.mark.parametrize(
    ("promised", "answers", "reason"),
    [
        (3, [], "its node offers Ray 2 GPU of the 3 promised; start Ray there with --num-gpus=3"),
        (3, [OTHER], "start Ray there with --num-gpus=3"),
        (2, [OTHER, Probed("GPU-y")], "Ray assigns GPU-x, GPU-y there and never this one; is MIG enabled"),
        (2, [OTHER, None], "another job of the cluster holds it, or it did not answer, for 60 s"),
        (3, [None], "another job of the cluster holds it"),
        (
            2,
            [BROKEN, BROKEN],
            "CUDA does not report which card Ray assigned there: cuInit failed",
        ),
        (2, [BROKEN, None], "cuInit failed with CUDA error 802"),
    ],
)
def test_why_a_card_could_not_be_reserved(promised, answers, reason):
    assert reason in refusal(FULL, promised, answers, 60.0)
