"""What each rank is told: all of them the same backend, whatever their own device is."""

import pytest

from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.planning.planning import make_plan
from rigproof.stages.collective.stage import KIND as COLLECTIVE
from rigproof.stages.ddp.stage import KIND as DDP
from rigproof.stages.kind import StageWork
from rigproof.stages.registry import KINDS

GPU, CPU = {"sku": "rtx-3090"}, {"sku": "unknown", "device": "cpu"}


@pytest.mark.parametrize(
    ("gpus", "devices", "backend"),
    [
        ((GPU, GPU), ["cuda", "cuda"], "nccl"),
        ((GPU, CPU), ["cuda", "cpu"], "gloo"),
        ((CPU, GPU), ["cpu", "cuda"], "gloo"),
        ((CPU, CPU), ["cpu", "cpu"], "gloo"),
    ],
)
def test_all_ranks_of_a_rig_join_by_gloo_where_one_is_a_cpu(gpus, devices, backend):
    nodes = [
        {"name": f"n{one}", "address": f"10.0.0.{one}", "cpus": 16, "ram_gib": 64, "gpus": [gpu]}
        for one, gpu in enumerate(gpus, start=1)
    ]
    loaded = over_defaults({"name": "made", "nodes": nodes}, "made.toml", KINDS)
    plan = make_plan(loaded, "extended")
    trained, exchanged = (
        list(kind.specs(StageWork(loaded, plan, plan.stage(kind.name), {})).values())
        for kind in (DDP, COLLECTIVE)
    )
    assert [one.device for one in trained] == devices
    assert [one.backend for one in trained] == [one.rig_backend for one in exchanged] == [backend] * 2
    assert [one.backend for one in exchanged] == ["nccl" if one == "cuda" else "gloo" for one in devices]
