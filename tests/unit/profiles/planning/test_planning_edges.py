"""What a plan takes from where, and what it lacks."""

from copy import deepcopy

import pytest

from rigproof.profiles.loading.structure import structural_problems
from rigproof.profiles.planning.plan import NO_POLICY, MemoryPlan
from rigproof.profiles.planning.planning import device_plan, make_plan
from support.rig_profile import MODELS, RIG, loaded_rig, stage_changes

FILE = "hwprofiles/rigs/two-nodes.toml"


def rig_of(gpu, defaults=None, **node):
    """A rig of one node with this GPU."""
    made = {"name": "pc1", "cpus": 8, "ram_gib": 64, **node, "gpus": [{"sku": "h200", **gpu}]}
    return loaded_rig({"nodes": [made], **({} if defaults is None else {"gpu_defaults": defaults})})


def plan_of(gpu, defaults=None, **node):
    loaded = rig_of(gpu, defaults, **node)
    return device_plan(loaded, loaded.devices()[0])


def test_a_gpus_own_values_come_before_the_defaults():
    own = {"workers": 2, "gpu_share": 0.3, "cpus_per_worker": 3, "vram_share": 0.5, "gemm_size": 2048}
    plan = plan_of(own)
    assert (plan.workers, plan.gpu_share, plan.cpus, plan.gemm_size) == (2, 0.3, 3, 2048)
    assert plan.vram_mib == pytest.approx(0.5 * 141 * 1024 / 2)
    assert plan_of({"memory_gib": 100}).memory_gib == 100
    assert plan_of({}).memory_gib == 141


def test_the_cpu_as_the_device_has_the_nodes_memory_and_its_own_defaults():
    cpu = {"sku": "unknown", "device": "cpu", "workers": 2}
    plan = plan_of(cpu)
    assert (plan.gpu_share, plan.cpus, plan.memory_gib, plan.gemm_size) == (0.0, 2.0, 64, 512)
    assert plan.vram_mib == pytest.approx(0.02 * 64 * 1024 / 2)
    assert plan_of(cpu | {"memory_gib": 10}).memory_gib == 10


def test_the_cpu_as_the_device_has_one_thread_where_none_is_stated():
    cpu = {"sku": "unknown", "device": "cpu"}
    assert plan_of(cpu, cpus=None).cpus == 1.0
    assert plan_of(cpu | {"cpus_per_worker": 3}).cpus == 3


def test_the_stages_of_a_level_have_their_lengths():
    plan = make_plan(loaded_rig(), "standard")
    assert [(stage.name, stage.expected_s) for stage in plan.stages] == [
        ("gemm", 8 * (1 + 4 * 0.25) + 5 * 2),
        ("sustained", 15),
        ("training", 20),
        ("feeding", 20),
        ("sharing", 20),
    ]
    assert (plan.stage("sustained").settle_s, plan.stage("sustained").measure_s) == (5.0, 15)
    assert (plan.stage("training").settle_s, plan.stage("training").measure_s) == (0.0, 20)
    assert make_plan(loaded_rig(), "standard", 60.0).stage("sustained").settle_s == 8  # as in gemm
    with pytest.raises(KeyError):
        plan.stage("nobody's")


@pytest.mark.parametrize(("workers", "more_s"), [(1, 0.0), (2, 0.0), (3, 0.4), (7, 2.0)])
def test_each_worker_of_the_fullest_node_from_the_third_on_takes_longer_to_start(workers, more_s):
    plan = make_plan(rig_of({"workers": workers}), "standard")
    stages_s = sum(stage.expected_s for stage in plan.stages)
    assert plan.expected_s - stages_s == pytest.approx(15.0 + more_s)


def test_a_cap_of_torch_is_divided_among_the_workers():
    loaded = loaded_rig({"memory": RIG["memory"] | {"fraction_share": 0.5}})
    first, *_, other = make_plan(loaded, "standard").workers
    assert (first.memory.cap_mib, other.memory.cap_mib) == (0.5 * 141 * 1024 / 2, 0.5 * 141 * 1024)
    assert first.memory.enabled
    assert make_plan(loaded_rig(), "standard").workers[0].memory.cap_mib is None


def test_the_workers_of_a_device_are_told_apart_and_its_first_is_the_first():
    plan = make_plan(loaded_rig(), "standard")
    assert [one.worker for one in plan.workers_of("pc1/gpu0")] == ["pc1/gpu0#0", "pc1/gpu0#1"]
    assert [one.worker for one in plan.first_workers()] == ["pc1/gpu0#0", "pc2/gpu0#0"]
    assert plan.workers_of("pc9/gpu0") == ()


def test_a_memory_plan_by_itself_plans_no_policy():
    assert MemoryPlan() == NO_POLICY
    switched_on = [NO_POLICY.enabled, NO_POLICY.expandable_segments, NO_POLICY.cpu_fallback]
    limits = [NO_POLICY.cap_mib, NO_POLICY.max_split_size_mib, NO_POLICY.cleanup_rounds]
    assert (switched_on, limits) == ([False] * 3, [None] * 3)
    assert (NO_POLICY.start_share, NO_POLICY.step_share) == (1.0, 1.0)  # all of it at once
    assert NO_POLICY.mixed_precision


def lacking(*path):
    """What is wrong with a merged rig without this key."""
    tables = deepcopy(RIG)
    table = tables
    for part in path[:-1]:
        table = table[part]
    del table[path[-1]]
    return structural_problems(MODELS.rig, tables, FILE)


@pytest.mark.parametrize(
    "path",
    [
        ("gpu_defaults", "vram_share"),
        ("timeouts", "stall_s"),
        ("levels", "round_s", "standard"),
        ("stages", "sustained", "length_s", "soak"),
        ("stages", "sharing"),
    ],
)
def test_what_a_merged_rig_lacks_is_reported_by_file_and_key_alone(path):
    (line,) = lacking(*path)
    assert line.startswith(f"{FILE}: {'.'.join(path)}: missing; write {path[-1]} = … in ")


def test_a_level_without_a_stages_length_goes_without_it():
    assert lacking("stages", "training", "length_s", "standard") == []
    loaded = loaded_rig(stage_changes("training", length_s={"quick": 20}))
    assert make_plan(loaded, "standard").stage_names == ("gemm", "sustained", "feeding", "sharing")
    assert "training" in make_plan(loaded, "quick").stage_names


def test_a_file_may_leave_out_every_table_and_every_key():
    assert structural_problems(MODELS.rig_file, {"name": "lab"}, FILE) == []
    parts = {"timeouts": {"stall_s": 5}, "stages": {"gemm": {"settle_s": {"quick": 1}}}}
    assert structural_problems(MODELS.rig_file, {"name": "lab", **parts}, FILE) == []
