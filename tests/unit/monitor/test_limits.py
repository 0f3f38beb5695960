"""The monitor's limits are those that the criteria judge by."""

from dataclasses import replace

import pytest

from rigproof.monitor.limits import GpuLimits, NodeLimits, gpu_limits, node_limits
from support.bench import Bench
from support.rig_profile import LIMITS

SUBJECT = "pc1/gpu0"


def limits_of(bench, **identity):
    (device,) = [one for one in bench.loaded.devices() if one.subject == SUBJECT]
    return gpu_limits(device, replace(bench.recording.gpus[SUBJECT], **identity))


@pytest.mark.parametrize(
    ("rig", "identity"),
    [
        ({"core_temperature_c": 77, "memory_temperature_c": 88}, {}),
        ({}, {}),
        ({}, {"temperature_gpu_max_c": None, "temperature_slowdown_c": 91, "temperature_memory_max_c": None}),
        ({}, dict.fromkeys(("temperature_gpu_max_c", "temperature_slowdown_c", "temperature_memory_max_c"))),
    ],
)
def test_temperatures_come_from_where_the_criteria_take_them(rig, identity):
    bench = Bench({"limits": LIMITS | rig})
    bench.gpu(SUBJECT, **identity)
    found = limits_of(bench, **identity)
    assert found.core_temperature_c == bench.verdict("thermal.core_temperature", SUBJECT).limit
    assert found.memory_temperature_c == bench.verdict("thermal.memory_temperature", SUBJECT).limit


def test_other_limits_are_the_profiles():
    bench = Bench({"limits": LIMITS | {"core_temperature_warn_c": 78, "core_temperature_never_c": 83}})
    assert limits_of(bench) == GpuLimits(
        core_temperature_c=87,
        core_temperature_warn_c=78,
        core_temperature_never_c=83,
        memory_temperature_c=95,
        power_w=700,
        active_power_share=0.3,
        active_utilization_share=0.8,
        idle_beside_s=20.0,
        headroom_mib=512,
        ecc_uncorrected=0,
        sample_coverage_share=0.8,
    )


def test_a_gpu_that_did_not_answer_has_the_profiles_limits():
    (device, *_) = Bench().loaded.devices()
    limits = gpu_limits(device, None)
    assert (limits.power_w, limits.core_temperature_c) == (None, 87)


def test_a_node_has_its_own_band():
    cpu = {"band_percent": [40, 60]}
    rig = {"nodes": [{"name": "pc1", "cpu": cpu}, {"name": "pc2", "cpu": {"enabled": False}}]}
    loaded = Bench(rig).loaded
    assert node_limits(loaded, "pc1") == NodeLimits((40, 60), 90, 50, 250)
    assert node_limits(loaded, "pc2") == NodeLimits(None, 90, 50, 250)  # nothing holds it in a band
