"""Every criterion shown failing: faults put into the healthy recording, and what fails of them."""

import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.catalogue import FAULTS as ALL_FAULTS
from rigproof.judging.fault_matrix import shown_by
from rigproof.records.samples import GpuSample
from rigproof.records.verdict import Decision, Outcome, decide, sentence
from support.fault_changes import (
    GPU,
    OTHER,
    WORKER,
    all_work_on_one_gpu,
    fabric_is_not_started,
    gpu_is_missing,
    gpu_is_starved,
    hold_memory,
    host_restarts,
    leave_free,
    node_is_missing,
    nvlink_is_down,
    power_limit_is_off,
    products_differ,
    rewards_are_slow,
    sag,
    sharing_collapses,
    tensor_cores_are_unused,
)
from support.faults import FAULTS
from support.peers import make_peers, slow_peer
from support.rig_profile import CANNED

FAIL, WARN = Outcome.FAIL, Outcome.WARN
IDS = [f"{fault.name}-{number}" for number, fault in enumerate(FAULTS)]
# Those of stages that the canned recording has; tests/simulation/test_fault_matrix.py shows all of them.
JUDGED = {name: one for name, one in CATALOGUE.items() if CANNED.issuperset(one.stages)}
KINDS = {name: one for name, one in ALL_FAULTS.items() if set(one.trips) <= set(JUDGED)}


def these(verdicts, outcome):
    return {(verdict.criterion, verdict.subject) for verdict in verdicts if verdict.outcome is outcome}


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_a_fault_changes_the_verdicts_that_it_says_and_no_other(bench, fault):
    fault.change(bench)
    verdicts = bench.verdicts()
    assert these(verdicts, FAIL) == fault.fails
    assert these(verdicts, WARN) == fault.warns
    assert fault.disturbed <= these(verdicts, Outcome.NOT_MEASURED)
    good = Decision.INCOMPLETE if fault.disturbed else Decision.ACCEPTED
    assert decide(verdicts) is (Decision.REJECTED if fault.fails else good)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_fault_that_fails_or_warns_is_shown_tripping_what_it_is_there_for(kind):
    """What is not measured is no change of a healthy recording, but evidence that is missing in it."""
    tripped = set()
    for fault in FAULTS:
        if fault.name == kind.name:
            tripped |= {name for name, _ in (fault.warns if kind.ends == "warns" else fault.fails)}
    assert kind.ends == "not measured" or set(kind.trips) <= tripped


@pytest.mark.parametrize("criterion", JUDGED.values(), ids=JUDGED)
def test_every_criterion_is_shown_failing_on_a_fault_that_it_names(criterion):
    if criterion.surroundings:
        changed = {one.name for one in FAULTS if criterion.name in dict(one.disturbed | one.warns)}
        assert changed & {*shown_by(criterion, Outcome.NOT_MEASURED), *shown_by(criterion, WARN)}
        return
    shown = {fault.name for fault in FAULTS if criterion.name in {name for name, _ in fault.fails}}
    assert shown & set(shown_by(criterion, Outcome.FAIL))


def test_every_fault_that_is_shown_is_one_of_the_catalogue():
    assert {fault.name for fault in FAULTS} <= set(KINDS)


def every_device_a_little_slow(bench):
    for subject in (GPU, OTHER):
        bench.slow(subject, 0.76)


def warm_up_unverified(bench):
    for stage in bench.recording.stages:
        bench.rounds(GPU, stage, verified=lambda one: one.phase == "measure")


def products_differ_among_three(bench):
    make_peers(bench, 3)
    products_differ(bench, GPU)


def gemm_slow(precision):
    def fault(bench):
        bench.rounds(
            GPU, "gemm", work=lambda one: one.work * (0.5 if one.label("precision") == precision else 1)
        )

    return fault


# Criterion -> (subject, what makes it fail, other criteria that must fail with it)
ALONE = {
    "cluster.nodes_present": ("pc2", node_is_missing, {"inventory.gpus_present"}),
    "cluster.no_timeouts": ("rig", lambda b: b.event("timeout", GPU, "30 s without a round"), set()),
    "inventory.gpus_present": (GPU, gpu_is_missing, set()),
    "inventory.driver": ("pc1", lambda b: b.node("pc1", nvml_error="driver/library mismatch"), set()),
    "distribution.workers_spread": (GPU, all_work_on_one_gpu, set()),
    "activity.gpu_active": (GPU, lambda b: b.samples(GPU, 5, power_w=lambda s: 90 + s.t_s % 3), set()),
    "throughput.gemm_fp32": (GPU, gemm_slow("fp32"), set()),
    "throughput.gemm_tf32": (GPU, gemm_slow("tf32"), set()),
    "throughput.gemm_fp16": (GPU, gemm_slow("fp16"), set()),
    "throughput.gemm_bf16": (GPU, gemm_slow("bf16"), set()),
    "throughput.gemm_fp8": (GPU, gemm_slow("fp8"), set()),
    "throughput.sustained": (GPU, lambda b: b.slow(GPU, 0.67), set()),
    "throughput.combined": ("rig", every_device_a_little_slow, set()),
    "throughput.stability": (GPU, sag, set()),
    "throughput.peer_outlier": (GPU, slow_peer, set()),
    "precision.speedup": (GPU, tensor_cores_are_unused, {"training.step"}),
    "training.step": (GPU, lambda b: b.slow(GPU, 0.7, "training"), set()),
    "compute.exact": (GPU, products_differ_among_three, set()),
    "feeding.parallel_rewards": (GPU, rewards_are_slow, set()),
    "feeding.idle_gaps": (GPU, gpu_is_starved, set()),
    "scaling.sharing": (GPU, sharing_collapses, set()),
    "memory.no_oom": (GPU, lambda b: b.event("oom", GPU, "12 GiB wanted"), {"memory.success_rate"}),
    "memory.success_rate": (GPU, warm_up_unverified, set()),
    "memory.ecc": (GPU, lambda b: b.counters(GPU, "after", ecc_uncorrected=1), set()),
    "memory.row_remap": (GPU, lambda b: b.counters(GPU, "after", remap_pending=True), set()),
    "transfer.link": (GPU, lambda b: b.samples(GPU, pcie_width=8), set()),
    "transfer.errors": (GPU, lambda b: b.pcie(GPU, 60, fatal=1), set()),
    "thermal.core_temperature": (GPU, lambda b: b.samples(GPU, 50, 60, core_temperature_c=88), set()),
    "thermal.memory_temperature": (GPU, lambda b: b.samples(GPU, 50, 60, memory_temperature_c=96), set()),
    "thermal.margin": (GPU, lambda b: b.samples(GPU, 50, 60, thermal_margin_c=-3), set()),
    "thermal.throttle": (GPU, lambda b: b.samples(GPU, 50, 51, clock_event_reasons=0x44), set()),
    "power.draw": (GPU, lambda b: b.samples(GPU, 55, power_average_w=lambda s: 745 + s.t_s % 3), set()),
    "power.limit": (GPU, power_limit_is_off, set()),
    "clock.ratio": (GPU, lambda b: b.samples(GPU, 60, sm_clock_mhz=lambda s: 1000 + s.t_s % 3), set()),
    "inventory.modes": (GPU, lambda b: b.gpu(GPU, mig_enabled=True), set()),
    "host.limits": ("pc1", lambda b: b.node("pc1", cpus=2, host_cpus=2), set()),
    "health.ecc_mode": (GPU, lambda b: b.gpu(GPU, ecc_enabled=False), set()),
    "health.defects": (GPU, lambda b: b.counters(GPU, "after", sram_threshold_exceeded=True), set()),
    "health.nvlink": (GPU, nvlink_is_down, set()),
    "health.fabric": (GPU, fabric_is_not_started, set()),
    "health.reset": ("pc2", host_restarts, set()),
    "health.xid": (GPU, lambda b: b.event("xid", GPU, "fell off the bus", xid=79), set()),
    "host.cpu_band": ("pc1", lambda b: b.host("pc1", cpu_percent=60, own_percent=58), set()),
    "host.responsiveness": ("pc1", lambda b: b.host("pc1", 50, 50.05, wakeup_delays_ms=(600.0,)), set()),
}


# The same of those that judge the surroundings: what makes them not measured, and nothing else fail.
DISTURBED = {
    "inventory.foreign_memory": lambda b: hold_memory(b, 60_000),
    "activity.undisturbed": lambda b: b.stranger(45),
    "memory.headroom": lambda b: leave_free(b, 100),
}


def test_each_criterion_is_shown():
    """What a hypervisor takes only warns; the rates and the band show what it costs."""
    assert {*DISTURBED, "host.steal"} == {name for name, one in JUDGED.items() if one.surroundings}
    assert set(ALONE) == {name for name, one in JUDGED.items() if not one.surroundings}


@pytest.mark.parametrize("criterion", DISTURBED)
def test_what_others_did_leaves_the_rig_unproven_and_is_never_a_failure(bench, criterion):
    DISTURBED[criterion](bench)
    verdicts = bench.verdicts()
    assert these(verdicts, FAIL) == set()
    (verdict,) = [one for one in verdicts if (one.criterion, one.subject) == (criterion, GPU)]
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.remedy
    assert decide(verdicts) is Decision.INCOMPLETE


@pytest.mark.parametrize("criterion", ALONE)
def test_each_criterion_can_fail_alone(bench, criterion):
    subject, change, others = ALONE[criterion]
    change(bench)
    verdicts = bench.verdicts()
    failed = these(verdicts, FAIL)
    assert {name for name, _ in failed} == {criterion} | others
    assert (criterion, subject) in failed
    assert decide(verdicts) is Decision.REJECTED


@pytest.mark.parametrize("criterion", ALONE)
def test_a_failure_tells_the_reader_what_to_do_and_where_the_limit_comes_from(bench, criterion):
    subject, change, _ = ALONE[criterion]
    change(bench)
    verdict = bench.verdict(criterion, subject)
    text = sentence(verdict)
    assert text.startswith(f"{subject} {criterion}: ")
    assert text.endswith(f". {verdict.remedy[0].upper()}{verdict.remedy[1:]}.")
    assert verdict.limit is None or verdict.limit_source


def test_the_cause_is_reported_once_where_a_node_is_missing(bench):
    node_is_missing(bench)
    verdicts = [v for v in bench.verdicts() if v.subject.startswith("pc2")]
    failed = {v.criterion for v in verdicts if v.outcome is Outcome.FAIL}
    assert failed == {"cluster.nodes_present", "inventory.gpus_present"}
    others = [v for v in verdicts if v.outcome is not Outcome.FAIL]
    assert {v.outcome for v in others} == {Outcome.NOT_MEASURED}
    assert {v.detail for v in others} == {"pc2 was not found", "pc2/gpu0 was not found"}


def test_the_other_gpu_is_judged_as_before_where_one_is_missing(bench):
    gpu_is_missing(bench)
    others = [v for v in bench.verdicts() if v.subject == OTHER]
    assert {v.outcome for v in others} <= {Outcome.PASS, Outcome.NOT_APPLICABLE}


def test_two_faults_on_two_gpus_are_both_named(bench):
    bench.event("xid", GPU, "fell off the bus", xid=79)
    bench.samples(OTHER, 50, 60, core_temperature_c=95)
    failed = {(v.criterion, v.subject) for v in bench.verdicts() if v.outcome is Outcome.FAIL}
    assert failed == {("health.xid", GPU), ("thermal.core_temperature", OTHER)}


LATE = {
    "transfer.link": lambda b: b.samples(GPU, 62, pcie_generation=1),
    "activity.gpu_active": lambda b: b.rounds(GPU, "sustained", 62, verified=False),
    "throughput.stability": lambda b: b.slow(GPU, 0.85, from_s=62),
    "thermal.core_temperature": lambda b: b.samples(GPU, 62, core_temperature_c=88),
    "thermal.throttle": lambda b: b.samples(GPU, 62, clock_event_reasons=0x80),
    "power.draw": lambda b: b.samples(GPU, 62, power_average_w=lambda s: 790 + s.t_s % 3),
    "clock.ratio": lambda b: b.samples(GPU, 62, sm_clock_mhz=500),
}


@pytest.mark.parametrize("criterion", LATE)
def test_a_fault_that_begins_at_80_percent_of_the_stage_is_caught(bench, criterion):
    LATE[criterion](bench)
    assert bench.verdict(criterion, GPU).outcome is Outcome.FAIL


def test_a_power_capped_gpu_is_no_alarm(bench):
    capped = {"clock_event_reasons": 0x4, "sm_clock_mhz": lambda s: 1470 + s.t_s % 2}
    bench.samples(GPU, 5, power_w=lambda s: 690 + s.t_s % 2, **capped)
    assert {v.outcome for v in bench.verdicts()} == {Outcome.PASS}


def test_one_sample_of_a_gpu_is_no_measurement(bench):
    bench.drop("gpu_samples", GPU)
    bench.recording.add(GpuSample(40.0, GPU, core_temperature_c=50.0, power_w=600.0))
    verdict = bench.verdict("thermal.core_temperature", GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED


def test_a_worker_that_the_kernel_killed_for_lack_of_memory_leaves_the_rig_unproven(bench):
    for t_s, killed in ((3.0, 7), (50.5, 8)):
        bench.event("oom_kills", "pc1", "", t_s, killed=killed)
    bench.lose(WORKER, "worker_died", "the process is gone: signal 9", 50)
    verdicts = bench.verdicts()
    assert these(verdicts, FAIL) == set()
    assert decide(verdicts) is Decision.INCOMPLETE
    (losses,) = [one for one in verdicts if one.criterion == "cluster.no_timeouts"]
    assert "the kernel's OOM killer ended a process of" in losses.detail
    assert losses.remedy.startswith("free RAM of that node")
