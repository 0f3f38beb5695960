import pytest

from rigproof.profiles.load import load_rig
from rigproof.profiles.loaded import LoadedRig
from rigproof.profiles.planning import make_plan
from rigproof.stages.workloads import (
    band_target_percent,
    gemm_specs,
    host_load_threads,
    sustained_specs,
)
from rigproof.workloads.specs import GemmSpec, SustainedSpec
from support.recordings import loaded_rig


def rig(**changes) -> LoadedRig:
    return loaded_rig(changes)


def test_one_worker_of_each_device_measures_every_precision():
    plan = make_plan(rig(), "quick")
    specs = gemm_specs(plan, plan.stage("gemm"))
    assert set(specs) == {"pc1/gpu0#0", "pc2/gpu0#0"}  # of two and of one
    assert all(isinstance(spec, GemmSpec) and spec.precisions == () for spec in specs.values())


def test_every_worker_is_loaded_in_the_sustained_stage_with_its_own_share():
    plan = make_plan(rig(), "quick")
    specs = sustained_specs(plan, plan.stage("sustained"))
    assert set(specs) == {worker.worker for worker in plan.workers}
    for worker in plan.workers:
        spec = specs[worker.worker]
        assert isinstance(spec, SustainedSpec)
        assert (spec.vram_mib, spec.size) == (worker.vram_mib, worker.gemm_size)
        assert spec.duration_s == plan.stage("sustained").measure_s


def test_the_seeds_rig_gets_the_sizes_of_its_profile():
    plan = make_plan(load_rig("dual-3090-3070"), "standard")
    specs = sustained_specs(plan, plan.stage("sustained"))
    assert {name: spec.size for name, spec in specs.items()} == {"pc1/gpu0#0": 5120, "pc2/gpu0#0": 4096}


def test_the_band_is_aimed_at_in_its_middle():
    assert band_target_percent(rig(), "pc1") == 77.5


def test_a_node_may_do_without_the_cpu_load():
    nodes = [{"name": "pc1", "cpu": {"enabled": False}, "gpus": [{"sku": "h200"}]}]
    assert band_target_percent(rig(nodes=nodes), "pc1") is None


@pytest.mark.parametrize(("cpus", "threads"), [(1, 1), (2, 2), (4, 4), (16, 14), (80, 68), (0.5, 1)])
def test_threads_suffice_for_the_band(cpus, threads):
    assert host_load_threads(rig(), "pc1", cpus) == threads
