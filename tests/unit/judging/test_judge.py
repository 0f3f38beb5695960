"""What holds for every criterion, whatever a Recording holds."""

import contextlib
import json
from dataclasses import replace
from inspect import isfunction
from types import UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import judge, not_judged, promised
from rigproof.judging.laps import judge_all
from rigproof.records.identity import WorkerIdentity
from rigproof.records.measurements import (
    EVENT_KINDS,
    Event,
    ForeignMemory,
    GpuCounters,
    MemoryReading,
    Round,
    Stage,
)
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.recording import Recording
from rigproof.records.samples import GpuSample, HostSample
from rigproof.records.verdict import Decision, Outcome, decide, sentence
from rigproof.stages.feeding.stage import RewardBatch
from support import fault_changes
from support.directions import agrees
from support.rig_profile import CANNED, stage_changes

GPU, OTHER, CPU = "pc1/gpu0", "pc2/gpu0", "pc1/cpu0"
STABILITY, PEERS = "throughput.stability", "throughput.peer_outlier"
GOOD = (Outcome.PASS, Outcome.WARN, Outcome.NO_LIMIT)
SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# What is promised


def test_every_criterion_is_promised_for_the_subjects_of_its_scope(bench):
    for criterion in CATALOGUE.values():
        scopes = {
            "rig": ("rig",),
            "node": ("pc1", "pc2"),
            "device": (GPU, OTHER),
            "peers": (),
            "node_ring": ("pc1+pc2",),
            "team": ("rig",),
        }
        expected = scopes[criterion.scope]  # each node has one card
        if criterion.name == PEERS:  # the two cards have different numbers of workers
            expected = ()
        assert promised(criterion, bench.loaded) == expected


def test_a_stage_that_ran_is_judged_whatever_the_run_says_of_its_level(bench):
    everything = {(one.criterion, one.subject) for one in bench.verdicts()}
    bench.recording.run = replace(bench.recording.run, stages=("gemm",))
    assert {(one.criterion, one.subject) for one in bench.verdicts()} == everything
    bench.recording.stages["cooking"] = replace(bench.recording.stages["gemm"], name="cooking")
    assert {(one.criterion, one.subject) for one in bench.verdicts()} == everything
    del bench.recording.stages["feeding"]
    left = {(one.criterion, one.subject) for one in bench.verdicts()}
    assert {name for name, _ in everything - left} == {"feeding.idle_gaps", "feeding.parallel_rewards"}


@pytest.fixture
def cpu_bench(new_bench):
    """The same run with the CPU as pc1's only device, of which NVML says nothing."""
    device = {"sku": "unknown", "device": "cpu", "workers": 2}
    node = {"name": "pc1", "cpus": 8, "ram_gib": 64, "gpus": [device]}
    bench = new_bench({"nodes": [node], **stage_changes("sustained", combined_floor_tflops=None)})
    recording, cpu = bench.recording, {"subject": CPU}
    identity = replace(recording.gpus[GPU], **cpu, device="cpu", uuid="CPU-pc1", sku=None, power_limit_w=None)
    recording.gpus = {CPU: identity}
    del recording.nodes["pc2"]
    recording.gpu_samples, recording.counters, recording.foreign_memory = [], [], {}
    recording.processes, recording.process_watches = [], {}
    recording.rounds = [replace(one, **cpu) for one in recording.rounds if one.subject == GPU]
    recording.memory = [
        replace(one, **cpu, device_free_mib=None) for one in recording.memory if one.subject == GPU
    ]
    recording.workers = [
        replace(one, **cpu, device="cpu", uuid="CPU-pc1") for one in recording.workers if one.subject == GPU
    ]
    recording.events = [replace(one, **cpu) for one in recording.events if one.subject == GPU]
    rewards = [replace(one, **cpu) for one in recording.of(RewardBatch) if one.subject == GPU]
    recording.put(RewardBatch, rewards)

    def renamed(records):
        return [replace(one, worker=one.worker.replace(GPU, CPU)) for one in records]

    recording.workers, recording.events = renamed(recording.workers), renamed(recording.events)
    for kind in (Round, MemoryReading, RewardBatch):
        recording.put(kind, renamed(recording.of(kind)))
    for name, stage in recording.stages.items():
        workers = tuple(one.replace(GPU, CPU) for one in stage.workers if one.startswith(GPU))
        recording.stages[name] = replace(stage, workers=workers)
    return bench


def test_for_the_cpu_as_device_nothing_that_needs_nvml_is_promised(cpu_bench):
    judged = {verdict.criterion for verdict in cpu_bench.verdicts()}
    canned = {name for name, one in CATALOGUE.items() if CANNED.issuperset(one.stages)}
    assert canned - judged == {
        "inventory.driver",
        "inventory.foreign_memory",
        "activity.undisturbed",
        "memory.ecc",
        "memory.row_remap",
        "throughput.peer_outlier",
        "transfer.link",
        "transfer.errors",
        "thermal.core_temperature",
        "thermal.memory_temperature",
        "thermal.throttle",
        "thermal.margin",
        "power.draw",
        "power.limit",
        "precision.speedup",
        "training.step",
        "clock.ratio",
        "health.xid",
        "inventory.modes",
        "host.limits",
        "health.ecc_mode",
        "health.defects",
        "health.nvlink",
        "health.fabric",
    }


def test_the_cpu_as_device_can_be_accepted(cpu_bench):
    cpu_bench.recording.memory = [replace(one, ooms=None) for one in cpu_bench.recording.memory]
    verdicts = cpu_bench.verdicts()
    assert {(v.criterion, v.detail) for v in verdicts if v.outcome not in GOOD} == set()
    assert decide(verdicts) is Decision.ACCEPTED


def test_an_idle_cpu_fails_by_its_work_alone(cpu_bench):
    cpu_bench.rounds(CPU, "sustained", verified=False)
    assert cpu_bench.verdict("activity.gpu_active", CPU).outcome is Outcome.FAIL


def test_the_headroom_of_the_cpu_is_its_nodes_ram(cpu_bench):
    cpu_bench.host("pc1", 40, 41, ram_available_mib=100)
    verdict = cpu_bench.verdict("memory.headroom", CPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail.startswith("0.098 GiB, limit ≥")


# What always holds


def test_a_criterion_that_breaks_is_not_measured(bench):
    def broken(_evidence):
        raise ZeroDivisionError("of course")

    criterion = replace(CATALOGUE["power.draw"], find=broken)
    verdict = judge(criterion, GPU, Evidence(bench.recording, bench.loaded))
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "judging it failed: ZeroDivisionError: of course"


def test_a_subject_that_is_not_promised_is_a_mistake_of_the_caller(bench):
    with pytest.raises(KeyError):
        bench.verdict("power.draw", "pc9/gpu0")


def test_what_was_not_judged_is_not_measured():
    verdict = not_judged(CATALOGUE["power.draw"], GPU, "deselected")
    assert (verdict.outcome, verdict.detail) == (Outcome.NOT_MEASURED, "deselected")


def test_a_recording_is_judged_by_the_profile_inside_it(bench):
    bench.recording.run = replace(bench.recording.run, rig=json.loads(json.dumps(bench.loaded.dump())))
    assert judge_all(bench.recording) == bench.verdicts()


def test_a_lower_limit_judges_the_same_recording_anew(bench):
    assert bench.verdict("thermal.core_temperature", GPU).outcome is Outcome.PASS
    bench.limits(core_temperature_c=60)
    assert bench.verdict("thermal.core_temperature", GPU).outcome is Outcome.FAIL


@pytest.mark.parametrize("criterion", CATALOGUE)
def test_a_profile_without_limits_never_makes_a_measurement_pass_by_itself(bench, criterion):
    bench.rig(limits={})
    needs = "`limits." in CATALOGUE[criterion].limit
    lenient = {"inventory.driver", "thermal.core_temperature", "thermal.memory_temperature", "power.limit"}
    lenient |= {
        "precision.speedup",
        "health.xid",
        "health.ecc_mode",
        "inventory.gpus_present",
        "history.regression",
    }  # the SKU file's floor holds then, the catalogue of Xids, what the model has, and the model itself;
    # and runs of a version that had no such limit are compared with none
    lenient |= {name for name in CATALOGUE if name.startswith("throughput.") and name != STABILITY}
    for subject in promised(CATALOGUE[criterion], bench.loaded):
        if needs and criterion not in lenient:
            assert bench.verdict(criterion, subject).outcome is Outcome.NOT_MEASURED


def empty_recording(bench):
    recording = Recording(bench.recording.run)
    recording.nodes, recording.gpus = bench.recording.nodes, bench.recording.gpus
    return recording


def test_an_empty_recording_of_a_rig_that_is_there_passes_nothing_but_its_presence(bench):
    verdicts = judge_all(empty_recording(bench), bench.loaded)
    good = {v.criterion for v in verdicts if v.outcome in GOOD}
    known = {"gpus_present", "driver", "modes"}
    known = {f"inventory.{name}" for name in known} | {"power.limit", "health.ecc_mode", "host.limits"}
    assert good == {"cluster.nodes_present", "history.regression", *known}  # there are no earlier runs
    assert decide(verdicts) is Decision.INCOMPLETE


# Criterion -> the kinds of records without which it must not pass
NEEDS = {
    "cluster.no_timeouts": ("stages",),
    "inventory.foreign_memory": ("foreign_memory",),
    "distribution.workers_spread": ("workers",),
    "activity.gpu_active": ("rounds", "gpu_samples", "stages"),
    "activity.undisturbed": ("process_watches", "stages"),
    **{
        f"throughput.gemm_{precision}": ("rounds", "stages")
        for precision in ("fp32", "tf32", "fp16", "bf16", "fp8")
    },
    "throughput.sustained": ("rounds", "stages"),
    "throughput.combined": ("rounds", "stages"),
    "throughput.stability": ("rounds", "stages"),
    "memory.no_oom": ("memory", "stages"),
    "memory.success_rate": ("rounds", "stages"),
    "memory.headroom": ("memory", "stages"),
    "memory.ecc": ("counters", "stages"),
    "memory.row_remap": ("counters", "stages"),
    "transfer.link": ("gpu_samples", "counters", "stages"),
    "thermal.core_temperature": ("gpu_samples", "stages"),
    "thermal.memory_temperature": ("gpu_samples", "stages"),
    "thermal.margin": ("gpu_samples", "stages"),
    "thermal.throttle": ("gpu_samples", "stages"),
    "power.draw": ("gpu_samples", "stages"),
    "clock.ratio": ("gpu_samples", "stages"),
    "health.defects": ("counters", "stages"),
    "health.nvlink": ("counters", "stages"),
    "health.fabric": ("counters", "stages"),
    "health.xid": ("stages",),
    "host.cpu_band": ("host_samples", "stages"),
    "host.steal": ("host_samples", "stages"),
    "host.responsiveness": ("host_samples", "stages"),
}


@pytest.mark.parametrize(
    ("criterion", "kind"), [(name, kind) for name, kinds in NEEDS.items() for kind in kinds]
)
def test_without_what_it_needs_no_criterion_passes(bench, criterion, kind):
    setattr(bench.recording, kind, [])
    for subject in promised(CATALOGUE[criterion], bench.loaded):
        verdict = bench.verdict(criterion, subject)
        assert verdict.outcome in (Outcome.NOT_MEASURED, Outcome.FAIL)


@pytest.mark.parametrize("status", ["running", "interrupted"])
def test_a_stage_that_was_broken_off_lets_nothing_pass_that_needs_it(bench, status):
    bench.stage("sustained", status=status)
    for verdict in bench.verdicts():
        if "sustained" in CATALOGUE[verdict.criterion].stages:
            assert (verdict.criterion, verdict.outcome) == (verdict.criterion, Outcome.NOT_MEASURED)


strange = st.sampled_from([float("nan"), float("inf"), float("-inf"), 0.0, -1.0, 1e-300, 1e15])
floats = strange | st.floats(0, 1000)
moments = st.floats(0, 80) | floats
words = st.text(max_size=5)
BY_TYPE = {float: floats, int: st.integers(-1, 2**40), bool: st.booleans(), str: words}
BY_NAME = {
    "t_s": moments,
    "start_s": moments,
    "from_s": moments,
    "end_s": st.none() | moments,
    "loaded_from_s": st.none() | moments,
    "loaded_to_s": st.none() | moments,
    "subject": st.sampled_from([GPU, OTHER, "pc1", "pc2", "rig"]),
    "stage": st.sampled_from(["gemm", "sustained"]),
    "worker": st.sampled_from(["pc1/gpu0#0", "pc1/gpu0#1", "pc2/gpu0#0"]),
}


def records(kind, /, *, only=None, **given):
    """Strange records of this type: what is not given, by the name of the field or else its type.

    `only`: so many of its fields, the others have their defaults.
    """
    strategies = {}
    for name, hint in list(get_type_hints(kind).items())[:only]:
        known = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
        choices = [one for part in known for one in get_args(part) if get_origin(part) is Literal]
        by_type = [BY_TYPE[one] for one in known if one in BY_TYPE]
        by_type += [st.sampled_from(choices)] if choices else []
        by_type += [st.none()] if type(None) in known else []
        if by_type:
            strategies[name] = st.one_of(by_type)
    known = {name: one for name, one in BY_NAME.items() if name in strategies}
    return st.builds(kind, **strategies | known | given)


gpu_samples = records(GpuSample, only=14)
host_samples = records(
    HostSample, core_percent=st.none(), wakeup_delays_ms=st.none() | st.tuples(floats), only=10
)
rounds = records(
    Round,
    unit=st.sampled_from(["TFLOP", "GB"]),
    labels=st.fixed_dictionaries(
        {}, optional={"precision": st.sampled_from(["fp32", "bf16"]), "size": st.just(64)}
    ),
    only=9,
)
others = st.one_of(
    records(Stage, name=BY_NAME["stage"], only=8),
    records(
        Event,
        kind=st.sampled_from(sorted(EVENT_KINDS)),
        stage=st.none() | BY_NAME["stage"],
        worker=st.none() | BY_NAME["worker"],
        data=st.dictionaries(st.sampled_from(["xid", "count", "limit_s"]), st.integers() | words | floats),
        only=6,
    ),
    records(MemoryReading),
    records(GpuCounters, only=11),
    records(ForeignMemory, pids=st.none() | st.tuples(st.integers(1, 9)), only=4),
    records(
        GpuProcess,
        pid=st.sampled_from([100, 101, 5263]),
        parents=st.sampled_from([(), (100,), (7, 1)]),
        only=10,
    ),
    records(ProcessWatch, readings=st.integers(0, 9)),
    records(
        WorkerIdentity,
        node=st.just("pc1"),
        device=st.just("cuda"),
        uuid=st.sampled_from([f"GPU-{GPU}", f"GPU-{OTHER}", "GPU-x"]),
        precisions=st.just(("bf16",)),
        only=10,
    ),
)


@SLOW
@given(data=st.data())
def test_no_recording_makes_judging_raise_or_a_figure_that_is_not_finite(new_bench, data):
    bench = new_bench()
    start = bench.recording if data.draw(st.booleans()) else empty_recording(bench)
    for strategy in (gpu_samples, host_samples, rounds, others):
        start.extend(data.draw(st.lists(strategy, max_size=8)))
    for verdict in judge_all(start, bench.loaded):
        assert "judging it failed" not in verdict.detail, verdict
        assert sentence(verdict)
        json.dumps([verdict.measured, verdict.limit, verdict.from_s, verdict.length_s], allow_nan=False)
        assert agrees(verdict), verdict


SHARES = ("throttle_share", "success_share", "active_work_share", "peer_share", "idle_share")
NUMBERS = ("ooms", "ecc_uncorrected", "throttle_events", "remapped_rows_fail", "retired_pages_fail")
CHANGES = [
    one
    for name, one in vars(fault_changes).items()
    if isfunction(one)
    and name not in ("replace", "leave_free", "hold_memory")  # these have figures to be given
]
DEGREES = ("core_temperature_c", "memory_temperature_c", "headroom_gib")


@SLOW
@given(
    changes=st.lists(st.sampled_from(CHANGES), max_size=3),
    limits=st.fixed_dictionaries(
        {},
        optional={name: st.floats(0.01, 0.99) for name in SHARES}
        | {name: st.integers(1, 3) for name in NUMBERS}
        | {name: st.floats(1, 120) for name in DEGREES}
        | {"power_limit_w": st.sampled_from([(300.0, 699.6), (700.3, 750.0), (200.0, 350.0)])},
    ),
)
def test_a_pass_is_within_its_limit_and_a_failure_is_not(new_bench, changes, limits):
    bench = new_bench()
    bench.limits(**limits)
    for change in changes:
        with contextlib.suppress(LookupError):  # two of them may take the same away
            change(bench)
    for verdict in bench.verdicts():
        assert "judging it failed" not in verdict.detail, verdict
        assert agrees(verdict), verdict


@SLOW
@given(
    warmer=st.floats(0, 60),
    hot_c=st.floats(20, 89),  # more would be no temperature of a card
    from_s=st.floats(0, 70),
    length_s=st.floats(0.2, 40),
)
def test_more_heat_never_turns_a_failure_into_a_pass(new_bench, warmer, hot_c, from_s, length_s):
    bench = new_bench()
    bench.samples(GPU, from_s, from_s + length_s, core_temperature_c=hot_c)
    before = bench.verdict("thermal.core_temperature", GPU).outcome
    bench.samples(GPU, core_temperature_c=lambda sample: sample.core_temperature_c + warmer)
    after = bench.verdict("thermal.core_temperature", GPU).outcome
    assert not (before is Outcome.FAIL and after is not Outcome.FAIL)


@SLOW
@given(share=st.floats(0.05, 1), less=st.floats(0.05, 1))
def test_less_work_never_turns_a_failure_into_a_pass(new_bench, share, less):
    bench = new_bench()
    for stage in ("gemm", "sustained"):
        bench.slow(GPU, share, stage)
    names = ("throughput.gemm_bf16", "throughput.sustained")
    before = [bench.verdict(name, GPU).outcome for name in names]
    for stage in ("gemm", "sustained"):
        bench.slow(GPU, less, stage)
    after = [bench.verdict(name, GPU).outcome for name in names]
    for was, now in zip(before, after, strict=True):
        assert not (was is Outcome.FAIL and now is not Outcome.FAIL)


@SLOW
@given(kept=st.sets(st.integers(0, 719)))
def test_fewer_samples_never_turn_a_failure_of_coverage_into_a_pass(new_bench, kept):
    bench = new_bench()
    mine = bench.recording.gpu_samples.of(GPU)
    bench.recording.gpu_samples = [mine[index] for index in sorted(kept)]
    under_load = sum(1 for one in bench.recording.gpu_samples if 30 <= one.t_s <= 70)
    if under_load < 0.8 * 400:
        for name in ("thermal.core_temperature", "thermal.throttle", "power.draw", "clock.ratio"):
            assert bench.verdict(name, GPU).outcome is Outcome.NOT_MEASURED


def test_what_somebody_else_explains_says_since_when_where_that_is_known(bench):
    fault_changes.stranger_takes_memory(bench)
    own = bench.verdict("memory.no_oom", GPU).detail.partition("so this is not the card's own: ")[2]
    assert own == "1 OOM, limit 0, from t=50 s"


def test_what_somebody_else_explains_names_no_moment_that_nobody_knows(bench):
    bench.stranger(26, used_mib=[520], sm_percent=[48])
    bench.slow(GPU, 0.5)
    detail = bench.verdict("throughput.sustained", GPU).detail
    assert detail.endswith("so this is not the card's own: 330 TFLOP/s, limit ≥ 446 TFLOP/s")


def test_one_sample_of_a_gpu_is_no_measurement(bench):
    bench.drop("gpu_samples", GPU)
    bench.recording.add(GpuSample(40.0, GPU, core_temperature_c=50.0, power_w=600.0))
    verdict = bench.verdict("thermal.core_temperature", GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
