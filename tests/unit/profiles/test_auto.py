import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.profiles.auto import AUTO, FoundHost, hidden_here, rig_of, rig_of_hosts
from rigproof.profiles.documents.text import profile_text, summary_lines
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.lint.rig import lint_doubts, lint_rig
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LeftOut, LoadedRig, left_out_text
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.identity import GpuIdentity, HostInventory
from rigproof.stages.registry import KINDS
from rigproof.stages.sustained.stage import SustainedSettings


def gpu(index: int, name: str, memory_mib: float) -> GpuIdentity:
    return GpuIdentity(f"host/gpu{index}", "cuda", f"GPU-{index}", name, index, memory_mib)


def host(*gpus: GpuIdentity, hostname="host", cpus=32.0, ram_gib=128.0) -> HostInventory:
    return HostInventory(hostname, cpus, ram_gib, "580.1", None, gpus)


def reloaded(text: str):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.toml"
        path.write_text(text, encoding="utf-8")
        return load_rig(str(path), KINDS)


def test_every_gpu_found_is_promised_with_its_sku():
    loaded = rig_of(host(gpu(0, "NVIDIA H200", 143771), gpu(1, "NVIDIA GeForce RTX 3090", 24576)), KINDS)
    assert [(d.subject, d.sku_stem) for d in loaded.devices()] == [
        ("host/gpu0", "h200-sxm"),
        ("host/gpu1", "rtx-3090"),
    ]
    assert loaded.rig.nodes[0].address is None
    assert loaded.devices()[0].gpu.memory_gib == 140.4
    assert loaded.source_of("limits.success_share") == "hwprofiles/defaults.toml"
    assert lint_rig(loaded) == []


def test_an_unknown_gpu_is_accepted_without_floors_and_the_report_says_so():
    loaded = rig_of(host(gpu(0, "NVIDIA GeForce RTX 2080 Ti", 24576)), KINDS)
    (device,) = loaded.devices()
    assert device.gpu.sku == "unknown"
    assert device.sku is None
    assert "no SKU file" in loaded.rig.description
    assert make_plan(loaded, "quick").workers[0].vram_mib == 0.7 * 24 * 1024


@pytest.mark.parametrize(("memory_mib", "sku"), [(8192, "rtx-3060-8gb"), (12288, "rtx-3060")])
def test_a_card_has_the_sku_of_its_name_that_has_its_memory(memory_mib, sku):
    found = host(gpu(0, "NVIDIA GeForce RTX 3060", memory_mib))
    (device,) = rig_of(found, KINDS).devices()
    assert (device.gpu.sku, device.gpu.memory_gib) == (sku, memory_mib / 1024)


def test_without_a_gpu_the_cpu_is_the_device_and_that_is_reported():
    loaded = rig_of(host(cpus=6.0), KINDS)
    (device,) = loaded.devices()
    assert (device.subject, device.gpu.device) == ("host/cpu0", "cpu")
    assert loaded.rig.description == "The CPU of this machine (6 CPUs) as the device."
    assert "gpu" not in loaded.rig.description.lower()
    (worker,) = make_plan(loaded, "quick").workers
    assert worker.cpus == 3
    assert worker.gemm_size == 1024
    assert lint_rig(loaded) == []


def test_a_required_gpu_that_is_not_there_is_promised_and_so_missed():
    loaded = rig_of(host(), KINDS, require_gpu=True)
    assert [(d.subject, d.gpu.device) for d in loaded.devices()] == [("host/gpu0", "cuda")]
    assert "none was found" in loaded.rig.description
    assert lint_rig(loaded) == []


def test_small_cards_get_smaller_operands():
    loaded = rig_of(host(gpu(0, "Small", 1024.0), gpu(1, "Large", 16384.0)), KINDS)
    small, large = make_plan(loaded, "quick").workers
    assert small.gemm_size < large.gemm_size == 8192
    assert lint_rig(loaded) == []


def test_a_card_that_reports_no_memory_is_still_planned():
    loaded = rig_of(host(gpu(0, "Odd", 0.0), gpu(1, "NVIDIA L4", 0.0)), KINDS)
    odd, l4 = make_plan(loaded, "quick").workers
    assert odd.vram_mib == 1024
    assert l4.vram_mib == 0.7 * 22.5 * 1024
    assert lint_rig(loaded) == []


def test_hostnames_become_names_that_a_profile_can_hold():
    for hostname, name in [
        ("my host!", "my-host-"),
        ("-x", "x"),
        ("", "host"),
        ("ü" * 3, "host"),
        ("a" * 99, "a" * 64),
    ]:
        assert rig_of(host(hostname=hostname), KINDS).rig.nodes[0].name == name


def test_the_printed_profile_names_its_schema_and_loads_back():
    loaded = rig_of(host(gpu(0, "NVIDIA H200", 143771)), KINDS)
    text = profile_text(loaded)
    schema = text.splitlines()[0].removeprefix("#:schema ")
    assert json.loads(Path(schema.removeprefix("file://")).read_text())["title"] == "rigproof rig profile"
    assert make_plan(reloaded(text), "standard") == make_plan(loaded, "standard")


@pytest.mark.parametrize("address", [None, "192.168.1.10"])
@pytest.mark.parametrize(
    "found",
    [
        (gpu(0, "NVIDIA H200", 143771), gpu(1, "NVIDIA H200", 143771)),
        (gpu(0, "NVIDIA GeForce RTX 3070", 8192),),
        (gpu(0, "NVIDIA T1000", 4096), gpu(1, "NVIDIA T1000", 0)),
        (),
    ],
)
def test_the_printed_profile_is_clean_and_understood_as_it_was_found(found, address):
    hosts = [FoundHost("pc1", address, host(*found))]
    if address is not None:
        hosts.append(FoundHost("pc2", "192.168.1.11", host(gpu(0, "NVIDIA GeForce RTX 3090", 24576))))
    loaded = rig_of_hosts(hosts, KINDS)
    back = reloaded(profile_text(loaded))
    assert (lint_rig(back), lint_doubts(back)) == ([], [])
    told, understood = list(summary_lines(loaded)), list(summary_lines(back))
    assert [line.split(" (")[0] for line in (told[0], understood[0])] == [loaded.rig.name] * 2
    assert told[1:] == [line.replace(back.file, AUTO) for line in understood[1:]]


def test_a_shipped_rig_prints_what_it_states_itself():
    loaded = load_rig("dual-3090-3070", KINDS)
    text = profile_text(loaded)
    assert "throttle_share" not in text
    back = reloaded(text)
    assert back.settings(SustainedSettings).combined_floor_tflops == 78.1
    assert back.devices() == loaded.devices()
    assert back.rig == loaded.rig


NAMES = st.sampled_from(["NVIDIA H200", "NVIDIA GeForce RTX 3070", "NVIDIA T1000", "Tesla T4"]) | st.text(
    max_size=12
)
GPUS = st.lists(st.tuples(NAMES, st.floats(0, 300_000)), max_size=4)


@settings(max_examples=60, deadline=None)
@given(GPUS, st.text(max_size=12), st.floats(0.0, 512), st.floats(0.0, 2048), st.booleans())
def test_any_inventory_prints_a_profile_of_the_same_plan(gpus, hostname, cpus, ram_gib, require_gpu):
    found = tuple(gpu(index, name, memory) for index, (name, memory) in enumerate(gpus))
    loaded = rig_of(HostInventory(hostname, cpus, ram_gib, None, None, found), KINDS, require_gpu=require_gpu)
    back = reloaded(profile_text(loaded))
    assert back.rig == loaded.rig
    assert make_plan(back, "quick") == make_plan(loaded, "quick")


H200 = gpu(0, "NVIDIA H200", 143771)
SECOND = gpu(1, "NVIDIA H200", 143771)
NO_GPU = host(hostname="bare")
HIDDEN = replace(host(), hidden=(H200, SECOND), hidden_by="CUDA_VISIBLE_DEVICES=-1")


def found(**of_host: HostInventory) -> list[FoundHost]:
    return [FoundHost(name, f"10.0.0.{n}", one) for n, (name, one) in enumerate(of_host.items(), 1)]


def test_a_cluster_makes_one_rig_of_all_its_hosts():
    loaded = rig_of_hosts(found(pc1=host(H200), pc2=host(H200, gpu(1, "NVIDIA L4", 23034))), KINDS)
    assert (loaded.rig.name, loaded.left_out) == ("pc1-pc2", ())
    assert [(node.name, node.address) for node in loaded.rig.nodes] == [
        ("pc1", "10.0.0.1"),
        ("pc2", "10.0.0.2"),
    ]
    assert [one.subject for one in loaded.devices()] == ["pc1/gpu0", "pc2/gpu0", "pc2/gpu1"]
    assert loaded.rig.description == "Found here: 2 × NVIDIA H200, 1 × NVIDIA L4."
    assert lint_rig(loaded) == []
    assert reloaded(profile_text(loaded)).rig == loaded.rig


def test_hosts_without_a_gpu_beside_others_are_left_out_and_named():
    loaded = rig_of_hosts(found(head=NO_GPU, pc1=host(H200), login=NO_GPU, old=HIDDEN), KINDS)
    assert [node.name for node in loaded.rig.nodes] == ["pc1"]
    assert loaded.left_out == (
        LeftOut("head", "no GPU"),
        LeftOut("login", "no GPU"),
        LeftOut("old", "2 of 2 GPUs hidden by CUDA_VISIBLE_DEVICES=-1"),
    )
    said = "head and login (no GPU), old (2 of 2 GPUs hidden by CUDA_VISIBLE_DEVICES=-1)"
    assert left_out_text(loaded.left_out) == said
    assert f"# Not in this rig: {said}.\n" in profile_text(loaded)
    assert LoadedRig.restore(json.loads(json.dumps(loaded.dump())), KINDS).left_out == loaded.left_out


def test_a_hundred_hosts_without_a_gpu_are_not_all_named():
    left_out = [LeftOut(f"n{number}", "no GPU") for number in range(100)]
    assert left_out_text(left_out) == "n0, n1, n2 and 97 more (no GPU)"


def test_hidden_gpus_are_left_out_and_named_on_this_machine_too():
    half = replace(host(H200), hidden=(SECOND,), hidden_by="CUDA_VISIBLE_DEVICES=0")
    loaded = rig_of(half, KINDS)
    assert [one.subject for one in loaded.devices()] == ["host/gpu0"]
    assert loaded.left_out == (LeftOut("host", "1 of 2 GPUs hidden by CUDA_VISIBLE_DEVICES=0"),)
    cpu = rig_of(HIDDEN, KINDS)
    assert [one.subject for one in cpu.devices()] == ["host/cpu0"]
    assert cpu.left_out == (LeftOut("host", "2 of 2 GPUs hidden by CUDA_VISIBLE_DEVICES=-1"),)
    unread = replace(host(), hidden_by="CUDA_VISIBLE_DEVICES=-1")  # there may be none
    assert rig_of(unread, KINDS).left_out == (LeftOut("host", "any GPU hidden by CUDA_VISIBLE_DEVICES=-1"),)


def test_a_setting_that_names_a_gpu_without_a_driver_is_said():
    named = replace(host(), named_by="CUDA_VISIBLE_DEVICES=0")
    (left_out,) = rig_of(named, KINDS).left_out
    assert left_out.what == "no NVIDIA driver, though CUDA_VISIBLE_DEVICES=0 names a GPU"


def test_a_gpu_cannot_be_required_and_hidden():
    with pytest.raises(
        ProfileError, match=r"CUDA_VISIBLE_DEVICES=-1 hides every one of host; unset it, or leave"
    ):
        rig_of(HIDDEN, KINDS, require_gpu=True)
    assert rig_of_hosts(found(old=HIDDEN, pc1=host(H200)), KINDS, require_gpu=True).rig.name == "pc1"


def test_a_rig_of_many_hosts_has_a_short_name():
    long = "a" * 60
    hosts = {f"n{number}": host(gpu(number, "NVIDIA H200", 143771)) for number in range(9)}
    assert rig_of_hosts(found(**hosts), KINDS).rig.name == "n0-and-8-more"
    two = rig_of_hosts(found(**{long: host(H200), "b123": host(SECOND)}), KINDS)
    assert two.rig.name == f"{'a' * 48}-and-1-more"
    assert rig_of_hosts(found(a=NO_GPU, b=NO_GPU), KINDS).rig.description == (
        "The CPUs of these 2 machines as the devices."
    )


def test_a_promised_gpu_that_a_setting_hides_is_known():
    here = load_rig("h200-x2", KINDS)
    half = replace(host(H200), hidden=(SECOND,), hidden_by="CUDA_VISIBLE_DEVICES=0")
    assert hidden_here(here, half) == ("localhost/gpu1",)
    assert hidden_here(here, host(H200)) == ()  # missing, not hidden
    assert hidden_here(load_rig("single-gpu", KINDS), half) == ()
    assert hidden_here(load_rig("dual-3090-3070", KINDS), HIDDEN) == ()  # of other machines


@pytest.mark.parametrize(
    ("cpus", "expected"), [(0.5, False), (1.0, False), (1.1, False), (1.25, True), (2.0, True)]
)
def test_a_cpu_as_the_device_that_is_all_of_the_host_leaves_no_band(cpus, expected):
    assert rig_of(host(cpus=cpus), KINDS).cpu_of("host").enabled is expected


def test_a_single_cpu_beside_a_gpu_is_held_in_its_band():
    assert rig_of(host(H200, cpus=1.0), KINDS).cpu_of("host").enabled
    assert rig_of(host(cpus=1.0), KINDS, require_gpu=True).cpu_of("host").enabled
