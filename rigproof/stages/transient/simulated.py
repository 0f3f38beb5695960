"""Simulated waves: bursts on the schedule, and draws as a sampler would see them."""

import math
from collections.abc import Iterator

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.records.measurements import Labels, Phase
from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.silicon.card import STEP_S
from rigproof.simulation.stage import CardWork, Records, SimulatedForm
from rigproof.simulation.timetable import Segment, Work
from rigproof.simulation.work.task import Task
from rigproof.stages.transient.stage import EDGE, HALF, STAGE, Arm, TransientSettings, TransientSpec, arms_of

CRITERION = "power.transient"
SHOWN = ("xid", "power-brake", "bit-flip", "out-of-phase", "throughput-sag")
OF_PROCESSES = ("hung-kernel", "worker-killed", "worker-frozen", "timeout")
OF_DRIVERS = ("gpu-lost", "nvml-hang", "ecc-uncorrected", "recovery-wanted")
COUNTED = ("pcie-replays",)  # and read after the run


def _alone(loaded: LoadedRig, device: PromisedDevice) -> str:
    """Lacks another GPU on its node, with which it could be out of phase."""
    nodes = [one.node for one in loaded.devices() if one.gpu.device == "cuda"]
    return "" if nodes.count(device.node) > 1 else "its node has no other GPU"


FAULTS = (
    FaultKind(
        "psu-sag",
        "the power supply gives way: each GPU loses by= of its rate once a second one takes part, or halfway "
        "through the waves where there is no second one",
        (CRITERION,),
        scope="node",
        keys=("stage", "by"),
        defaults={"by": "30%"},
        stage=STAGE,
    ),
    FaultKind(
        "out-of-phase",
        "its bursts begin late by to= milliseconds, so that there are no waves over all GPUs",
        (CRITERION,),
        ends="not measured",
        keys=("stage", "to"),
        defaults={"to": "12"},
        stage=STAGE,
        lacks=_alone,
    ),
)


def unnoticed(fault: InjectedFault, _work: CardWork) -> str:
    """Sensors of a single card are not judged while the load switches; what concerns the run always is."""
    known = (*SHOWN, *OF_PROCESSES, *OF_DRIVERS, *COUNTED)
    why = "its waves are judged by their consequences, not by each card's sensors"
    return "" if fault.name in known else why


# H200s of 700 W at 5 Hz: instant readings between 116 and 951 W. Simulated ones stay at their limit.
BURSTING = Work(1.0, 0.97, 0.03, 0.0)
# Relative to a continuous load at its power cap; H100 and H200: 1.03 at 1 Hz, 1.13 to 1.17 at 20 Hz.
BURST_RATE = 1.13
OVER_PRINT = 1.2  # of the printed peak, at most: boost clocks carry a GeForce past it, but no further
DUTY = 0.96  # of half a period: what whole products fill of it
LATE_S = 0.0002  # standard deviation of a burst's begin
REFERENCES_S = 1.0  # into the stage


def segments(plan: StagePlan, work: CardWork) -> Iterator[Segment]:
    """Bursts of the arms that the card takes part in."""
    host = [one for one in work.loaded.devices() if one.node == work.device.node and one.gpu.device == "cuda"]
    rank = next(place for place, one in enumerate(host) if one.subject == work.device.subject)
    for arm in arms_of(len(host), work.loaded.settings(TransientSettings), plan.measure_s):
        if rank < arm.gpus:
            yield from _bursts(arm)


def _bursts(arm: Arm) -> Iterator[Segment]:
    """What samples see of an arm: its waves, or slower ones if a card's states are too long for them."""
    on_s = _on_s(arm)
    begin_s = arm.from_s - EDGE  # a state of that very moment is in it, whatever the rounding
    while begin_s < arm.to_s - 2 * EDGE:
        yield Segment(begin_s, begin_s + on_s, BURSTING)  # the last one may end in the rest after the arm
        begin_s += 2 * on_s


def _on_s(arm: Arm) -> float:
    return max(HALF / arm.hz, STEP_S)


def _seen_s(arm: Arm, wave: int) -> float:
    """A moment of the stage in which the card's state is that of the wave: at work."""
    period_s = 2 * _on_s(arm)
    return arm.from_s + math.floor(wave / arm.hz / period_s + EDGE) * period_s


def records(task: Task, spec: TransientSpec) -> Records:
    """A round for each burst."""
    if spec.left_out:
        yield task.event(task.start_s, "waves_left_out", spec.left_out, {})
        return
    precision = task.card.half_precision
    yield task.references(task.start_s + REFERENCES_S, precision)
    size = task.plan.gemm_size
    most = OVER_PRINT * (getattr(task.card.sku.peak_tflops, precision) or math.inf)
    for arm in (one for one in spec.arms if spec.rank < one.gpus):
        labels: Labels = {"precision": precision, "size": size, "gpus": arm.gpus, "hz": arm.hz}
        for wave in range(arm.waves):
            begun_s = task.start_s + arm.due_s(wave) + _late_s(task, task.start_s + arm.due_s(wave))
            seconds = DUTY * HALF / arm.hz
            state_s = STEP_S * math.ceil((task.start_s + _seen_s(arm, wave)) / STEP_S) + EDGE
            rate = min(most, BURST_RATE * task.rate(precision, state_s, state_s))
            rate *= _left_share(task, spec, arm, wave)
            phase: Phase = "measure" if wave else "warmup"
            yield task.round(begun_s + seconds, phase, seconds, rate * seconds, labels=labels)


def _late_s(task: Task, t_s: float) -> float:
    late = task.acting("out-of-phase", t_s)
    return abs(task.noise.gauss(0, LATE_S)) + ((late.to or 0.0) / 1000 if late is not None else 0.0)


def _left_share(task: Task, spec: TransientSpec, arm: Arm, wave: int) -> float:
    """The share of its rate that a sagging supply leaves a card."""
    sag = task.host_fault("psu-sag")
    alone = spec.arms[-1].gpus == 1
    sags = sag is not None and (wave >= arm.waves / 2 if alone else arm.gpus > 1)
    return 1 - (sag.by or 0.0) if sag is not None and sags else 1.0


# Its rate is held against 0.80 of a continuous load's, which bursts exceed.
SIMULATED = SimulatedForm(segments, records, unnoticed=unnoticed, least_by={"throughput-sag": 0.35})
