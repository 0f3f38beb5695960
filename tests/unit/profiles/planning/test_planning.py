import pytest

from rigproof.profiles.errors import ProfileError
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.tables.levels import LEVELS
from rigproof.stages.registry import KINDS

HEAD = 'name = "lab"\n[[nodes]]\nname = "a"\ncpus = 16\n'


def test_workers_are_named_by_node_gpu_and_number(desk):
    plan = make_plan(
        desk.load(HEAD + '[[nodes.gpus]]\nsku = "rtx-3090"\nworkers = 2\n[[nodes.gpus]]\nsku = "rtx-3070"\n'),
        "quick",
    )
    assert [worker.worker for worker in plan.workers] == ["a/gpu0#0", "a/gpu0#1", "a/gpu1#0"]
    assert [worker.gpu_share for worker in plan.workers] == [0.5, 0.5, 1.0]
    assert plan.workers[0].vram_mib == pytest.approx(0.70 * 24 * 1024 / 2)
    assert plan.workers[2].vram_mib == pytest.approx(0.70 * 8 * 1024)
    assert {worker.gemm_size for worker in plan.workers} == {8192}
    assert {worker.cpus for worker in plan.workers} == {1}


@pytest.mark.parametrize("workers", [1, 2, 3, 6, 7, 11, 13, 64])
def test_even_shares_fit_one_gpu_as_ray_counts_them(desk, workers):
    plan = make_plan(desk.load(HEAD + f'[[nodes.gpus]]\nsku = "h200-sxm"\nworkers = {workers}\n'), "quick")
    counted = [round(worker.gpu_share * 10_000) for worker in plan.workers]
    assert len(counted) == workers
    assert sum(counted) <= 10_000


def test_vram_per_worker_in_gib_comes_before_the_share(desk):
    (worker,) = make_plan(
        desk.load(HEAD + '[[nodes.gpus]]\nsku = "unknown"\nvram_gib_per_worker = 3\n'), "quick"
    ).workers
    assert worker.vram_mib == 3072


def test_memory_that_nobody_knows_is_a_problem_not_a_guess(desk):
    elsewhere = 'address = "10.0.0.1"\n[[nodes.gpus]]\nsku = "unknown"\n'
    loaded = desk.load(HEAD + elsewhere)
    expected = (
        'lab.toml: nodes[0].gpus[0].sku = "unknown": the memory size of this device is not known; '
        "write for example vram_gib_per_worker = 4, or memory_gib"
    )
    with pytest.raises(ProfileError) as caught:
        make_plan(loaded, "quick")
    assert caught.value.problems == (expected,)
    assert lint_rig(loaded) == [expected]


@pytest.mark.parametrize(("cpus", "threads"), [(1, 1), (2, 1), (3, 1), (4, 2), (9, 4), (0.5, 1)])
def test_the_cpu_as_device_gets_half_of_the_cpus_as_threads(desk, cpus, threads):
    text = f'name = "lab"\n[[nodes]]\nname = "a"\ncpus = {cpus}\nram_gib = 8\n'
    (worker,) = make_plan(
        desk.load(text + '[[nodes.gpus]]\nsku = "unknown"\ndevice = "cpu"\n'), "quick"
    ).workers
    assert (worker.worker, worker.subject, worker.device) == ("a/cpu0#0", "a/cpu0", "cpu")
    assert worker.cpus == threads
    assert worker.gpu_share == 0
    assert worker.gemm_size == 1024
    assert worker.vram_mib == pytest.approx(0.02 * 8 * 1024)


@pytest.mark.parametrize("rig", ["dual-3090-3070", "h200-x2"])
def test_levels_take_as_long_as_users_are_told(rig):
    lengths = {
        level: make_plan(load_rig(rig, KINDS), level).expected_s
        for level in ("quick", "standard", "extended", "soak")
    }
    assert 50 <= lengths["quick"] <= 75
    assert 160 <= lengths["standard"] <= 210
    assert 13 * 60 <= lengths["extended"] <= 17 * 60
    assert 55 * 60 <= lengths["soak"] <= 66 * 60


def of_one_node(stages):
    """The stages that a rig of one node has, too."""
    return tuple(one for one in stages if KINDS[one.name].crew in ("workers", "devices", "nodes", "hosts"))


CPU = '[[nodes.gpus]]\nsku = "unknown"\ndevice = "cpu"\nmemory_gib = 8\n'


@pytest.mark.parametrize("level", LEVELS)
def test_a_rig_of_cpus_alone_takes_less_time_and_one_with_a_gpu_does_not(desk, level):
    gpu, cpus, both = (
        make_plan(desk.load(HEAD + text), level)
        for text in (
            '[[nodes.gpus]]\nsku = "t4"\n',
            f'{CPU}[[nodes]]\nname = "b"\n{CPU}',
            f'{CPU}[[nodes]]\nname = "b"\n[[nodes.gpus]]\nsku = "t4"\n',
        )
    )
    sustained_s, share = {
        "quick": (12, 0.85),
        "standard": (20, 0.6),
        "extended": (40, 0.25),
        "soak": (700, 1.0),
    }[level]
    assert cpus.stage("sustained").measure_s == sustained_s
    alone = of_one_node(cpus.stages)
    assert sum(one.expected_s for one in alone) <= share * gpu.expected_s
    assert of_one_node(both.stages) == gpu.stages
    of_cards = {"transfer", "transient"}
    assert [one.name for one in alone] == [name for name in gpu.stage_names if name not in of_cards]
    assert all(0 < one.expected_s <= gpu.stage(one.name).expected_s for one in alone)
    assert lint_rig(desk.load(f"{HEAD}{CPU}"), level) == []


def test_a_stated_length_is_that_of_a_rig_of_cpus_too(desk):
    stated = "[stages.sustained]\nlength_s.extended = 100\n[stages.transfer]\nlength_s.quick = 1\n"
    base = desk.write(f'name = "base"\n{stated}', "base.toml")
    for text in (f"{HEAD}{CPU}{stated}", f'extends = "./{base.name}"\n{HEAD}{CPU}'):
        loaded = desk.load(text)
        assert make_plan(loaded, "extended").stage("sustained").measure_s == 100
        assert make_plan(loaded, "standard").stage("sustained").measure_s == 20
        assert make_plan(loaded, "quick").stage("transfer").measure_s == 1
        assert loaded.states("stages.sustained.length_s.extended")
        assert not loaded.states("stages.sustained.length_s.standard")
        assert make_plan(loaded, "extended", 600.0).stage("sustained").measure_s == 600
        assert [line for level in LEVELS for line in lint_rig(loaded, level)] == []


def test_the_gemm_stage_counts_settling_and_measuring_of_five_precisions():
    stage = make_plan(load_rig("h200-x2", KINDS), "quick").stage("gemm")
    assert stage.expected_s == stage.settle_s + 4 * stage.settle_s / 4 + 5 * stage.measure_s
    assert stage.settle_s >= 10


def test_a_duration_replaces_the_sustained_stage_alone():
    usual, longer = (
        make_plan(load_rig("h200-x2", KINDS), "quick"),
        make_plan(load_rig("h200-x2", KINDS), "quick", 300.0),
    )
    assert longer.stage("sustained").measure_s == longer.stage("sustained").expected_s == 300
    assert longer.stage("gemm") == usual.stage("gemm")
    assert longer.expected_s - usual.expected_s == pytest.approx(300 - usual.stage("sustained").expected_s)


def test_a_short_sustained_stage_still_measures_most_of_its_time():
    stage = make_plan(load_rig("h200-x2", KINDS), "quick", 6.0).stage("sustained")
    assert stage.settle_s == pytest.approx(2)


def test_a_second_node_adds_what_both_do_together_and_many_workers_add_time(desk):
    one = HEAD + '[[nodes.gpus]]\nsku = "h200-sxm"\n'
    two = one + '[[nodes]]\nname = "b"\n[[nodes.gpus]]\nsku = "h200-sxm"\n'
    many = one + "workers = 16\n"
    alone, joined, crowded = (make_plan(desk.load(text), "quick") for text in (one, two, many))
    assert of_one_node(joined.stages) == alone.stages
    assert 0 < joined.expected_s - alone.expected_s <= 11
    assert alone.expected_s < crowded.expected_s
