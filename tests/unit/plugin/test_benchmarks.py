"""What pytest-benchmark is told of a rig, and which rates the history does not keep."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from rigproof.plugin.benchmarks import BenchmarkHooks, stages_concerned
from rigproof.profiles.loading.load import over_defaults
from rigproof.stages.registry import KINDS

STAGES = ("gemm", "sustained", "transfer")


@pytest.mark.parametrize(
    ("criterion", "concerned"),
    [
        ("activity.undisturbed", set(STAGES)),  # a stranger uses the link, too
        ("host.responsiveness", {"sustained"}),
        ("transfer.h2d", {"transfer"}),
    ],
)
def test_a_stranger_is_in_doubt_everywhere_and_other_trouble_where_it_is_judged(criterion, concerned):
    assert set(stages_concerned(criterion, STAGES, KINDS)) == concerned


def test_the_machine_is_the_rig_with_the_cards_promised_and_no_cpu():
    cards = [{"sku": "rtx-3090", "uuid": "GPU-1"}, {"sku": "unknown"}]
    rig = over_defaults({"name": "lab", "nodes": [{"name": "pc1", "gpus": cards}]}, "lab.toml", KINDS)
    prepared = SimpleNamespace(
        loaded=rig,
        simulated=object(),
        request=SimpleNamespace(report_dir=Path("reports"), keep_history=False),
    )
    hooks = BenchmarkHooks(SimpleNamespace(prepared=prepared, folder=None))
    assert hooks.pytest_benchmark_generate_machine_info() == {
        "rig": "lab",
        "simulated": True,
        "devices": {
            "pc1/gpu0": {"sku": "rtx-3090", "uuid": "GPU-1"},
            "pc1/gpu1": {"sku": "unknown", "uuid": None},
        },
    }
