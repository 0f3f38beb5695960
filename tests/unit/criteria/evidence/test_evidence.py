"""What is missing, aborted or out of range in a Recording is not measured, with the reason."""

import math
from dataclasses import replace

import pytest

from rigproof.criteria.criterion import NotApplicable, NotMeasured
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.valid_rounds import require_valid
from rigproof.criteria.evidence.windows import LONGEST_S, Window
from rigproof.profiles.tables.limits import LIMITS
from rigproof.profiles.tables.node import CPU
from rigproof.stages.feeding.stage import RewardBatch
from rigproof.stages.registry import KINDS
from support.bench import Bench
from support.rig_profile import RIG, RTX_3090

PEER_SHARE = LIMITS.key(lambda limits: limits.peer_share)
STABILITY_DROP_SHARE = KINDS["sustained"].key(lambda own: own.stability_drop_share)
WARN_PERCENT = CPU.key(lambda cpu: cpu.warn_percent)
GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
WEEK_S = 7 * 24 * 3600.0


def evidence(bench) -> Evidence:
    return Evidence(bench.recording, bench.loaded)


def reason(look):
    with pytest.raises(NotMeasured) as error:
        look()
    return error.value.reason


# A stage's load


def test_a_stage_that_did_not_run_is_named(bench):
    del bench.recording.stages["sustained"]
    assert reason(lambda: evidence(bench).stage("sustained")) == "the sustained stage did not run"


def test_the_load_is_from_all_to_the_first_end(bench):
    assert evidence(bench).loaded_window("sustained") == Window(30.0, 70.0, complete=True)
    assert evidence(bench).complete_window("sustained") == Window(30.0, 70.0, complete=True)


@pytest.mark.parametrize("status", ["finished", "partial", "failed"])
def test_a_stage_that_ended_by_itself_was_not_broken_off(bench, status):
    bench.stage("sustained", status=status)
    assert evidence(bench).loaded_window("sustained").complete


@pytest.mark.parametrize(
    ("fields", "to_s"),
    [
        ({"status": "interrupted"}, 70.0),
        ({"loaded_to_s": None}, 71.0),  # the stage's end
        ({"loaded_to_s": None, "end_s": None}, 135.9),  # the last sample's
    ],
)
def test_a_stage_that_was_broken_off_has_a_window_that_is_not_complete(bench, fields, to_s):
    bench.stage("sustained", **fields)
    window = evidence(bench).loaded_window("sustained")
    assert (window.from_s, window.to_s, window.complete) == (30.0, pytest.approx(to_s), False)
    why = reason(lambda: evidence(bench).complete_window("sustained"))
    assert why == "the sustained stage was aborted"


def test_the_last_moment_is_the_last_of_samples_and_rounds(bench):
    bench.stage("sustained", loaded_to_s=None, end_s=None)
    recording = bench.recording
    recording.gpu_samples = [one for one in recording.gpu_samples if one.t_s <= 40]
    recording.host_samples = [one for one in recording.host_samples if one.t_s <= 50]
    recording.rounds = [one for one in recording.rounds if one.t_s <= 60]
    assert evidence(bench).loaded_window("sustained").to_s == 60.0
    recording.rounds = []
    assert evidence(bench).loaded_window("sustained").to_s == pytest.approx(50.0)
    recording.host_samples = []
    assert evidence(bench).loaded_window("sustained").to_s == pytest.approx(40.0)
    recording.gpu_samples = []
    assert "which is not a valid measurement" in reason(lambda: evidence(bench).loaded_window("sustained"))


def test_a_stage_in_which_not_all_worked_has_no_window(bench):
    bench.stage("sustained", loaded_from_s=None, status="partial")
    why = reason(lambda: evidence(bench).loaded_window("sustained"))
    assert why == "in the sustained stage (partial) the workers were never all under load"


@pytest.mark.parametrize("length_s", [1.0, WEEK_S])
def test_a_load_lasts_from_a_second_to_a_week(bench, length_s):
    span = {"start_s": 0.0, "end_s": length_s, "loaded_from_s": 0.0, "loaded_to_s": length_s}
    bench.stage("sustained", **span, status="partial")
    assert evidence(bench).loaded_window("sustained").length_s == length_s


@pytest.mark.parametrize("length_s", [0.999, WEEK_S + 1, math.nan, -5.0])
def test_any_other_length_is_no_measurement(bench, length_s):
    bench.stage("sustained", loaded_from_s=0.0, loaded_to_s=length_s)
    why = reason(lambda: evidence(bench).loaded_window("sustained"))
    assert why == f"the sustained stage was under load for {length_s:g} s, which is not a valid measurement"


@pytest.mark.parametrize(
    ("fields", "worked"),
    [
        ({"loaded_from_s": 23.0}, (26.0, 70.0)),
        ({"loaded_to_s": 77.0}, (26.0, 70.0)),
        ({"loaded_from_s": 75.0, "loaded_to_s": 80.0}, (26.0, 70.0)),
        ({"loaded_to_s": 77.0, "status": "partial"}, (26.0, 71.0)),  # the stage itself
    ],
)
def test_a_load_outside_of_its_rounds_or_its_stage_is_no_measurement(bench, fields, worked):
    bench.stage("sustained", **fields)
    why = reason(lambda: evidence(bench).loaded_window("sustained"))
    assert f"all worked in it from t={worked[0]:.1f} to t={worked[1]:.1f} s" in why


def test_rounds_that_end_before_the_load_did_are_no_measurement(bench):
    """As if the last ones of one worker of three were lost."""
    kept = [one for one in bench.recording.rounds if one.worker != "pc1/gpu0#1" or one.t_s < 62]
    bench.recording.rounds = kept
    assert "all worked in it from t=26.0 to t=61.5 s" in reason(
        lambda: evidence(bench).loaded_window("sustained")
    )


def test_a_week_is_the_longest_stretch():
    assert LONGEST_S == WEEK_S


# Plan and champions


def test_the_stages_of_a_run_are_those_of_its_level_else_the_plans_and_any_that_ran(bench):
    bench.recording.run = replace(bench.recording.run, stages=("gemm",))
    assert evidence(bench).stages == ("gemm", "sustained", "training", "feeding", "sharing")
    bench.recording.stages = {}
    assert evidence(bench).stages == ("gemm",)
    assert evidence(bench).stages_with("arms", "continuous") == ("gemm",)
    bench.recording.run = replace(bench.recording.run, stages=())
    assert evidence(bench).stages == ("gemm", "sustained", "training", "feeding", "sharing")
    assert evidence(bench).stages_with("continuous") == ("sustained",)


def test_recorded_champions_that_are_damaged_are_not_measured_unless_others_are_given(bench):
    bench.event("champions", "rig", "champions", champions="damaged", stage=None)
    damaged = evidence(bench)
    assert reason(lambda: damaged.champions) == (
        "the recorded champions are damaged: give others with --champions"
    )
    assert Evidence(bench.recording, bench.loaded, {}).champions == {}


def test_the_source_of_a_key_is_its_file_else_the_profile(bench):
    assert evidence(bench).source_of("limits.nobody", "limits.peer_share") == "hwprofiles/defaults.toml"
    assert evidence(bench).source_of("nobody") == "hwprofiles/rigs/two-nodes.toml"


# Events


def test_the_cause_is_the_first_in_the_chain_and_not_in_time(bench):
    assert evidence(bench).device(GPU).cause() == ""
    bench.event("worker_died", GPU, "killed by signal 9", 31.0)
    bench.event("oom", GPU, "3 GiB wanted", 41.4)
    bench.event("oom", GPU, "2 GiB wanted", 42.0)
    assert evidence(bench).device(GPU).cause() == "3 GiB wanted (at t=41 s)"
    bench.event("node_missing", "pc1", "pc1 is off", 50.0)
    assert evidence(bench).device(GPU).cause() == "pc1 is off (at t=50 s)"
    assert evidence(bench).device(OTHER).cause() == ""


# A device


def test_who_did_not_answer_was_not_found(bench):
    del bench.recording.gpus[GPU]
    del bench.recording.nodes["pc1"]
    found = evidence(bench)
    assert reason(lambda: found.device(GPU).identity) == "pc1/gpu0 was not found"
    assert reason(lambda: found.node("pc1").identity) == "pc1 was not found"
    assert [one.subject for one in found.devices if one.found] == [OTHER]
    assert [one.subject for one in found.nodes if one.found] == ["pc2"]


def test_counters_before_are_the_first_and_counters_after_the_last(bench):
    before, after = (
        next(one for one in bench.recording.counters if one.moment == m) for m in ("before", "after")
    )
    bench.recording.extend(
        [replace(before, t_s=3.0, pcie_replays=8), replace(after, t_s=72.0, pcie_replays=9)]
    )
    device = evidence(bench).device(GPU)
    assert (device.counters("before").t_s, device.counters("after").pcie_replays) == (2.0, 9)
    bench.recording.counters = []
    assert evidence(bench).device(GPU).counters("before") is None


def test_a_sensor_that_the_card_lacks_is_not_applicable_where_nothing_was_read(bench):
    bench.loaded = replace(bench.loaded, skus=bench.loaded.skus | {"h200": RTX_3090})
    window = Window(30.0, 70.0)
    device = evidence(bench).device(GPU)
    assert device.lacks_sensor("memory_temperature_c")
    assert not device.lacks_sensor("memory")
    assert not device.lacks_sensor("core_temperature_c")
    device.require_readings(window, "memory_temperature_c", "memory temperature")
    assert len(device.readings("memory_temperature_c", window)) == 401
    bench.samples(GPU, memory_temperature_c=None, power_w=None)
    device = evidence(bench).device(GPU)
    with pytest.raises(NotApplicable, match="this card's driver reports no memory temperature"):
        device.require_readings(window, "memory_temperature_c", "memory temperature")
    assert reason(lambda: device.require_readings(window, "power_w", "power")) == (
        "no power was read under load; check `nvidia-smi -q -d POWER` on pc1; a sensor that its driver does "
        "not have is listed in unsupported_sensors of hwprofiles/gpus/h200.toml"
    )


@pytest.mark.parametrize(
    ("field", "query"),
    [
        ("clock_event_reasons", "`nvidia-smi -q -d PERFORMANCE`"),
        ("sm_clock_mhz", "`nvidia-smi -q -d CLOCK`"),
        ("utilization_percent", "`nvidia-smi -q -d UTILIZATION`"),
        ("pcie_width", "`nvidia-smi -q`"),
    ],
)
def test_where_a_sensor_that_gives_nothing_is_shown(bench, field, query):
    bench.samples(GPU, **{field: None})
    device = evidence(bench).device(GPU)
    assert f"; check {query} on pc1; " in reason(
        lambda: device.require_readings(Window(30.0, 70.0), field, "reading")
    )


def test_a_card_that_gave_no_sample_at_all_is_no_missing_sensor(bench):
    bench.recording.gpu_samples = [one for one in bench.recording.gpu_samples if one.subject != GPU]
    device = evidence(bench).device(GPU)
    assert reason(lambda: device.require_readings(Window(30.0, 70.0), "power_w", "power")) == (
        "no power was read under load"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"seconds": 0.0},
        {"seconds": WEEK_S + 1},
        {"work": 0.0},
        {"work": math.inf},
        {"t_s": math.nan},
        {"t_s": WEEK_S + 1},
        {"t_s": -WEEK_S - 1},
    ],
)
def test_a_round_that_is_no_measurement_makes_the_stage_none_and_is_quoted(bench, fields):
    wrong = next(
        one
        for one in bench.recording.rounds
        if (one.subject, one.stage) == (GPU, "sustained") and one.t_s > 50
    )
    bench.round(list(bench.recording.rounds).index(wrong), **fields)
    device = evidence(bench).device(GPU)
    why = reason(lambda: device.rounds("sustained"))
    quoted = replace(wrong, **fields)
    assert why == (
        f"a round reports {quoted.work:g} TFLOP in {quoted.seconds:g} s at t={quoted.t_s:g} s, "
        "which is not a valid measurement"
    )
    assert len(device.rounds("gemm")) == 40
    assert len(device.all_rounds) == len([one for one in bench.recording.rounds if one.subject == GPU])


@pytest.mark.parametrize("fields", [{"t_s": WEEK_S}, {"t_s": -WEEK_S}, {"seconds": WEEK_S}, {"work": 4e11}])
def test_the_longest_stretch_and_work_a_million_times_what_a_gpu_does_are_a_measurement(bench, fields):
    bench.rounds(GPU, "gemm", 6.0, 6.6, **fields)
    rounds = evidence(bench).device(GPU).all_rounds
    assert len(require_valid(rounds.only(rounds.same("stage", "gemm")), "gemm", bench.loaded.kinds)) == 40


def test_rounds_of_the_cpu_in_place_of_a_gpu_are_not_the_gpu_s(bench):
    bench.rounds(GPU, "gemm", 6.0, 6.6, device="cpu")
    bench.rounds(GPU, "gemm", 7.0, 7.1, device="cuda")
    device = evidence(bench).device(GPU)
    assert len(device.rounds("gemm")) == 39
    assert not device.is_cpu


def test_what_is_planned_for_a_device_are_its_workers(bench):
    device = evidence(bench).device(GPU)
    assert (
        device.planned_workers == tuple(one.worker for one in device.workers) == ("pc1/gpu0#0", "pc1/gpu0#1")
    )
    assert [one.subject for one in evidence(bench).device(GPU).records(RewardBatch, "feeding")] == [GPU] * 21
    assert device.records(RewardBatch, "gemm") == []


def test_a_limit_that_the_profile_leaves_out_is_named(bench):
    bench.limits(peer_share=None, sample_coverage_share=None)
    found = evidence(bench)
    assert reason(lambda: found.device(GPU).limit(PEER_SHARE)) == "the profile has no limits.peer_share"
    assert reason(lambda: found.node("pc1").coverage_limit()) == (
        "the profile has no limits.sample_coverage_share"
    )


@pytest.mark.parametrize("order", [(GPU, OTHER), (OTHER, GPU)])
def test_limits_of_one_device_are_not_those_of_the_others(order):
    gpu = {
        "sku": "h200",
        "limits": {"peer_share": 0.5},
        "stages": {"sustained": {"stability_drop_share": 0.4}},
    }
    nodes = [RIG["nodes"][0] | {"gpus": [gpu]}, RIG["nodes"][1]]
    found = evidence(Bench({"nodes": nodes}))
    values = {
        one: (
            found.device(one).limit(PEER_SHARE).value,
            found.device(one).limit(STABILITY_DROP_SHARE).value,
        )
        for one in order
    }
    rigs = (RIG["limits"]["peer_share"], RIG["stages"]["sustained"]["stability_drop_share"])
    assert values == {GPU: (0.5, 0.4), OTHER: rigs}
    assert 0.5 not in rigs


def test_a_nodes_own_table_is_named_before_the_rigs(bench):
    bench.loaded = replace(
        bench.loaded, sources=bench.loaded.sources | {"nodes.pc1.cpu.warn_percent": "own.toml"}
    )
    found = evidence(bench)
    limit = found.node("pc1").limit(WARN_PERCENT)
    assert (limit.value, limit.source) == (90.0, "own.toml")
    assert found.node("pc2").limit(WARN_PERCENT).source == "hwprofiles/rigs/two-nodes.toml"


def test_what_is_held_of_a_subject_is_made_once_and_let_go(bench):
    found = evidence(bench)
    made = []
    for _ in range(2):
        found.cached_for_subject("key", lambda: made.append("held"))
        found.cached("key", lambda: made.append("kept"))
        found.device(GPU).cached("key", lambda: made.append("own"))
    found.release()
    found.cached_for_subject("key", lambda: made.append("again"))
    found.cached("key", lambda: made.append("never"))
    found.device(GPU).cached("key", lambda: made.append("its own again"))
    assert made == ["held", "kept", "own", "again", "its own again"]


def test_what_an_earlier_attempt_holds_is_let_go_too(bench):
    bench.recording.earlier_attempts["gemm"] = (bench.recording.stages["gemm"],)
    found, made = evidence(bench), []
    for _ in range(2):
        (earlier,) = found.earlier_attempts
        earlier.cached_for_subject("key", lambda: made.append("held"))
        found.release()
    assert made == ["held", "held"]


def ends_s(found, stage):
    rounds = found.rounds(GPU)
    rewards = [one.t_s for one in found.records(RewardBatch, GPU) if one.stage == stage]
    return rewards or rounds.only(rounds.same("stage", stage)).t_s.tolist()


@pytest.mark.parametrize("stage", ["gemm", "feeding"])
def test_what_ends_as_the_second_attempt_begins_belongs_to_that_one(bench, stage):
    every = ends_s(evidence(bench), stage)
    middle = len(every) // 2
    bench.recording.earlier_attempts[stage] = (bench.recording.stages[stage],)
    bench.stage(stage, start_s=every[middle])
    last = evidence(bench)
    (first,) = last.earlier_attempts
    assert (ends_s(first, stage), ends_s(last, stage)) == (every[:middle], every[middle:])


def test_only_cuda_devices_have_a_uuid_that_cards_share(bench):
    bench.gpu(OTHER, uuid=f"GPU-{GPU}")
    assert evidence(bench).subjects_by_uuid == {f"GPU-{GPU}": [GPU, OTHER]}
    bench.gpu(OTHER, device="cpu")
    assert evidence(bench).subjects_by_uuid == {f"GPU-{GPU}": [GPU]}


def test_a_gap_of_a_host_s_samples_in_which_its_card_worked_is_no_standstill(bench):
    bench.recording.host_samples = [
        one for one in bench.recording.host_samples if one.subject != "pc1" or not 50 < one.t_s < 54
    ]
    assert len(Evidence(bench.recording, bench.loaded).standstills("pc1")) == 0
    bench.recording.rounds = [
        one for one in bench.recording.rounds if one.subject != "pc1/gpu0" or not 49 < one.t_s < 55
    ]
    assert len(Evidence(bench.recording, bench.loaded).standstills("pc1")) == 0, "its probe woke up in time"
    bench.recording.host_samples = [
        replace(one, wakeup_delays_ms=(3900.0,)) if one.subject == "pc1" and 54 <= one.t_s < 54.1 else one
        for one in bench.recording.host_samples
    ]
    assert len(Evidence(bench.recording, bench.loaded).standstills("pc1")) == 1
