"""Stages that only some levels have: what is planned, what each worker gets, what is promised."""

import pytest

from rigproof.criteria.criterion import Criterion
from rigproof.judging.judge import promised
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import MemoryPlan, Plan
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.tables.gpu import MemoryPolicy
from rigproof.stages.feeding.stage import FeedingSpec
from rigproof.stages.kind import StageWork
from rigproof.stages.registry import KINDS
from rigproof.stages.sharing.stage import SharingSpec
from rigproof.stages.training.stage import TrainingSpec

PROFILE = """
name = "every-stage"
[stages]
training.length_s.quick = 20
feeding.length_s.quick = 15
sharing.length_s.quick = 30
{tables}
[[nodes]]
name = "host"
cpus = 16
[[nodes.gpus]]
sku = "rtx-3070"
workers = 3
vram_gib_per_worker = 1.5
memory_gib = 7.67
{gpu}
[[nodes.gpus]]
sku = "rtx-3090"
"""


def rig(tmp_path, tables: str = "", gpu: str = "") -> LoadedRig:
    file = tmp_path / "every-stage.toml"
    file.write_text(PROFILE.format(tables=tables, gpu=gpu))
    return load_rig(str(file), KINDS)


def specs(loaded: LoadedRig, name: str, cpus: dict[str, float] | None = None) -> dict:
    plan = make_plan(loaded, "quick")
    work = StageWork(loaded, plan, plan.stage(name), {"host": 16.0} if cpus is None else cpus)
    return KINDS[name].specs(work)


def test_a_level_has_the_stages_whose_length_it_states(tmp_path):
    plan = make_plan(rig(tmp_path), "quick")
    bursts = ("training", "feeding", "sharing")
    assert plan.stage_names == ("gemm", "sustained", "pattern", *bursts, "transfer", "peer", "collective")
    assert plan.stage("training").expected_s == 20


def test_a_length_of_nought_leaves_a_stage_of_the_extended_rig_out(tmp_path):
    rig(tmp_path)
    above = tmp_path / "above.toml"
    above.write_text('name = "above"\nextends = "every-stage.toml"\n[stages.training]\nlength_s.quick = 0\n')
    assert "training" not in make_plan(load_rig(str(above), KINDS), "quick").stage_names


def test_one_worker_of_each_device_does_them_with_the_memory_of_all(tmp_path):
    for name, kind in (("training", TrainingSpec), ("feeding", FeedingSpec), ("sharing", SharingSpec)):
        found = specs(rig(tmp_path), name)
        assert set(found) == {"host/gpu0#0", "host/gpu1#0"}
        assert all(isinstance(spec, kind) and spec.stage == name for spec in found.values())
    assert specs(rig(tmp_path), "training")["host/gpu0#0"].vram_mib == pytest.approx(4.5 * 1024)
    assert specs(rig(tmp_path), "sharing")["host/gpu0#0"].vram_mib == pytest.approx(0.92 * 7.67 * 1024)


def test_the_pools_of_a_node_share_its_cpus(tmp_path):
    assert specs(rig(tmp_path), "feeding")["host/gpu0#0"].processes == 8
    assert specs(rig(tmp_path), "feeding", {"host": 6.0})["host/gpu0#0"].processes == 3
    assert specs(rig(tmp_path), "feeding", {"host": 0.5})["host/gpu1#0"].processes == 1


def test_the_cap_is_shared_by_the_workers_and_whole_for_the_one_that_works_alone(tmp_path):
    loaded = rig(tmp_path, gpu="memory = { fraction_share = 0.75, cleanup_rounds = 15 }")
    whole_mib = 0.75 * 7.67 * 1024
    policies = {worker.worker: worker.memory for worker in make_plan(loaded, "quick").workers}
    assert policies["host/gpu0#2"].cap_mib == pytest.approx(whole_mib / 3)
    assert policies["host/gpu0#2"].cleanup_rounds == 15
    assert policies["host/gpu1#0"].cap_mib is None
    assert specs(loaded, "training")["host/gpu0#0"].memory.cap_mib == pytest.approx(whole_mib)


def test_a_gpu_states_its_own_training_over_that_of_the_rig(tmp_path):
    found = specs(rig(tmp_path, gpu="stages.training = { batch = 4, reserve_gib = 0.5 }"), "training")
    assert (found["host/gpu0#0"].batch, found["host/gpu1#0"].batch) == (4, 16)
    assert found["host/gpu0#0"].reserve_mib == 512


def test_every_key_of_the_policy_reaches_the_plan():
    """A key that only the profile knows would be a setting without effect."""
    assert set(MemoryPolicy.model_fields) - {"fraction_share"} == set(MemoryPlan.__slots__) - {"cap_mib"}


@pytest.mark.parametrize(
    ("stages", "found"), [(("gemm",), ()), (("gemm", "training"), ("host/gpu0", "host/gpu1"))]
)
def test_a_criterion_is_promised_where_its_stages_are(tmp_path, stages, found):
    trained = Criterion(
        "precision.trained",
        title="trained",
        scope="device",
        unit="",
        limit="",
        remedy="",
        severity="config",
        unmeasured="",
        stages=("training",),
    )(lambda device: None)
    assert promised(trained, rig(tmp_path), stages) == found


def test_first_workers_come_in_the_order_of_the_plan(tmp_path):
    plan: Plan = make_plan(rig(tmp_path), "quick")
    assert [worker.worker for worker in plan.first_workers()] == ["host/gpu0#0", "host/gpu1#0"]
