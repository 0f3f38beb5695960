"""Every run begins with a look at this machine, and a profile is completed by what is found."""

from dataclasses import replace
from pathlib import Path

import pytest

from rigproof.cluster.ray.preconditions import ClusterUnreachable
from rigproof.host import child
from rigproof.plugin import preparation
from rigproof.plugin.preparation import Refused, prepare
from rigproof.plugin.request import Request
from rigproof.profiles.auto import FoundHost
from rigproof.records.identity import GpuIdentity, HostInventory

H200 = GpuIdentity("box/gpu0", "cuda", "GPU-0", "NVIDIA H200", 0, 143771.0)


def request_of(profile, *, require_gpu=False) -> Request:
    return Request(str(profile), "quick", None, None, require_gpu, Path("reports"))


def test_a_real_run_is_not_asked_to_keep_simulated_rates():
    with pytest.raises(Refused, match="--hw-keep-history: the good rates of a real run are kept anyway"):
        prepare(replace(request_of("h200-x2"), keep_history=True))


@pytest.fixture
def machine(monkeypatch):
    """Have this machine found with these GPUs."""

    def has(*gpus: GpuIdentity, nvml_error=None, cpus=16.0, setting_error=None) -> HostInventory:
        found = ("box", cpus, 64.0, "580.65.06", nvml_error, gpus)
        inventory = HostInventory(*found, setting_error=setting_error)
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


@pytest.mark.parametrize(
    ("profile", "setting"), [("auto", "all"), ("single-gpu", "0,99"), ("h200-x2", "1,1"), ("auto", "0;1")]
)
def test_a_setting_that_would_hide_gpus_by_mistake_is_refused(nvml_of_child, monkeypatch, profile, setting):
    nvml_of_child("pass")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    with pytest.raises(Refused, match=rf"CUDA_VISIBLE_DEVICES={setting}: .*; unset it, or write indices"):
        prepare(request_of(profile))


def test_a_promised_gpu_that_is_hidden_is_refused_before_any_load(nvml_of_child, monkeypatch):
    nvml_of_child("pass")
    for setting, shown in (("", '""'), ("-1", "-1"), ("none", "none")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
        with pytest.raises(Refused) as refused:
            prepare(request_of("single-gpu"))
        assert str(refused.value) == (
            "hwprofiles/rigs/single-gpu.toml: promises localhost/gpu0, and "
            f"CUDA_VISIBLE_DEVICES={shown} hides the card; unset it, or name a profile of the GPUs that it "
            "shows"
        )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [one.index for one in prepare(request_of("single-gpu")).inventory.gpus] == [1]


def test_gpus_hidden_on_purpose_leave_the_cpu_and_are_named(nvml_of_child, monkeypatch):
    nvml_of_child("pass")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    loaded = prepare(request_of("auto")).loaded
    assert [one.gpu.device for one in loaded.devices()] == ["cpu"]
    assert [one.what for one in loaded.left_out] == ["2 of 2 GPUs hidden by CUDA_VISIBLE_DEVICES=-1"]
    with pytest.raises(Refused, match="a GPU is required"):
        prepare(request_of("auto", require_gpu=True))


@pytest.mark.parametrize("require_gpu", [False, True])
def test_a_driver_without_a_gpu_is_no_machine_without_a_driver(nvml_of_child, require_gpu):
    nvml_of_child("driver.gpus.clear()")
    with pytest.raises(Refused, match=r"auto: the GPUs .* NVML lists no GPU.*NVRM in `sudo dmesg`"):
        prepare(request_of("auto", require_gpu=require_gpu))


def test_the_setting_of_this_shell_says_nothing_about_a_cluster(machine, monkeypatch):
    machine(H200, setting_error="CUDA_VISIBLE_DEVICES=all: wrong")
    monkeypatch.setattr(preparation, "check_listening", lambda _address: None)
    request = replace(request_of("h200-x2"), ray_address="10.0.0.1:6379")
    assert len(prepare(request).plan.workers) == 2


def test_auto_in_a_cluster_is_every_host_of_it(machine, monkeypatch):
    machine(nvml_error="this machine's own shell is of no matter")
    hosts = [
        FoundHost(name, address, HostInventory(name, 16.0, 64.0, "580.1", None, (H200,)))
        for name, address in (("pc1", "10.0.0.1"), ("pc2", "10.0.0.2"))
    ]
    monkeypatch.setattr(preparation, "cluster_hosts", lambda _address, allow_open: hosts)
    monkeypatch.setattr(preparation, "check_listening", lambda _address: None)
    request = replace(request_of("auto"), ray_address="10.0.0.1:6379")
    assert [one.subject for one in prepare(request).plan.workers] == ["pc1/gpu0", "pc2/gpu0"]


def test_a_cluster_that_cannot_be_looked_at_is_refused(machine, monkeypatch):
    machine(H200)

    def unreachable(_address, allow_open):
        raise ClusterUnreachable("pc2 cannot be looked at")

    monkeypatch.setattr(preparation, "cluster_hosts", unreachable)
    with pytest.raises(Refused, match="pc2 cannot be looked at"):
        prepare(replace(request_of("auto"), ray_address="10.0.0.1:6379"))


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
