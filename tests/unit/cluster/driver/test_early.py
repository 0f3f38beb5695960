"""What is requested before the agents have answered."""

from dataclasses import replace

from rigproof.cluster.driver.ground import memory_of
from rigproof.cluster.ray.matching import FoundNode
from rigproof.cluster.ray.placement import wanted_gpus
from rigproof.profiles.planning.plan import MemoryPlan, WorkerPlan

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
