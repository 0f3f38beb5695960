import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.profiles.auto import profile_text, rig_of
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.identity import GpuIdentity
from rigproof.records.inventory import HostInventory
from rigproof.stages.registry import KINDS
from rigproof.stages.sustained.settings import SustainedSettings


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
    loaded = rig_of(host(gpu(0, "NVIDIA GeForce RTX 3090 Ti", 24576)), KINDS)
    (device,) = loaded.devices()
    assert device.gpu.sku == "unknown"
    assert device.sku is None
    assert "no SKU file" in loaded.rig.description
    assert make_plan(loaded, "quick").workers[0].vram_mib == 0.7 * 24 * 1024


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
