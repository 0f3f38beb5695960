"""What a cluster's nodes answer becomes hosts, or a refusal that names the node."""

import json
from dataclasses import replace

import pytest

import rigproof
from rigproof.cluster.ray import inventories
from rigproof.cluster.ray.inventories import cluster_hosts, look
from rigproof.cluster.ray.preconditions import ClusterUnreachable
from rigproof.host.child import Answer
from rigproof.records.identity import GpuIdentity, HostInventory
from rigproof.telemetry.inventory import inventory_to_json

CARD = GpuIdentity("box/gpu0", "cuda", "GPU-1", "NVIDIA H200", 0, 143771.0, compute_capability=(9, 0))
BOX = HostInventory("box", 16.0, 64.0, "580.1", None, (CARD,))


def node(name: str, found: HostInventory = BOX, address: str = "", version: str = rigproof.__version__):
    answer = json.dumps({"version": version, "found": inventory_to_json(found)})
    return {"name": name, "address": address or f"10.0.0.{name[-1]}", "answer": answer}


@pytest.fixture
def answers(monkeypatch):
    monkeypatch.setattr(inventories, "check_joinable", lambda *_, **__: False)

    def answer(*nodes, complaint="", status=0):
        message = {"nodes": list(nodes)} if nodes else None
        monkeypatch.setattr(inventories, "ask", lambda *_, **__: Answer(message, status, complaint))

    return answer


def refused() -> str:
    with pytest.raises(ClusterUnreachable) as error:
        cluster_hosts("10.0.0.1:6379")
    assert str(error.value).startswith("--hw-ray-address 10.0.0.1:6379: ")
    return str(error.value).removeprefix("--hw-ray-address 10.0.0.1:6379: ")


def test_every_node_becomes_a_host(answers):
    bare = replace(BOX, gpus=())
    answers(node("pc1"), node("pc2", bare))
    one, other = cluster_hosts("10.0.0.1:6379")
    assert (one.name, one.address, one.inventory) == ("pc1", "10.0.0.1", BOX)
    assert (other.name, other.address, other.inventory) == ("pc2", "10.0.0.2", bare)


def test_a_node_that_cannot_be_looked_at_is_named(answers):
    error = "ModuleNotFoundError: No module named 'rigproof'"
    answers(node("pc1"), {"name": "pc2", "address": "10.0.0.2", "error": error})
    assert refused().startswith(
        f"pc2 (10.0.0.2) cannot be looked at: {error}; install rigproof {rigproof.__version__} in"
    )


def test_a_node_with_another_rigproof_is_named(answers):
    answers(node("pc2", version="0.0.1"))
    assert refused() == f"pc2 (10.0.0.2) has rigproof 0.0.1; install rigproof=={rigproof.__version__} there"


@pytest.mark.parametrize(
    "found", [replace(BOX, nvml_error="lost; reboot"), replace(BOX, setting_error="lost; reboot")]
)
def test_a_node_whose_gpus_are_in_doubt_is_named(answers, found):
    answers(node("pc1"), node("pc2", found))
    assert refused().startswith("the GPUs of pc2 (10.0.0.2) cannot all be found: lost; reboot; then ")


def test_two_rays_of_one_machine_are_named(answers):
    answers(node("pc1"), node("pc2"))
    assert refused().startswith("pc1 and pc2 are Rays of one machine: both have GPU-1; start one Ray on each")
    bare = replace(BOX, gpus=())
    answers(node("pc1", bare), node("pc2", bare, address="10.0.0.1"))
    assert refused().startswith("pc1 and pc2 are Rays of one machine: both have 10.0.0.1; ")


def test_a_cluster_that_does_not_answer_is_named(answers):
    answers(status=None)
    assert refused() == "its nodes cannot be listed: no answer; try again"
    answers(status=1, complaint="ValueError: no")
    assert refused() == "its nodes cannot be listed: ValueError: no; try again"


def test_a_task_looks_with_its_raylets_setting_and_gives_its_own_back(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as Ray has it for a task without a GPU
    seen = []

    def detect(_limit_s):
        seen.append(inventories.os.environ.get("CUDA_VISIBLE_DEVICES"))
        return BOX

    monkeypatch.setattr(inventories, "detect", detect)
    for setting in ("1", None):
        monkeypatch.setattr(inventories, "parents_setting", lambda setting=setting: setting)
        assert json.loads(look())["version"] == rigproof.__version__
        assert inventories.os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert seen == ["1", None]
