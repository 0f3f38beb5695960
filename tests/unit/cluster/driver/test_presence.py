import time

import pytest
import ray

from rigproof.cluster.actors.messages import AgentFacts
from rigproof.cluster.driver.presence import gpus_there, missing_node, way_back, without_driver
from rigproof.cluster.driver.rig_cluster import RigCluster
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.host.proc import boot_id
from rigproof.host.processes import ProcessId
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import judge
from rigproof.profiles.auto import rig_of
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.planning.plan import recorded
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.identity import GpuIdentity, HostInventory, RunInfo
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome
from rigproof.stages.registry import KINDS

RIG = """
name = "two"
[[nodes]]
name = "vm"
address = "192.0.2.1"
cpus = 8
gpus = [{{ {gpu} }}]
[[nodes]]
name = "box"
address = "192.0.2.2"
cpus = 8
gpus = [{{ sku = "unknown", device = "cpu" }}]
"""


@pytest.fixture
def rig(tmp_path):
    def load(gpu):
        path = tmp_path / "two.toml"
        path.write_text(RIG.format(gpu=gpu))
        return load_rig(str(path), KINDS)

    return load


def facts(*gpus, nvml_error=None, hidden=(), visible_devices=None, unlisted=None):
    return AgentFacts(
        ProcessId(1, 1), "vm", 8.0, 16.0, "Linux", "3.11", "2.60", "0", None, None, nvml_error, gpus, hidden,
        visible_devices, unlisted,
    )  # fmt: skip


def card(name):
    return GpuIdentity("vm/gpu0", "cuda", "GPU-q", name, 0, 24576.0)


def named(gpu):
    """A card's name as its SKU."""
    return gpu.name


UNKNOWN = 'sku = "unknown", vram_gib_per_worker = 4'


@pytest.mark.parametrize(
    ("gpu", "found", "message"),
    [
        (UNKNOWN, facts(), "a GPU is not on vm; no GPU is there"),
        ('sku = "rtx-3090"', facts(), "rtx-3090 is not on vm; no GPU is there"),
        (
            'sku = "rtx-3090", uuid = "GPU-00000000-0000-0000-0000-000000000000"',
            facts(card("Odd Card")),
            "GPU-00000000-0000-0000-0000-000000000000 is not on vm; found there: Odd Card (GPU-q)",
        ),
        (
            UNKNOWN,
            facts(nvml_error="NVML hangs; reboot"),
            "a GPU cannot be seen on vm: NVML does not answer there",
        ),
    ],
)
def test_a_missing_gpu_is_reported_in_words(rig, gpu, found, message):
    gpus, (event,) = gpus_there(rig(gpu), {"vm": found}, lambda gpu: None, 3.0)
    assert gpus == {}
    assert (event.kind, event.subject, event.t_s, event.message) == ("gpu_missing", "vm/gpu0", 3.0, message)


def test_a_card_that_nvml_does_not_list_is_named_with_where_to_look(rig):
    found = facts(unlisted="the driver has a card at 0000:65:00.0 that NVML does not list; see dmesg")
    _, (event,) = gpus_there(rig('sku = "rtx-3090"'), {"vm": found}, lambda gpu: None, 3.0)
    assert event.message == (
        "rtx-3090 is not on vm; the driver has a card at 0000:65:00.0 that NVML does not list"
    )
    assert event.data["next_step"] == "see dmesg"


def test_a_driver_that_does_not_answer_is_the_next_step(rig):
    _, (event,) = gpus_there(rig(UNKNOWN), {"vm": facts(nvml_error="NVML hangs; reboot")}, named, 3.0)
    assert event.data["next_step"] == "follows from inventory.driver of vm, see there first"


PINNED = 'sku = "rtx-3090", uuid = "GPU-q"'


@pytest.mark.parametrize(
    ("gpu", "found", "name"),
    [
        (UNKNOWN, facts(hidden=(card("Odd Card"),), visible_devices=""), "a GPU"),
        ('sku = "rtx-3090"', facts(hidden=(card("rtx-3090"),), visible_devices=""), "rtx-3090"),
        (PINNED, facts(hidden=(card("Odd Card"),), visible_devices=""), "GPU-q"),
    ],
)
def test_a_card_that_is_hidden_is_not_looked_for_in_its_slot(rig, gpu, found, name):
    _, (event,) = gpus_there(rig(gpu), {"vm": found}, named, 3.0)
    hidden = found.hidden[0].name
    cards = "" if name == "GPU-q" else f"; it leaves out {hidden} (GPU-q)"
    assert event.message == (
        f"{name} is hidden on vm by CUDA_VISIBLE_DEVICES=, set where Ray was started{cards}"
    )
    assert event.data["next_step"].startswith("unset it there, or add the card to it")


@pytest.mark.parametrize(
    "gpu", ['sku = "rtx-3070"', 'sku = "rtx-3090", uuid = "GPU-00000000-0000-0000-0000-000000000000"']
)
def test_another_card_that_is_hidden_explains_nothing(rig, gpu):
    found = facts(hidden=(card("rtx-3090"),), visible_devices="")
    _, (event,) = gpus_there(rig(gpu), {"vm": found}, named, 3.0)
    assert (event.message.endswith("is not on vm; no GPU is there"), event.data["next_step"]) == (True, "")


def test_a_gpu_that_is_there_has_the_promised_subject(rig):
    gpus, events = gpus_there(rig(UNKNOWN), {"vm": facts(card("Odd Card"))}, lambda gpu: None, 3.0)
    assert (gpus["vm/gpu0"].uuid, events) == ("GPU-q", [])


def test_a_node_without_an_agent_promises_no_gpu_here(rig):
    assert gpus_there(rig(UNKNOWN), {}, lambda gpu: None, 3.0) == ({}, [])


def test_a_missing_node_takes_its_devices_with_it(rig):
    loaded = rig(UNKNOWN)
    node, gpu = missing_node(loaded, loaded.node("vm"), None, 3.0)
    assert (node.kind, node.subject) == ("node_missing", "vm")
    assert "ray start --head" in node.data["remedy"]
    assert node.message.endswith("the run was given no cluster, only this machine")
    assert "then add --ray-address 192.0.2.1:6379" in node.data["next_step"]
    assert gpu.message == "a GPU is missing with its node vm"
    assert gpu.data["remedy"] == node.data["remedy"]
    assert gpu.data["next_step"] == "bring its node back first: see cluster.nodes_present of vm"
    node, cpu = missing_node(loaded, loaded.node("box"), "192.0.2.9:6379", 3.0)
    assert node.message == "box is not in the cluster"
    assert node.data["next_step"].startswith(
        "switch it on, check its cable, type there: `env RAY_AUTH_MODE=token ray"
    )
    assert "ray start --address=192.0.2.9:6379" in node.data["next_step"]
    assert node.data["next_step"].endswith("; or `rigproof cluster down` and `up`")
    assert way_back(loaded.node("box"), None).startswith("look for what ended Ray there")
    assert cpu.subject == "box/cpu0"
    assert cpu.message.startswith("the CPU as the device is missing with its node box")


def test_a_machine_without_a_driver_is_rejected_without_a_ray_in_which_to_look_for_it():
    here = HostInventory("box", 8.0, 64.0, None, None, ())
    loaded = rig_of(here, KINDS, require_gpu=True)
    plan = make_plan(loaded, "quick")
    run = RunInfo("r", "2026-01-01T00:00:00Z", "quick", "0", "3.11", loaded.dump(), plan.stage_names)
    recording = Recording(run)
    recording.add(recorded(plan))
    cluster = RigCluster(
        loaded, plan, ray_address=None, sink=recording.add, now_s=time.monotonic, here=here, say=pytest.fail
    )
    with cluster:
        assert not ray.is_initialized()
        assert cluster.run_stage(plan.stages[0], {}).status == "failed"
        cluster.read_counters("after")
    evidence = Evidence(recording, loaded)
    driver, present, node = (
        judge(CATALOGUE[name], subject, evidence)
        for name, subject in (
            ("inventory.driver", "box"),
            ("inventory.gpus_present", "box/gpu0"),
            ("cluster.nodes_present", "box"),
        )
    )
    assert (driver.outcome, driver.detail) == (Outcome.FAIL, "no NVIDIA driver is installed")
    assert (present.outcome, present.detail) == (
        Outcome.FAIL,
        "a GPU cannot be seen on box: no NVIDIA driver is installed there",
    )
    assert present.remedy == "follows from inventory.driver of box, see there first"
    assert node.outcome is Outcome.PASS
    # else `rigproof verdict` could not tell that the machine has not been started again since
    assert [(one.subject, one.boot_id) for one in recording.boots] == [("box", boot_id().value)]


@pytest.mark.parametrize(
    "here",
    [
        HostInventory("box", 8.0, 64.0, None, "NVML hangs; reboot", ()),
        HostInventory("box", 8.0, 64.0, "580.1", None, ()),
        HostInventory("box", 8.0, 64.0, None, None, (), hidden_by="CUDA_VISIBLE_DEVICES="),
        HostInventory("box", 8.0, 64.0, "580.1", None, (card("Odd Card"),)),
    ],
)
def test_whatever_else_keeps_a_gpu_away_is_looked_for_where_its_workers_would_be(here):
    loaded = rig_of(HostInventory("box", 8.0, 64.0, None, None, ()), KINDS, require_gpu=True)
    assert without_driver(loaded, here) is None


def test_nor_is_another_machine_or_a_cpu_judged_from_here(rig):
    here = HostInventory("vm", 8.0, 64.0, None, None, ())
    assert without_driver(rig(UNKNOWN), here) is None
    assert without_driver(rig_of(here, KINDS), here) is None
