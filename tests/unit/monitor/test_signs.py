"""Every warning sign is shown by what it warns of, with what was measured and its limit."""

from dataclasses import replace

import pytest

from rigproof.monitor.signs import warning_signs

from .conftest import gpu_now, node_now, run_device, run_now, snapshot_of


def signs_of(snapshot):
    return [(sign.kind, sign.subject, sign.text) for sign in warning_signs(snapshot)]


def test_a_calm_rig_has_none(calm):
    assert signs_of(calm) == []


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"cpu_percent": 91.0}, "cpu", "CPU at 91 %, limit ≤ 90 %"),
        (
            {"wakeup_p99_ms": 51.0},
            "unresponsive",
            "unresponsive: 99th percentile of wake-up delays 51 ms, limit ≤ 50 ms",
        ),
        (
            {"wakeup_p99_ms": 60.0, "wakeup_max_ms": 1200.0},
            "unresponsive",
            "unresponsive: wake-up delay of 1200 ms, limit ≤ 250 ms",
        ),
        ({"reading_age_s": 12.0, "cpu_percent": None}, "silent", "no reading for 12 s, limit ≤ 10 s"),
        (
            {"presence": "missing", "reason": "pc1 is not in the cluster; type on pc1: ray start …"},
            "missing",
            "pc1 is not in the cluster; type on pc1: ray start …",
        ),
        (
            {"errors": ("NVML: driver/library version mismatch",)},
            "error",
            "NVML: driver/library version mismatch",
        ),
    ],
)
def test_signs_of_a_node(changes, kind, text):
    assert signs_of(snapshot_of(node_now("pc1", **changes))) == [(kind, "pc1", text)]


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        (
            {"core_temperature_c": 79.0},
            "core_temperature_early",
            "early warning: core at 79 °C, limit ≤ 78 °C",
        ),
        ({"core_temperature_c": 82.0}, "core_temperature", "core at 82 °C, limit ≤ 80 °C"),
        (
            {"core_temperature_c": 84.0},
            "core_temperature",
            "core, which must never exceed the limit, at 84 °C, limit ≤ 83 °C",
        ),
        ({"memory_temperature_c": 96.0}, "memory_temperature", "memory at 96 °C, limit ≤ 95 °C"),
        (
            {"clock_event_reasons": 0x40 | 0x4},
            "throttled",
            "slowed down in the last 5 s: HW thermal slowdown (0x40); any slowdown warns",
        ),
        (
            {"clock_event_reasons": 0x80 | 0x8},
            "throttled",
            "slowed down in the last 5 s: HW slowdown (0x8), HW power brake (0x80); any slowdown warns",
        ),
        ({"memory_used_mib": 24300.0}, "headroom", "VRAM free: 276 MiB, limit ≥ 512 MiB"),
        ({"xids": (31, 79, 31)}, "xid", "3 Xids since the monitor started (31, 79), limit 0"),
        ({"ecc_uncorrected": 1}, "ecc", "1 uncorrected memory error since the monitor started, limit 0"),
        (
            {"coverage_share": 0.55},
            "driver_slow",
            "the driver answers slowly, readings in time: 55.0 %, limit ≥ 80 %",
        ),
        ({"presence": "missing", "reason": "rtx-3090 is not on pc1"}, "missing", "rtx-3090 is not on pc1"),
        ({"errors": ("nvmlDeviceGetName: unknown",)}, "error", "nvmlDeviceGetName: unknown"),
    ],
)
def test_signs_of_a_gpu(changes, kind, text):
    snapshot = snapshot_of(node_now("pc1", gpu_now("pc1/gpu0", **changes)))
    assert signs_of(snapshot) == [(kind, "pc1/gpu0", text)]


def test_what_a_sensor_does_not_report_is_no_sign():
    unknown = {
        "core_temperature_c": None,
        "memory_temperature_c": None,
        "clock_event_reasons": None,
        "memory_used_mib": None,
        "xids": None,
        "ecc_uncorrected": None,
        "coverage_share": None,
        "power_average_w": None,
        "utilization_percent": None,
    }
    node = node_now(
        "pc1", gpu_now("pc1/gpu0", **unknown), cpu_percent=None, wakeup_p99_ms=None, wakeup_max_ms=None
    )
    assert signs_of(snapshot_of(node, run=run_now(run_device("pc1/gpu0")))) == []


def test_the_gpus_of_a_missing_node_are_missing_with_it():
    gpu = gpu_now("pc2/gpu0", presence="missing", reason="missing with its node")
    node = node_now("pc2", gpu, presence="missing", reason="pc2 is not in the cluster")
    assert signs_of(snapshot_of(node)) == [("missing", "pc2", "pc2 is not in the cluster")]


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        (
            {"timeouts": ("pc1/gpu0#0: old", "pc2/gpu0#0: Get timed out")},
            "timed_out",
            "2 timeouts in the run, limit 0: pc2/gpu0#0: Get timed out",
        ),
        (
            {"losses": ("pc2/gpu0#0: it died",)},
            "lost",
            "1 process lost in the run, limit 0: pc2/gpu0#0: it died",
        ),
        ({"ooms": 2}, "oom", "2 failed allocations (out of memory) in the run, limit 0"),
    ],
)
def test_signs_of_the_run(calm, changes, kind, text):
    assert signs_of(replace(calm, run=replace(calm.run, **changes))) == [(kind, "rig", text)]


def test_allowed_ooms_are_no_sign(calm):
    assert signs_of(replace(calm, run=replace(calm.run, ooms=2, ooms_limit=2))) == []
    assert signs_of(replace(calm, run=replace(calm.run, ooms=2, ooms_limit=None))) == []


def two_gpus(idle, **run):
    """pc1/gpu0 works; of pc2/gpu0 `idle` is what the monitor and the run see."""
    card, worked_s = idle
    nodes = (node_now("pc1", gpu_now("pc1/gpu0")), node_now("pc2", gpu_now("pc2/gpu0", **card)))
    devices = (run_device("pc1/gpu0"), run_device("pc2/gpu0", round_age_s=worked_s))
    return snapshot_of(*nodes, run=run_now(*devices, **run))


IDLE = {"power_average_w": 25.0, "utilization_percent": 0.0}


def test_only_one_gpu_at_work_is_a_distribution_failure():
    (sign,) = warning_signs(two_gpus((IDLE, None)))
    assert (sign.kind, sign.subject, sign.measured, sign.limit, sign.unit) == (
        "idle",
        "pc2/gpu0",
        25,
        105,
        "W",
    )
    assert sign.text == (
        "idle (draws 25 W, an active one 105 W and more) while pc1/gpu0 works in stage sustained: "
        "distribution failure"
    )


def test_utilisation_decides_where_power_is_not_reported():
    (sign,) = warning_signs(two_gpus(({"power_average_w": None, "utilization_percent": 0.0}, None)))
    assert sign.text.startswith("idle (utilisation 0 %) while pc1/gpu0 works")
    assert signs_of(two_gpus(({"power_average_w": None, "utilization_percent": 3.0}, None))) == []


@pytest.mark.parametrize(
    "snapshot",
    [
        two_gpus((IDLE, 3.0)),  # it has worked in this stage a moment ago
        two_gpus((IDLE, None), stage=None),  # between stages
        two_gpus((IDLE, None), simulated=True),  # a simulated run loads nothing
        two_gpus((IDLE, None), stage=replace(run_now().stage, elapsed_s=5.0)),  # it has only begun
        two_gpus(({"power_average_w": None, "utilization_percent": None}, None)),  # nobody knows
        replace(two_gpus((IDLE, None)), run=None),  # somebody else's work
        replace(two_gpus((IDLE, None)), run=run_now(run_device("pc1/gpu0"))),  # the run does not promise it
    ],
)
def test_an_idle_gpu_alone_is_no_failure(snapshot):
    assert signs_of(snapshot) == []


def training(idle_s, *works_s, **changes):
    """Somebody's own training on pc1's cards; pc2/gpu0 has idled for `idle_s`."""
    cards = [gpu_now(f"pc1/gpu{place}", work_s=one, idle_s=0.0) for place, one in enumerate(works_s)]
    other = gpu_now("pc2/gpu0", idle_s=idle_s, work_s=0.0, **{**IDLE, **changes})
    return snapshot_of(node_now("pc1", *cards), node_now("pc2", other))


def test_a_gpu_that_idles_beside_one_at_work_is_marked_without_a_run():
    (sign,) = warning_signs(training(900.0, 83.0))
    assert (sign.kind, sign.subject, sign.measured, sign.limit, sign.direction, sign.unit) == (
        *("idle", "pc2/gpu0", 83.0, 20.0, "at_most", "s"),
    )
    assert sign.text == (
        "idle while pc1/gpu0 works, since 03:02:42Z (draws 25 W, an active one 105 W and more)"
    )
    (sign,) = warning_signs(training(30.0, 83.0, 41.0, power_average_w=None, utilization_percent=3.0))
    assert sign.text == "idle while pc1/gpu0, pc1/gpu1 work, since 03:03:35Z (utilisation 3 %)"


@pytest.mark.parametrize(
    "snapshot",
    [
        training(900.0, 20.0),  # the other one has only begun
        training(20.0, 900.0),  # it has only stopped
        training(900.0, 0.0),  # nothing works
        training(900.0, None),
        training(None, 900.0),  # nobody knows
        replace(training(900.0, 900.0), run=run_now(stage=None)),  # between a run's stages
    ],
)
def test_a_gpu_that_rests_for_a_moment_or_with_all_others_is_not_marked(snapshot):
    assert signs_of(snapshot) == []


def test_a_rig_at_rest_is_no_failure(calm):
    nodes = tuple(node_now(name, gpu_now(f"{name}/gpu0", **IDLE)) for name in ("pc1", "pc2"))
    assert signs_of(replace(calm, nodes=nodes)) == []


def test_errors_of_no_node_are_reported():
    assert signs_of(snapshot_of(errors=("pc9: the node agent did not start",))) == [
        ("error", "rig", "pc9: the node agent did not start")
    ]
