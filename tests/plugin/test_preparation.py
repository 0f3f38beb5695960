"""Every run begins with a look at this machine, and a profile is completed by what is found."""

from pathlib import Path

import pytest

from rigproof.host import child
from rigproof.plugin import preparation
from rigproof.plugin.preparation import Refused, prepare
from rigproof.plugin.request import Request
from rigproof.records.identity import GpuIdentity
from rigproof.records.inventory import HostInventory

H200 = GpuIdentity("box/gpu0", "cuda", "GPU-0", "NVIDIA H200", 0, 143771.0)


def request_of(profile, *, require_gpu=False) -> Request:
    return Request(str(profile), "quick", None, None, require_gpu, Path("reports"))


@pytest.fixture
def machine(monkeypatch):
    """Have this machine found with these GPUs."""

    def has(*gpus: GpuIdentity, nvml_error: str | None = None, cpus: float = 16.0) -> HostInventory:
        inventory = HostInventory("box", cpus, 64.0, "580.65.06", nvml_error, gpus)
        monkeypatch.setattr(preparation, "detect", lambda limit_s: inventory)
        return inventory

    return has


CHILD = """
import sys
sys.path.append(sys.argv[1])
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import Fault, SimulatedDriver, SimulatedGpu
from rigproof.telemetry.inventory import inventory, inventory_to_json
from rigproof.telemetry.nvml.protocol import Code
driver = SimulatedDriver([SimulatedGpu("GPU-1"), SimulatedGpu("GPU-2")])
{broken}
with installed(driver):
    print(inventory_to_json(inventory()))
"""


@pytest.fixture
def nvml_of_child(monkeypatch):
    """Have this machine's two GPUs detected by a child process whose NVML is simulated, and broken so."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def breaks(broken: str) -> None:
        monkeypatch.setattr(child, "BOOT", CHILD.format(broken=broken))

    return breaks


@pytest.mark.parametrize("profile", ["auto", "single-gpu", "h200-x2", "dual-3090-3070"])
def test_this_machine_is_known_whatever_the_profile(machine, profile):
    inventory = machine(H200)
    assert prepare(request_of(profile)).inventory is inventory


def test_a_card_of_any_kind_is_judged_as_the_card_it_is(machine):
    machine(H200)
    prepared = prepare(request_of("single-gpu"))
    assert [device.sku_stem for device in prepared.loaded.devices()] == ["h200-sxm"]
    assert [worker.vram_mib for worker in prepared.plan.workers] == [pytest.approx(0.7 * 140.4 * 1024)]


@pytest.mark.parametrize("require_gpu", [False, True])
def test_a_machine_without_a_gpu_begins_a_run_that_misses_it(machine, require_gpu):
    machine()
    prepared = prepare(request_of("single-gpu", require_gpu=require_gpu))
    assert [worker.subject for worker in prepared.plan.workers] == ["localhost/gpu0"]


def test_a_machine_without_a_driver_has_its_cpu_as_the_device(machine):
    machine()
    assert [worker.device for worker in prepare(request_of("auto")).plan.workers] == ["cpu"]
    required = prepare(request_of("auto", require_gpu=True))
    assert [worker.device for worker in required.plan.workers] == ["cuda"]


@pytest.mark.parametrize("require_gpu", [False, True])
def test_a_broken_nvml_is_no_machine_without_a_gpu(nvml_of_child, require_gpu):
    nvml_of_child("driver.inject(Fault('nvmlInitWithFlags', Code.LIB_RM_VERSION_MISMATCH))")
    with pytest.raises(Refused) as auto:
        prepare(request_of("auto", require_gpu=require_gpu))
    assert str(auto.value).startswith(
        "auto: the GPUs of this machine cannot all be found: NVML does not answer (code 18)"
    )
    assert "; then run again, or name a profile that states the rig: --hwprofile NAME" in str(auto.value)
    with pytest.raises(Refused) as single:
        prepare(request_of("single-gpu", require_gpu=require_gpu))
    assert str(single.value).startswith(
        'hwprofiles/rigs/single-gpu.toml: nodes[0].gpus[0].sku = "unknown": which card this is cannot '
        "be found: NVML does not answer (code 18)"
    )


@pytest.mark.parametrize("profile", ["auto", "single-gpu"])
def test_a_lost_gpu_is_not_left_out_of_what_is_promised(nvml_of_child, profile):
    nvml_of_child("driver.gpus[1].lost = True")
    with pytest.raises(Refused, match=r"cannot (all )?be found: .*/gpu1: .*; then run again"):
        prepare(request_of(profile))


def test_the_same_child_finds_both_gpus_where_nothing_is_broken(nvml_of_child):
    nvml_of_child("pass")
    assert len(prepare(request_of("auto")).loaded.devices()) == 2


@pytest.mark.parametrize("profile", ["h200-x2", "dual-3090-3070"])
def test_a_rig_that_states_its_gpus_is_left_to_its_criteria(machine, profile):
    machine(nvml_error="NVML does not answer (code 18): driver/library version mismatch")
    prepared = prepare(request_of(profile, require_gpu=True))
    assert [worker.device for worker in prepared.plan.workers] == ["cuda", "cuda"]


def test_a_rig_that_promises_the_cpu_needs_no_nvml(machine, tmp_path):
    machine(nvml_error="NVML does not answer (code 18): driver/library version mismatch")
    profile = tmp_path / "cpu.toml"
    profile.write_text(
        'name = "cpu"\n[[nodes]]\nname = "here"\n[[nodes.gpus]]\nsku = "unknown"\ndevice = "cpu"\n'
    )
    assert [worker.device for worker in prepare(request_of(profile)).plan.workers] == ["cpu"]


def test_a_machine_with_too_few_cpus_is_refused_before_any_load(machine):
    machine(H200, cpus=1.0)
    with pytest.raises(Refused, match=r"nodes\.localhost\.cpus = 1: the workers of localhost reserve 2 CPUs"):
        prepare(request_of("h200-x2"))


def test_an_unknown_card_of_a_machine_with_an_address_is_refused(machine, tmp_path):
    machine(H200)
    profile = tmp_path / "lab.toml"
    profile.write_text(
        'name = "lab"\n[[nodes]]\nname = "pc1"\naddress = "10.0.0.1"\n[[nodes.gpus]]\nsku = "unknown"\n'
    )
    with pytest.raises(Refused, match="the memory size of this device is not known"):
        prepare(request_of(profile))
