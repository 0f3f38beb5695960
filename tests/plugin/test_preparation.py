"""Every run begins with a look at this machine, and a profile is completed by what is found."""

from pathlib import Path

import pytest

from rigproof.plugin import preparation
from rigproof.plugin.options import Request
from rigproof.plugin.preparation import Refused, prepare
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
    machine(nvml_error="driver/library version mismatch")
    prepared = prepare(request_of("single-gpu", require_gpu=require_gpu))
    assert [worker.subject for worker in prepared.plan.workers] == ["localhost/gpu0"]
    assert prepared.inventory.nvml_error == "driver/library version mismatch"


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
    with pytest.raises(Refused, match="how much memory this device has is not known"):
        prepare(request_of(profile))
