"""MIG devices, which NVML knows by their UUIDs, and their parents."""

import pytest

from rigproof.cluster.actors.agent import NodeAgent
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import SimulatedDriver, SimulatedGpu
from rigproof.telemetry.inventory import inventory
from rigproof.telemetry.nvml.session import open_nvml

SLICES = ("MIG-5c1d", "MIG-77aa")


def driver() -> SimulatedDriver:
    return SimulatedDriver([SimulatedGpu("GPU-1"), SimulatedGpu("GPU-2", mig_enabled=True, mig_uuids=SLICES)])


def test_the_parent_of_a_slice_is_known():
    with installed(driver()), open_nvml() as nvml:
        found = [nvml.parent_of(uuid) for uuid in (*SLICES, "MIG-none", "GPU-1")]
    assert found == ["GPU-2", "GPU-2", None, None]


def test_a_slice_shows_its_parent_which_is_judged_as_split_up(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-77aa")
    with installed(driver()):
        found = inventory()
    assert found.nvml_error is None
    assert [(gpu.uuid, gpu.mig_enabled) for gpu in found.gpus] == [("GPU-2", True)]


@pytest.mark.parametrize("setting", ["MIG-none", "GPU-3", "2"])
def test_a_machine_whose_gpus_a_wrong_setting_hides_is_no_machine_without_one(monkeypatch, setting):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    with installed(driver()):
        found = inventory()
    assert found.gpus == ()
    assert found.doubt == (
        f"CUDA_VISIBLE_DEVICES={setting}: '{setting}': no GPU here has it; unset it, or write indices of the "
        "GPUs here (0,1) or their UUIDs (GPU-1, GPU-2), separated by commas, or -1 to hide every GPU on "
        "purpose"
    )


def test_an_agent_offers_the_parent_too():
    with installed(driver()):
        agent = NodeAgent(visible_devices=lambda: "MIG-5c1d")
        facts = agent.facts("pc1", True, 5.0)
        agent.finish(5.0)
    assert [gpu.uuid for gpu in facts.gpus] == ["GPU-2"]
    assert [gpu.uuid for gpu in facts.hidden] == ["GPU-1"]
