"""Simulated training together: steps alone, and with an exchange over the rig's slowest link."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from rigproof.devices.transformer.shape import BYTES_PER_PARAMETER, MIB_BYTES, shape_for
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.records.measurements import Labels, Phase
from rigproof.simulation.faults.kinds import FaultKind, no_peer
from rigproof.simulation.silicon.governor import unmeasured_tflops
from rigproof.simulation.stage import CardWork, Records, SimulatedForm
from rigproof.simulation.timetable import Segment, Work
from rigproof.simulation.work.task import RATE_NOISE, Task
from rigproof.stages.ddp.shares import shared_out
from rigproof.stages.ddp.stage import (
    ALONE,
    APART,
    COMPARED,
    EXCHANGED,
    OWN,
    PART_SHARE,
    ROUNDS,
    STAGE,
    TOGETHER,
    WATCHED_STEPS,
    DdpSpec,
    Gradients,
    Of,
)

SINGLE = "the rig has no other device"


def _alone(loaded: LoadedRig, _about: PromisedDevice | str) -> str:
    return "" if len(loaded.devices()) > 1 else SINGLE


FAULTS = (
    FaultKind(
        "gradient-bit",
        "a bit of the gradients that the card computes is wrong, and the exchange spreads it to all",
        ("collective.training",),
        keys=("stage",),
        stage=STAGE,
        lacks=no_peer,  # unlike cards round differently
    ),
    FaultKind(
        "gradients-unlike",
        "after an exchange the card holds other gradients than the others",
        ("collective.training",),
        keys=("stage",),
        stage=STAGE,
        lacks=_alone,
    ),
    FaultKind(
        "exchange-stalls",
        "devices wait for each other in training, much longer than an exchange takes by itself",
        ("collective.training",),
        scope="node",
        keys=("stage", "by"),
        defaults={"by": "50%"},
        stage=STAGE,
        host_lacks=_alone,
    ),
)

# As the training stage's 16-bit steps: an H200 at 1605 MHz and 704 W; waiting between them costs power.
STEPPING = Work(0.80, 0.80, 0.10, 0.04)
SETUP_S = 4.0  # processes, model, first use of each kernel
RATE = 0.6  # of plain products
# One way, GB/s: a NIC of 1 Gbit/s; through host memory; over NVLink (all-reduce of two H100).
LAN_GBPS, HOST_GBPS, NVLINK_GBPS = 0.111, 12.0, 250.0
HIDDEN = 0.3  # of an exchange, behind the backward pass
NORM = 0.9


def segments(plan: StagePlan, work: CardWork) -> Iterator[Segment]:
    """Steps without a break."""
    yield Segment(min(SETUP_S, plan.expected_s / 2), plan.expected_s, STEPPING, precision=work.half)


def records(task: Task, spec: DdpSpec) -> Records:
    """Rounds of each part, the gradients, and what the rank did."""
    [segment] = task.segments()
    rank, size, precision = task.crew.rank, task.crew.size, segment.precision
    promised = {one.subject: one for one in task.node.rig.loaded.devices()}
    devices = [promised[one] for one in task.crew.devices]
    rates = [_tflops(one) for one in devices]
    batches = shared_out(spec.batch * size, rates)
    gbps = link_gbps(devices)
    linked_mib = BYTES_PER_PARAMETER / 4 * spec.exchange_s * gbps * 1e9 / MIB_BYTES
    shape = shape_for("cuda", min(linked_mib, spec.model_share * spec.vram_mib), 1.0, spec.sequence)
    gradients_mib = 4 * shape.parameters / MIB_BYTES
    exchange_s = gradients_mib * MIB_BYTES / 1e9 / gbps
    flop = [shape.step_flop(one) / 1e12 for one in batches]
    apart_s = max(work / (RATE * rate) for work, rate in zip(flop, rates, strict=True))
    stalled = task.host_fault("exchange-stalls")
    step_s = apart_s + (1 - HIDDEN) * exchange_s
    if stalled is not None:
        step_s = (apart_s + exchange_s) / (1 - (stalled.by or 0.0))
    t_s = segment.from_s
    parts = [(ALONE, spec.batch, None), (APART, batches[rank], None), (TOGETHER, batches[rank], step_s)]
    for part, batch, known_s in parts if len(set(batches)) > 1 else (parts[0], parts[2]):
        tflop = shape.step_flop(batch) / 1e12
        about_s = known_s or tflop / (RATE * rates[rank])
        steps = max(1, int(PART_SHARE[part] * spec.duration_s / ROUNDS / about_s))
        for number in range(ROUNDS + 1):
            own_s = tflop / (RATE * task.rate(precision, t_s, t_s + 1))
            step_s = own_s if known_s is None else max(known_s, own_s)
            seconds = steps * step_s * (1 + abs(task.noise.gauss(0, RATE_NOISE)))
            t_s += seconds
            phase: Phase = "measure" if number else "warmup"
            labels: Labels = {
                "part": part,
                "precision": precision,
                "size": shape.width,
                "batch": batch,
                "steps": steps,
            }
            done = task.round(t_s, phase, seconds, steps * tflop, labels=labels)
            yield replace(done, subject=task.crew.subject)
    for number in range(WATCHED_STEPS):
        yield _gradients(task, t_s, EXCHANGED, number, wrong=task.fault("gradients-unlike") is not None)
    for other in range(min(COMPARED, size)):
        wrong = task.fault("gradient-bit") is not None or task.fault("wrong-arithmetic") is not None
        yield _gradients(task, t_s, OWN, (rank + other) % size, wrong=wrong)
    message = f"rank {rank}: {batches[rank]} of {sum(batches)} examples a step"
    data = {
        "device": task.plan.subject,
        "rank": rank,
        "ranks": size,
        "width": shape.width,
        "batch": batches[rank],
        "gradients_mib": gradients_mib,
        "exchange_s": exchange_s,
        "arithmetic": {"device": task.card.sku.nvml_names[0], "torch": "simulated"},
    }
    yield replace(task.event(t_s, "ddp_rank", message, data), subject=task.crew.subject)


def link_gbps(devices: Sequence[PromisedDevice]) -> float:
    """The slowest link that an exchange of these devices takes."""
    if len({one.node for one in devices}) > 1:
        return LAN_GBPS
    linked = all(one.sku is not None and one.sku.nvlinks for one in devices)
    return NVLINK_GBPS if linked else HOST_GBPS


def _tflops(device: PromisedDevice) -> float:
    assert device.sku is not None, "a simulated card has an SKU"
    precision = "bf16" if device.sku.peak_tflops.bf16 is not None else "fp16"
    steady = device.sku.steady.of_products(precision)
    return float(steady.value) if steady is not None else unmeasured_tflops(device.sku, precision)


def _gradients(task: Task, t_s: float, of: Of, number: int, *, wrong: bool) -> Gradients:
    text = f"{of}/{number}" if of == EXCHANGED else f"{task.card.sku.name}/{of}/{number}"
    digest = int(sha256(text.encode()).hexdigest()[:16], 16) ^ wrong
    own = (t_s, task.spec.stage, task.plan.worker, task.plan.subject)
    return Gradients(*own, of, number, f"{digest:016x}", NORM)


SIMULATED = SimulatedForm(segments, records)
