"""What a profile leaves to be found is found; what it states stays."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rigproof.profiles.auto import completed
from rigproof.profiles.documents.text import profile_text
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import all_skus, load_rig, over_defaults
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.loading.matching import assign_gpus, sku_of
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.identity import GpuIdentity, HostInventory
from rigproof.stages.registry import KINDS

SKUS = all_skus(KINDS)
HEAD = 'name = "lab"\n[[nodes]]\nname = "here"\n'
UNKNOWN = '[[nodes.gpus]]\nsku = "unknown"\n'
H200, RTX_3090, L4 = ("NVIDIA H200", 143771.0), ("NVIDIA GeForce RTX 3090", 24576.0), ("NVIDIA L4", 23034.0)


def host(*cards, cpus=32.0, ram_gib=128.0) -> HostInventory:
    gpus = tuple(
        GpuIdentity(f"box/gpu{index}", "cuda", f"GPU-{index}", name, index, memory)
        for index, (name, memory) in enumerate(cards)
    )
    return HostInventory("box", cpus, ram_gib, "580.1", None, gpus)


def stems(loaded):
    return [device.sku_stem for device in loaded.devices()]


def test_an_unknown_card_gets_the_sku_the_memory_and_the_plan_of_the_card_found():
    loaded = completed(load_rig("single-gpu", KINDS), host(H200))
    (device,) = loaded.devices()
    assert (device.subject, device.sku_stem, device.gpu.memory_gib) == ("localhost/gpu0", "h200-sxm", 140.4)
    assert device.sku == SKUS["h200-sxm"]
    (worker,) = make_plan(loaded, "standard").workers
    assert worker.vram_mib == pytest.approx(0.7 * 140.4 * 1024)
    assert worker.gemm_size == 8192
    assert lint_rig(loaded) == []


def test_sources_distinguish_what_was_found_from_what_the_file_says():
    loaded = completed(load_rig("single-gpu", KINDS), host(H200))
    assert loaded.file == loaded.source_of("name") == "hwprofiles/rigs/single-gpu.toml"
    found = {key for key, source in loaded.sources.items() if source == "auto"}
    card = "nodes.localhost.gpus.0"
    assert found == {"nodes.localhost.cpus", "nodes.localhost.ram_gib", f"{card}.sku", f"{card}.memory_gib"}


def test_what_a_card_states_itself_stays(desk):
    own = 'uuid = "GPU-0"\nworkers = 2\nvram_share = 0.5\ngemm_size = 4096\nlimits.core_temperature_c = 70\n'
    stated = desk.load(HEAD + "cpus = 8\nram_gib = 16\n" + UNKNOWN + own + "floors.gemm_bf16_tflops = 400\n")
    loaded = completed(stated, host(H200))
    (before,), (after,) = stated.devices(), loaded.devices()
    assert after.gpu == before.gpu.model_copy(update={"sku": "h200-sxm", "memory_gib": 140.4})
    assert (loaded.rig.nodes[0].cpus, loaded.rig.nodes[0].ram_gib) == (8, 16)
    assert loaded.source_of("nodes.here.cpus") == "lab.toml"


def test_stated_memory_is_the_memory_to_plan_with(desk):
    loaded = completed(desk.load(HEAD + UNKNOWN + "memory_gib = 10\n"), host(H200))
    assert stems(loaded) == ["h200-sxm"]
    assert make_plan(loaded, "quick").workers[0].vram_mib == pytest.approx(0.7 * 10 * 1024)


@pytest.mark.parametrize(
    ("gpus", "cards", "expected"),
    [
        (2 * UNKNOWN, (RTX_3090, H200), ["rtx-3090", "h200-sxm"]),  # in NVML's order
        (2 * UNKNOWN + 'uuid = "GPU-0"\n', (RTX_3090, H200), ["h200-sxm", "rtx-3090"]),
        (UNKNOWN + '[[nodes.gpus]]\nsku = "h200-sxm"\n', (H200, RTX_3090), ["rtx-3090", "h200-sxm"]),
    ],
)
def test_each_place_finds_the_card_that_is_pinned_or_stated_or_left(desk, gpus, cards, expected):
    assert stems(completed(desk.load(HEAD + gpus), host(*cards))) == expected


def test_a_pinned_card_that_is_not_there_takes_no_others_place(desk):
    loaded = completed(desk.load(HEAD + UNKNOWN + 'uuid = "GPU-9"\n'), host(H200))
    (device,) = loaded.devices()
    assert (device.gpu.sku, device.gpu.uuid, device.gpu.memory_gib) == ("unknown", "GPU-9", None)
    assert make_plan(loaded, "quick").workers[0].vram_mib == 1024


def test_a_card_without_a_sku_file_gets_its_memory_alone():
    loaded = completed(load_rig("single-gpu", KINDS), host(("NVIDIA T1000", 8192.0)))
    (device,) = loaded.devices()
    assert (device.gpu.sku, device.sku, device.gpu.memory_gib) == ("unknown", None, 8.0)
    assert loaded.source_of(f"{device.key}.sku") == "hwprofiles/rigs/single-gpu.toml"
    assert make_plan(loaded, "quick").workers[0].vram_mib == pytest.approx(0.7 * 8 * 1024)


def test_a_machine_without_a_card_still_promises_it_with_a_small_plan():
    loaded = completed(load_rig("single-gpu", KINDS), host())
    assert [device.subject for device in loaded.devices()] == ["localhost/gpu0"]
    (worker,) = make_plan(loaded, "quick").workers
    assert (worker.device, worker.vram_mib, worker.gemm_size) == ("cuda", 1024, 4096)
    assert lint_rig(loaded) == []


def test_stated_operands_of_a_missing_card_still_fit_its_plan(desk):
    loaded = completed(desk.load(HEAD + UNKNOWN + "gemm_size = 32768\n"), host())
    (worker,) = make_plan(loaded, "quick").workers
    assert (worker.gemm_size, worker.vram_mib) == (32768, 20 * 1024)
    assert lint_rig(loaded) == []


def test_a_small_card_gets_less_than_the_defaults_and_no_less_than_what_is_stated(desk):
    small = host(("Small", 1024.0))
    assert lint_rig(completed(desk.load(HEAD + UNKNOWN), small)) == []
    loaded = completed(desk.load(HEAD + UNKNOWN + "[gpu_defaults]\nvram_share = 0.9\n"), small)
    assert any("gpu_defaults.vram_share = 0.9: 1 × 0.90 GiB do not fit" in line for line in lint_rig(loaded))


def test_a_floor_that_cannot_fail_shows_once_the_card_is_known(desk):
    rig = desk.load(HEAD + UNKNOWN + "floors.gemm_bf16_tflops = 20\n")
    assert lint_rig(rig) == []
    (line,) = lint_rig(completed(rig, host(H200)))
    assert line.startswith("lab.toml: nodes[0].gpus[0].floors.gemm_bf16_tflops = 20: ")


def test_stated_skus_stay_and_the_host_is_filled_in():
    stated = load_rig("h200-x2", KINDS)
    loaded = completed(stated, host(RTX_3090, cpus=24.5, ram_gib=0.004))
    assert loaded.devices() == stated.devices()
    assert (loaded.rig.nodes[0].cpus, loaded.rig.nodes[0].ram_gib) == (24.5, 0.004)
    assert loaded.sources["nodes.localhost.cpus"] == "auto"


def test_what_the_host_does_not_report_stays_open():
    loaded = completed(load_rig("h200-x2", KINDS), host(H200, H200, cpus=0.0, ram_gib=0.0))
    assert loaded == load_rig("h200-x2", KINDS)


def test_rigs_that_are_not_surely_this_machine_come_back_as_they_are(desk):
    addressed = desk.load(HEAD + 'address = "10.0.0.1"\n' + UNKNOWN)
    for rig in (load_rig("dual-3090-3070", KINDS), addressed):
        assert completed(rig, host(H200, H200)) is rig
    with pytest.raises(ProfileError, match="is not known"):
        make_plan(completed(addressed, host(H200)), "quick")


def test_the_cpu_as_the_device_gets_its_ram_and_no_sku(desk):
    loaded = completed(desk.load(HEAD + UNKNOWN + 'device = "cpu"\n'), host(H200, cpus=6.0, ram_gib=64.0))
    (device,) = loaded.devices()
    assert (device.gpu.sku, device.gpu.memory_gib) == ("unknown", None)
    (worker,) = make_plan(loaded, "quick").workers
    assert (worker.cpus, worker.vram_mib) == (3, pytest.approx(0.02 * 64 * 1024))


def test_a_completed_rig_is_recorded_whole_and_prints_as_a_profile(desk):
    loaded = completed(load_rig("single-gpu", KINDS), host(L4))
    assert LoadedRig.restore(json.loads(json.dumps(loaded.dump())), KINDS) == loaded
    back = desk.load(profile_text(loaded))
    assert make_plan(back, "standard") == make_plan(loaded, "standard")


NAMES = st.sampled_from([H200[0], RTX_3090[0], L4[0], "NVIDIA T1000", "?"])
CARDS = st.lists(st.tuples(NAMES, st.just(0.0) | st.floats(8192, 300_000)), max_size=4)
PROMISES = st.lists(
    st.fixed_dictionaries(
        {"sku": st.sampled_from(["unknown", "unknown", "h200-sxm", "l4"])},
        optional={
            "workers": st.integers(1, 4),
            "gemm_size": st.sampled_from([64, 512]),
            "vram_share": st.sampled_from([0.3, 0.45]),
        },
    ),
    min_size=1,
    max_size=4,
)


def promise(gpus, pinned):
    tables = [dict(gpu) for gpu in gpus]
    if pinned is not None:
        tables[-1]["uuid"] = f"GPU-{pinned}"
    return over_defaults({"name": "lab", "nodes": [{"name": "here", "gpus": tables}]}, "lab.toml", KINDS)


@settings(max_examples=80, deadline=None)
@given(PROMISES, CARDS, st.none() | st.integers(0, 4))
def test_any_completed_rig_can_be_planned_and_states_what_it_stated(gpus, cards, pinned):
    stated = promise(gpus, pinned)
    loaded = completed(stated, host(*cards))
    assert lint_rig(loaded) == []
    make_plan(loaded, "quick")
    for before, after in zip(stated.devices(), loaded.devices(), strict=True):
        own = before.gpu.model_dump(exclude_unset=True, exclude={"sku"})
        assert after.gpu.model_dump(include=set(own)) == own
        assert before.gpu.sku in ("unknown", after.gpu.sku)
    assert completed(loaded, host(*cards)).rig == loaded.rig


@example(
    [{"sku": "unknown"}, {"sku": "h200-sxm"}, {"sku": "unknown"}, {"sku": "unknown"}],
    [RTX_3090, RTX_3090, ("NVIDIA T1000", 8192.0), RTX_3090],
    None,
)
@settings(max_examples=80, deadline=None)
@given(PROMISES, CARDS, st.none() | st.integers(0, 4))
def test_a_run_gives_each_unknown_subject_the_card_that_it_was_completed_by(gpus, cards, pinned):
    stated, found = promise(gpus, pinned), host(*cards)
    promised = completed(stated, found).devices()
    assigned = assign_gpus(promised, found.gpus, sku_of(SKUS))
    for before, after in zip(stated.devices(), promised, strict=True):
        if before.gpu.sku == "unknown" and after.subject in assigned:
            assert assigned[after.subject].sku == after.sku_stem
