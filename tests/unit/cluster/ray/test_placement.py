"""What is requested of Ray, before and after the agents have answered, and why a card was not reserved."""

from dataclasses import replace

import pytest

from rigproof.cluster.driver.ground import memory_of
from rigproof.cluster.ray.gpu_probe import Probed
from rigproof.cluster.ray.matching import FoundNode
from rigproof.cluster.ray.placement import WantedGpu, bundle_cpus, infeasible, refusal, wanted_gpus
from rigproof.profiles.planning.plan import MemoryPlan, WorkerPlan


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


FOUND = {name: FoundNode(f"id-{name}", name, "", "", cpus=16, gpus=2) for name in ("pc1", "pc2")}
POLICY = MemoryPlan(enabled=True, expandable_segments=True)


def worker(node, gpu, number=0, device="cuda", memory=POLICY):
    subject = f"{node}/{'gpu' if device == 'cuda' else 'cpu'}{gpu}"
    return WorkerPlan(f"{subject}#{number}", subject, node, device, 0.5, 2.0, 64.0, 256, memory)


def test_a_gpu_is_wanted_once_with_the_cpus_of_all_its_workers():
    first, second = wanted_gpus([worker("pc1", 0), worker("pc1", 0, 1), worker("pc2", 1)], FOUND)
    assert (first.subject, first.uuid, first.node, first.cpus) == ("pc1/gpu0", "", FOUND["pc1"], 4.0)
    assert (second.subject, second.node, second.cpus) == ("pc2/gpu1", FOUND["pc2"], 2.0)


def test_its_uuid_is_given_once_it_is_known():
    (one,) = wanted_gpus([worker("pc1", 0)], FOUND, {"pc1/gpu0": "GPU-1"})
    assert one.uuid == "GPU-1"


def test_no_gpu_is_wanted_for_the_cpu_as_device():
    assert wanted_gpus([worker("pc1", 0, device="cpu")], FOUND) == []


def test_a_node_whose_workers_load_torch_alike_has_their_policy():
    capped = replace(POLICY, cap_mib=100.0)  # which matters later
    assert memory_of([worker("pc1", 0), worker("pc1", 1, memory=capped)], FOUND)["id-pc1"] in (POLICY, capped)


def test_a_node_whose_workers_differ_in_what_torch_reads_while_it_is_loaded_has_none():
    plain = replace(POLICY, expandable_segments=False)
    found = memory_of([worker("pc1", 0), worker("pc1", 1, memory=plain), worker("pc2", 0)], FOUND)
    assert found == {"id-pc2": POLICY}


def test_the_cpu_as_device_has_no_part_in_it():
    assert memory_of([worker("pc1", 0, device="cpu")], FOUND) == {}
