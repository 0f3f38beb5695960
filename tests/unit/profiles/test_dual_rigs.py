"""The variants of the dual rig: what each plans, what it takes over, and that it can work."""

import dataclasses

import pytest

from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.planning.planning import make_plan
from rigproof.stages.registry import KINDS
from rigproof.stages.sharing.stage import SharingSettings
from rigproof.stages.training.stage import TrainingSettings

BASE = "dual-3090-3070"
VARIANTS = ("balanced", "distribution", "vram-safe", "max-stability", "ultimate", "fallback")


def variant(name: str):
    return load_rig(f"{BASE}-{name}", KINDS)


def workers_of(name: str, subject: str):
    return make_plan(variant(name), "standard").workers_of(subject)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_shares_the_base_and_its_plan_can_work(name):
    base, loaded = load_rig(BASE, KINDS), variant(name)
    assert lint_rig(loaded) == []
    assert [(node.name, node.address, node.cpus) for node in loaded.rig.nodes] == [
        ("pc1", "192.168.1.10", 80),
        ("pc2", "192.168.1.11", 16),
    ]
    assert loaded.source_of("nodes.pc1.address") == f"hwprofiles/rigs/{BASE}.toml"
    assert loaded.rig.timeouts.task_s == base.rig.timeouts.task_s == 120
    assert loaded.cpu_of("pc1").band_percent == (70, 85)
    assert loaded.rig.limits.core_temperature_c == 80
    assert [device.sku_stem for device in loaded.devices()] == ["rtx-3090", "rtx-3070"]


def test_balanced_is_the_base_with_a_cap_of_75_percent():
    loaded = variant("balanced")
    workers = make_plan(loaded, "standard").workers
    uncapped = [
        dataclasses.replace(one, memory=dataclasses.replace(one.memory, cap_mib=None)) for one in workers
    ]
    assert tuple(uncapped) == make_plan(load_rig(BASE, KINDS), "standard").workers
    assert [one.gemm_size for one in workers] == [5120, 4096]
    assert [one.memory.cap_mib / 1024 for one in workers] == [18, 6]
    cpu = loaded.cpu_of("pc1")
    assert (cpu.primary_thread_share, cpu.secondary_thread_share) == (0.70, 0.15)


def test_distribution_puts_two_workers_on_each_gpu_with_40_percent_each():
    for subject, memory_gib in (("pc1/gpu0", 23.57), ("pc2/gpu0", 7.67)):
        workers = workers_of("distribution", subject)
        assert [(w.gpu_share, w.cpus, w.gemm_size) for w in workers] == [(0.5, 1, 1200)] * 2
        for worker in workers:
            assert worker.memory.cap_mib == pytest.approx(0.4 * memory_gib * 1024)
            assert worker.memory.cleanup_rounds == 1
            assert worker.memory.cpu_fallback is True


def test_vram_safe_holds_the_nearest_plan_that_can_be_scheduled():
    first, second = workers_of("vram-safe", "pc1/gpu0"), workers_of("vram-safe", "pc2/gpu0")
    assert [(w.cpus, w.vram_mib / 1024) for w in first] == [(8, 2.75)] * 7
    assert [(w.cpus, w.vram_mib / 1024) for w in second] == [(4, 1.5)] * 3
    assert sum(w.memory.cap_mib for w in second) == pytest.approx(0.75 * 7.67 * 1024)
    assert {w.memory.cap_mib for w in first} == {None}
    memory = second[0].memory
    assert (memory.cleanup_rounds, memory.max_split_size_mib, memory.roundup_power2_divisions) == (15, 64, 16)
    assert memory.expandable_segments
    # 300 MB of 1.5 GB
    assert memory.start_share * second[0].vram_mib == pytest.approx(0.2 * 1536)


def test_max_stability_is_vram_safe_with_less_on_the_small_card():
    assert workers_of("max-stability", "pc1/gpu0") == workers_of("vram-safe", "pc1/gpu0")
    workers = workers_of("max-stability", "pc2/gpu0")
    assert [w.vram_mib for w in workers] == [1024, 1024]
    assert sum(w.memory.cap_mib for w in workers) == pytest.approx(0.6 * 7.67 * 1024)
    assert workers[0].memory.cleanup_rounds == 15


def test_ultimate_gives_one_worker_nearly_all_of_the_3090():
    loaded = variant("ultimate")
    (worker,) = workers_of("ultimate", "pc1/gpu0")
    assert (worker.vram_mib / 1024, worker.gemm_size) == (22, 8192)
    assert worker.vram_mib / (23.57 * 1024) > 0.90
    device = loaded.devices()[0]
    limits = device.limits
    assert (limits.core_temperature_warn_c, limits.core_temperature_c, limits.core_temperature_never_c) == (
        78,
        80,
        83,
    )
    assert limits.power_limit_w == (350, 420)
    training = device.settings(TrainingSettings)
    assert (training.target_share, training.reserve_gib, training.search) == (0.95, 2.0, True)
    assert (training.tf32, training.cudnn_benchmark) == (True, True)
    assert (worker.memory.cleanup_rounds, worker.memory.mixed_precision) == (50, True)
    assert loaded.settings(SharingSettings).workers == (1, 2, 3)
    assert workers_of("ultimate", "pc2/gpu0") == make_plan(load_rig(BASE, KINDS), "standard").workers_of(
        "pc2/gpu0"
    )


def test_fallback_takes_ultimate_back_to_14_gib_in_fp32():
    (worker,) = workers_of("fallback", "pc1/gpu0")
    assert worker.vram_mib / 1024 == 14
    assert not worker.memory.mixed_precision
    assert worker.memory.cap_mib == pytest.approx(0.70 * 23.57 * 1024)
    assert variant("fallback").devices()[0].limits == variant("ultimate").devices()[0].limits


PC1 = 'name = "pc1"\n[[nodes.gpus]]\nsku = "rtx-3090"\nmemory_gib = 23.57\n'
PC2 = 'name = "pc2"\n[[nodes.gpus]]\nsku = "rtx-3070"\nmemory_gib = 7.67\ngemm_size = 4096\n'


@pytest.mark.parametrize(
    ("node", "wrong"),
    [
        (
            PC1 + "workers = 7\ngpu_share = 0.6\nvram_gib_per_worker = 3.33\n",
            [
                "7 × 3.33 GiB do not fit pc1/gpu0: 23.57 GiB",
                "allows 17.68 GiB of pc1/gpu0",
                "7 workers × 0.6 of pc1/gpu0 are more than the whole",
            ],
        ),
        (
            PC2 + "workers = 3\ngpu_share = 0.7\nvram_gib_per_worker = 1.5\n",
            ["3 workers × 0.7 of pc2/gpu0 are more than the whole"],
        ),
        (
            PC2 + "workers = 4\nvram_gib_per_worker = 1.7\n",
            ["4 × 1.70 GiB do not fit pc2/gpu0: 7.67 GiB", "allows 5.75 GiB of pc2/gpu0"],
        ),
        (
            PC2 + "workers = 4\nvram_gib_per_worker = 1.94\n",
            ["4 × 1.94 GiB do not fit pc2/gpu0: 7.67 GiB", "allows 5.75 GiB of pc2/gpu0"],
        ),
    ],
    ids=["7 x 60 %", "3 x 70 %", "4 x 1.7", "7.76 of 7.67"],
)
def test_the_plan_as_the_seed_documents_have_it_is_refused_with_the_reason(desk, node, wrong):
    found = lint_rig(desk.load(f'name = "as-written"\nextends = "{BASE}-balanced"\n[[nodes]]\n{node}'))
    assert len(found) == len(wrong)
    for expected, line in zip(wrong, found, strict=True):
        assert expected in line
