"""What a worker is asked to test: as much as the profile allows, for as long as the level says."""

import pytest

from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.planning.planning import make_plan
from rigproof.stages.kind import StageWork
from rigproof.stages.pattern.stage import KIND
from rigproof.stages.registry import KINDS

CARD = {"sku": "rtx-3070", "workers": 3, "vram_gib_per_worker": 1.5, "memory_gib": 8.0}


def asked(level="extended", gpu=None, **tables):
    nodes = [{"name": "host", "cpus": 16, "ram_gib": 64, "gpus": [gpu or CARD]}]
    loaded = over_defaults({"name": "lab", **tables, "nodes": nodes}, "lab.toml", KINDS)
    plan = make_plan(loaded, level)
    found = KIND.specs(StageWork(loaded, plan, plan.stage("pattern"), {}))
    return plan.stage("pattern"), found


def test_one_worker_of_a_card_tests_it_with_the_cap_of_all_its_workers():
    _, found = asked(memory={"fraction_share": 0.75})
    assert list(found) == ["host/gpu0#0"]
    assert found["host/gpu0#0"].memory.cap_mib == pytest.approx(0.75 * 8 * 1024)
    assert found["host/gpu0#0"].most_mib is None


def test_without_a_cap_only_what_is_free_limits_it():
    _, found = asked()
    assert found["host/gpu0#0"].memory.cap_mib is None
    assert found["host/gpu0#0"].free_share == 0.95


def test_the_cpu_as_the_device_tests_a_little_of_the_hosts_memory():
    _, found = asked(gpu={"sku": "unknown", "device": "cpu"}, stages={"pattern": {"cpu_mib": 32.0}})
    assert found["host/cpu0#0"].most_mib == 32


@pytest.mark.parametrize(("level", "pauses"), [("quick", False), ("standard", False), ("extended", True)])
def test_pauses_come_on_top_of_the_passes(level, pauses):
    stage, found = asked(level)
    spec = found["host/gpu0#0"]
    assert bool(spec.fade_s) is pauses
    assert stage.measure_s == spec.duration_s
    assert stage.expected_s == spec.duration_s + 2 * spec.fade_s


def test_a_level_may_leave_it_out():
    with pytest.raises(KeyError):
        asked("quick", stages={"pattern": {"length_s": {"quick": 0}}})
