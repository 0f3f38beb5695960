import pytest

from rigproof.host.cpu_band import HostLoad
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.planning import make_plan
from rigproof.run.planned_load import planned_load, processes_ahead
from rigproof.stages.gemm.stage import GemmSpec
from rigproof.stages.kind import StageWork
from rigproof.stages.registry import KINDS
from rigproof.stages.sustained.stage import SustainedSpec
from support.rig_profile import loaded_rig


def rig(**changes) -> LoadedRig:
    return loaded_rig(changes)


def test_one_worker_of_each_device_measures_every_precision():
    plan = make_plan(rig(), "quick")
    specs = KINDS["gemm"].specs(StageWork(rig(), plan, plan.stage("gemm"), {}))
    assert set(specs) == {"pc1/gpu0#0", "pc2/gpu0#0"}  # of two and of one
    assert all(isinstance(spec, GemmSpec) and spec.precisions == () for spec in specs.values())


def test_every_worker_is_loaded_in_the_sustained_stage_with_its_own_share():
    plan = make_plan(rig(), "quick")
    specs = KINDS["sustained"].specs(StageWork(rig(), plan, plan.stage("sustained"), {}))
    assert set(specs) == {worker.worker for worker in plan.workers}
    for worker in plan.workers:
        spec = specs[worker.worker]
        assert isinstance(spec, SustainedSpec)
        assert (spec.vram_mib, spec.size) == (worker.vram_mib, worker.gemm_size)
        assert spec.duration_s == plan.stage("sustained").measure_s


@pytest.mark.parametrize(
    ("cpus", "processes", "speedup"),
    [(8, 8, 3.0), (64, 8, 3.0), (4, 4, 1.5), (1, 1, 1.0), (0.5, 1, 1.0)],
)
def test_a_pool_has_no_more_processes_than_cpus_and_its_promise_sizes_the_steps(cpus, processes, speedup):
    plan = make_plan(rig(), "quick")
    specs = KINDS["feeding"].specs(StageWork(rig(), plan, plan.stage("feeding"), {"pc1": cpus, "pc2": 8}))
    assert set(specs) == {"pc1/gpu0#0", "pc2/gpu0#0"}
    spec = specs["pc1/gpu0#0"]
    assert (spec.processes, spec.reward_speedup) == (processes, speedup)
    assert spec.vram_mib == pytest.approx(0.7 * 141 * 1024)  # of both workers of the card


def test_two_gpus_of_a_node_share_its_cpus_for_their_pools():
    nodes = [{"name": "pc1", "cpus": 8, "gpus": [{"sku": "h200"}, {"sku": "h200"}]}]
    loaded = rig(nodes=nodes)
    plan = make_plan(loaded, "quick")
    specs = KINDS["feeding"].specs(StageWork(loaded, plan, plan.stage("feeding"), {"pc1": 8}))
    assert [spec.processes for spec in specs.values()] == [4, 4]


def test_the_seeds_rig_gets_the_sizes_of_its_profile():
    loaded = load_rig("dual-3090-3070", KINDS)
    plan = make_plan(loaded, "standard")
    specs = KINDS["sustained"].specs(StageWork(loaded, plan, plan.stage("sustained"), {}))
    assert {name: spec.size for name, spec in specs.items()} == {"pc1/gpu0#0": 5120, "pc2/gpu0#0": 4096}


def test_the_band_is_aimed_at_in_its_middle_by_primary_and_secondary_threads():
    assert planned_load(rig(), "pc1", 80) == HostLoad(56, 12, target_percent=77.5)


def test_a_node_may_do_without_the_cpu_load():
    nodes = [{"name": "pc1", "cpu": {"enabled": False}, "gpus": [{"sku": "h200"}]}]
    assert planned_load(rig(nodes=nodes), "pc1", 80) is None


@pytest.mark.parametrize("cpus", [1, 2, 4, 16, 80, 192, 0.5])
def test_threads_suffice_for_the_band(cpus):
    load = planned_load(rig(), "pc1", cpus)
    assert load.threads >= load.target_percent / 100 * cpus


def stages(*names):
    return [KINDS[name] for name in names]


def test_the_worker_that_copies_for_its_host_has_a_process_ready_for_that_and_one_to_be_a_rank():
    loaded = rig(nodes=[{"name": "pc1", "gpus": [{"sku": "h200"}, {"sku": "h200"}]}])
    plan = make_plan(loaded, "extended")
    assert processes_ahead(loaded, plan, stages("peer", "training")) == {"pc1/gpu0#0": 1}
    assert processes_ahead(loaded, plan, stages("peer", "collective")) == {"pc1/gpu0#0": 2, "pc1/gpu1#0": 1}
    every = processes_ahead(loaded, plan, stages("peer", "collective", "ddp"))
    assert every == {"pc1/gpu0#0": 2, "pc1/gpu1#0": 2}  # that is enough: another is started as one is taken
    assert processes_ahead(loaded, plan, stages("training")) == {}


def test_no_process_is_made_ready_on_a_device_that_is_the_cpu():
    loaded = rig(nodes=[{"name": "pc1", "gpus": [{"sku": "unknown", "device": "cpu", "memory_gib": 8}] * 2}])
    assert processes_ahead(loaded, make_plan(loaded, "extended"), stages("collective")) == {}
