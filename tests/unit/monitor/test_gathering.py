"""Records of agents, folded: what is old is not shown, and what was not reported is not zero."""

from dataclasses import replace

import pytest

from rigproof.monitor.gathering import Gathering
from rigproof.records.measurements import Event, GpuCounters
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.samples import GpuSample, HostSample
from support.bench import Bench
from support.driven_agents import facts
from support.recordings import gpu_identity
from support.rig_profile import LIMITS, loaded_rig

CARD = gpu_identity("pc1/gpu0", "h200")
FACTS = replace(facts(), gpus=(CARD,))


@pytest.fixture
def gathering():
    """Of the two-node rig; pc1's agent samples from t=0."""
    gathering = Gathering()
    for node in ("pc1", "pc2"):
        gathering.promise(loaded_rig(), node)
    gathering.add(CARD)
    gathering.begin("pc1", FACTS, {"pc1/gpu0"}, 0.0)
    return gathering


def host(t_s, **fields):
    return HostSample(t_s, "pc1", **fields)


def gpu(t_s, **fields):
    return GpuSample(t_s, "pc1/gpu0", **fields)


def pc1(gathering, now_s):
    return gathering.nodes(now_s)[0]


def card(gathering, now_s):
    return pc1(gathering, now_s).gpus[0]


def test_before_the_first_reading_everything_is_starting(gathering):
    nodes = gathering.nodes(0.0)
    assert [(node.name, node.presence) for node in nodes] == [("pc1", "starting"), ("pc2", "starting")]
    assert [gpu.presence for node in nodes for gpu in node.gpus] == ["starting", "starting"]
    assert not gathering.complete


def test_a_host_is_shown_as_it_was_in_the_last_seconds(gathering):
    gathering.add(host(1.0, cpu_percent=10.0, wakeup_delays_ms=(900.0,)))
    for t_s, percent in ((8.0, 80.0), (8.5, 90.0)):
        gathering.add(
            host(
                t_s,
                cpu_percent=percent,
                load_1m=7.5,
                ram_used_mib=1024.0,
                ram_available_mib=3072.0,
                wakeup_delays_ms=(0.5, 1.5),
            )
        )
    node = pc1(gathering, 9.0)
    assert (node.presence, node.sample.cpu_percent, node.sample.load_1m) == ("here", 85.0, 7.5)
    assert (node.sample.ram_used_mib, node.ram_total_mib, node.sample.swap_used_mib) == (1024.0, 4096.0, None)
    assert (node.wakeup_p99_ms, node.wakeup_max_ms, node.reading_age_s) == (1.5, 1.5, 0.5)
    assert (node.facts, node.gpus_found) == (FACTS, 1)


def test_a_quota_that_is_exceeded_for_a_moment_is_not_over_100_percent(gathering):
    gathering.add(host(1.0, cpu_percent=130.0))
    assert pc1(gathering, 1.0).sample.cpu_percent == 100.0


def test_what_is_old_is_not_shown(gathering):
    gathering.add(host(1.0, cpu_percent=50.0, load_1m=1.0, wakeup_delays_ms=(1.0,)))
    gathering.add(gpu(1.0, core_temperature_c=70.0, clock_event_reasons=0x4))
    node = pc1(gathering, 11.5)
    assert (node.presence, node.reading_age_s) == ("here", 10.5)
    assert (node.sample, node.wakeup_max_ms) == (host(11.5), None)
    assert node.gpus[0].sample == gpu(11.5)
    assert node.gpus[0].reading_age_s == 10.5


def test_a_gpu_is_shown_with_who_it_is(gathering):
    gathering.add(gpu(1.0, utilization_percent=0.0, power_w=690.0, power_average_w=None, pcie_generation=5))
    shown = card(gathering, 1.0)
    assert (shown.presence, shown.name, shown.memory_total_mib) == ("here", "NVIDIA H200", 141 * 1024)
    assert shown.sample == gpu(
        1.0, utilization_percent=0.0, power_w=690.0, power_average_w=690.0, pcie_generation=5
    )
    assert shown.power_limit_w == 700


def test_every_reason_of_the_last_seconds_is_kept(gathering):
    for t_s, mask in ((1.0, 0x80), (7.0, 0x4), (7.5, 0x40), (8.0, None)):
        gathering.add(gpu(t_s, clock_event_reasons=mask))
    assert card(gathering, 8.0).sample.clock_event_reasons == 0x44


def test_reasons_that_no_reading_reports_are_not_none_set(gathering):
    gathering.add(gpu(8.0))
    assert card(gathering, 8.0).sample.clock_event_reasons is None


def test_xids_and_new_memory_errors_are_counted_from_the_beginning(gathering):
    assert card(gathering, 0.0).xids == ()
    assert card(gathering, 0.0).counters.ecc_uncorrected is None
    for t_s, uncorrected in ((0.5, 7), (10.5, 7), (20.5, 9)):
        gathering.add(GpuCounters(t_s, "pc1/gpu0", "after", ecc_uncorrected=uncorrected))
    gathering.add(Event(3.0, "xid", "pc1/gpu0", "Xid 79", data={"xid": 79}))
    shown = card(gathering, 21.0)
    assert (shown.xids, shown.counters.ecc_uncorrected, shown.counters.ecc_corrected) == ((79,), 2, None)


def test_a_card_that_reports_no_xids_has_none_not_zero(gathering):
    gathering.begin("pc2", FACTS, frozenset(), 0.0)
    assert gathering.nodes(0.0)[1].gpus[0].xids is None


@pytest.mark.parametrize(
    ("times", "polled_s", "share"),
    [
        ([], 1.0, None),  # too early to tell
        ([], 2.5, 0.0),  # none came at all
        ([0.1, 0.6, 1.1], 2.5, None),  # a few came: too early to tell how many are missing
        ([n / 2 for n in range(20)], 9.9, 1.0),
        ([n / 2 for n in range(0, 20, 2)], 9.9, 0.5),
        ([n / 2 for n in range(200) if n < 180], 100.0, 0.0),  # none for the last ten seconds
    ],
)
def test_missing_readings_point_to_a_slow_driver(gathering, times, polled_s, share):
    for t_s in times:
        gathering.add(gpu(t_s))
    gathering.polled("pc1", polled_s)
    found = card(gathering, polled_s).coverage_share
    assert found == (None if share is None else pytest.approx(share, abs=0.05))


@pytest.mark.parametrize("kind", ["gpu_missing", "gpu_lost", "timeout"])
def test_a_gpu_that_does_not_answer_is_missing_and_shows_nothing(gathering, kind):
    gathering.add(gpu(1.0, core_temperature_c=70.0, clock_event_reasons=0x40))
    gathering.add(Event(1.1, kind, "pc1/gpu0", "it does not answer"))
    gathering.polled("pc1", 9.0)
    shown = card(gathering, 2.0)
    assert (shown.presence, shown.reason, shown.name) == ("missing", "it does not answer", "NVIDIA H200")
    assert (shown.sample, shown.coverage_share) == (gpu(2.0), None)


@pytest.mark.parametrize("kind", ["node_missing", "node_lost", "agent_died"])
def test_a_node_that_is_gone_is_missing_until_it_is_read_again(gathering, kind):
    gathering.add(host(1.0, cpu_percent=50.0))
    gathering.add(Event(2.0, kind, "pc1", "it is gone"))
    node = pc1(gathering, 2.0)
    assert (node.presence, node.reason, node.sample.cpu_percent) == ("missing", "it is gone", None)
    gathering.add(Event(2.0, "node_missing", "pc2", "not there"))
    assert gathering.complete
    gathering.add(host(3.0, cpu_percent=50.0))
    assert (pc1(gathering, 3.0).presence, pc1(gathering, 3.0).reason) == ("here", None)


def test_errors_are_reported_once_each(gathering):
    for _ in range(3):
        gathering.add(Event(1.0, "nvml_error", "pc1", "NVML is broken"))
        gathering.add(Event(1.0, "nvml_error", "pc1/gpu0", "a query failed"))
        gathering.add(Event(1.0, "agent_died", "pc9", "did not come up"))
    assert pc1(gathering, 1.0).errors == ("NVML is broken",)
    assert card(gathering, 1.0).errors == ("a query failed",)
    assert gathering.errors == ("pc9: did not come up",)


def test_records_of_nobody_promised_are_left_out(gathering):
    gathering.add(HostSample(1.0, "pc9", cpu_percent=99.0))
    gathering.add(GpuSample(1.0, "pc1/gpu7", core_temperature_c=99.0))
    assert [node.name for node in gathering.nodes(1.0)] == ["pc1", "pc2"]
    assert len(pc1(gathering, 1.0).gpus) == 1


def process(t_s, pid, **fields):
    return GpuProcess(t_s, "pc1/gpu0", pid, **fields)


def test_the_processes_are_those_that_are_still_there_the_largest_first(gathering):
    gathering.add(gpu(1.0))
    assert card(gathering, 1.0).processes is None
    for record in (
        process(1.0, 7, used_mib=100.0, user="ml", name="python3", sm_percent=5.0),
        process(1.0, 8, used_mib=50.0),
        process(1.0, 9, used_mib=75.0),
        process(2.0, 8, used_mib=900.0),
        process(3.0, 9, gone=True),
    ):
        gathering.add(record)
    gathering.add(gpu(3.0))
    assert [(one.pid, one.used_mib, one.user) for one in card(gathering, 3.0).processes] == [
        (8, 900.0, None),
        (7, 100.0, "ml"),
    ]
    assert card(gathering, 60.0).processes is None  # nothing is known of now
    gathering.begin("pc1", FACTS, {"pc1/gpu0"}, 61.0)
    gathering.add(gpu(61.0))
    assert card(gathering, 61.0).processes is None


@pytest.mark.parametrize(("readings", "expected"), [(0, None), (1, ())])
def test_no_process_is_told_from_a_driver_that_lists_none(gathering, readings, expected):
    gathering.add(gpu(1.0))
    gathering.add(ProcessWatch(1.0, "pc1/gpu0", 0.0, readings, 0.0, sm_readable=True))
    assert card(gathering, 1.0).processes == expected


def test_the_fan_is_that_of_the_last_counters(gathering):
    gathering.add(gpu(1.0))
    assert card(gathering, 1.0).counters.fan_percent is None
    for t_s, percent in ((1.0, 30.0), (2.0, 47.0)):
        gathering.add(GpuCounters(t_s, "pc1/gpu0", "after", fan_percent=percent))
    assert card(gathering, 2.0).counters.fan_percent == 47.0
    assert card(gathering, 60.0).counters.fan_percent is None


BUSY = {"utilization_percent": 97.0, "power_average_w": 600.0}
RESTING = {"utilization_percent": 0.0, "power_average_w": 40.0}


def lasting(gathering, readings):
    """How long the card has idled and worked at the end of these readings, two a second."""
    for place, fields in enumerate(readings):
        gathering.add(gpu(1 + place / 2, **fields))
    now = card(gathering, 1 + len(readings) / 2)
    return now.idle_s, now.work_s


STUCK = {"utilization_percent": 100.0, "power_average_w": 40.0}  # its clock is
WARM = {"utilization_percent": 0.0, "power_average_w": 320.0}  # some cards at rest draw much


@pytest.mark.parametrize(
    ("readings", "idle_s", "work_s"),
    [
        ([BUSY] * 20, 0.0, 10.0),
        ([BUSY] * 20 + [RESTING] * 60, 30.0, 0.0),
        ([BUSY] * 20 + [RESTING] * 10 + [BUSY] * 20, 0.0, 25.0),  # a pause of some seconds ends no work
        ([STUCK] * 60, 0.0, 30.0),
        ([WARM] * 60, 0.0, 0.0),
        ([{"power_average_w": 40.0}] * 60, None, None),
    ],
)
def test_how_long_a_card_has_idled_and_worked(gathering, readings, idle_s, work_s):
    assert lasting(gathering, readings) == (idle_s, work_s)


@pytest.mark.parametrize(
    ("rig", "identity"),
    [
        ({"core_temperature_c": 77, "memory_temperature_c": 88}, {}),
        ({}, {}),
        ({}, {"temperature_gpu_max_c": None, "temperature_slowdown_c": 91, "temperature_memory_max_c": None}),
        ({}, dict.fromkeys(("temperature_gpu_max_c", "temperature_slowdown_c", "temperature_memory_max_c"))),
    ],
)
def test_temperature_limits_come_from_where_the_criteria_take_them(rig, identity):
    bench = Bench({"limits": LIMITS | rig})
    bench.gpu("pc1/gpu0", **identity)
    gathering = Gathering()
    gathering.promise(bench.loaded, "pc1")
    gathering.add(bench.recording.gpus["pc1/gpu0"])
    limits = card(gathering, 0.0).limits
    assert limits.core_temperature_c == bench.verdict("thermal.core_temperature", "pc1/gpu0").limit
    assert limits.memory_temperature_c == bench.verdict("thermal.memory_temperature", "pc1/gpu0").limit


def test_a_gpu_that_did_not_answer_has_the_profiles_limits():
    gathering = Gathering()
    gathering.promise(loaded_rig({"limits": LIMITS | {"core_temperature_warn_c": 78}}), "pc1")
    gpu = card(gathering, 0.0)
    assert (gpu.limits.core_temperature_warn_c, gpu.limits.core_temperature_c) == (78, 87)
    assert (gpu.headroom_mib, gpu.power_limit_w) == (512, None)


def test_a_node_has_its_own_band():
    cpu = {"band_percent": [40, 60]}
    gathering = Gathering()
    gathering.promise(loaded_rig({"nodes": [{"name": "pc1", "cpu": cpu}]}), "pc1")
    assert pc1(gathering, 0.0).cpu.band_percent == (40, 60)
