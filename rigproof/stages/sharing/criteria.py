"""What does a GPU give when several processes share it?"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from rigproof.criteria.criterion import Finding, Limit, NotMeasured, compared, criterion
from rigproof.criteria.effects import WITHOUT_WORK, Also
from rigproof.criteria.evidence.evidence import SHORTEST_LOAD_S
from rigproof.criteria.evidence.floors import SLOW
from rigproof.criteria.evidence.rates import rate_or_none
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.strangers import slowed_by
from rigproof.criteria.evidence.subjects import DeviceEvidence
from rigproof.criteria.evidence.windows import Window, work_by_slice
from rigproof.records.measurements import Event, Round
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.sharing.settings import SharingSettings

FEWEST_ROUNDS = 3  # of a process: fewer are single readings
MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True)
class SharedRate:
    """What so many processes did together, over the time in which all of them worked."""

    processes: int
    precision: str
    tflops: float
    window: Window
    gib_each: float | None  # operands; None where nobody told


def shared_rate(rounds: Iterable[Round], events: Iterable[Event], number: int) -> SharedRate:
    """The rate of `number` processes, from one device's rounds and events of the sharing stage.

    Verified rounds after the warm-up count. NotMeasured where one of the processes has too few of them, or
    where they did not work at the same time.
    """
    found: dict[int, list[Round]] = defaultdict(list)
    for one in rounds:
        process = one.label("process")
        counts = one.label("processes") == number and one.phase == "measure" and one.verified
        if counts and isinstance(process, int):
            found[process].append(one)
    for process in range(number):
        if len(found[process]) < FEWEST_ROUNDS:
            count = len(found[process])
            raise NotMeasured(f"{count} verified rounds of process {process + 1} of {number} that shared it")
    window = Window(
        max(min(one.t_s - one.seconds for one in own) for own in found.values()),
        min(max(one.t_s for one in own) for own in found.values()),
    )
    if window.length_s < SHORTEST_LOAD_S:
        raise NotMeasured(f"{number} processes worked together for {max(0.0, window.length_s):.1f} s")
    everything = [one for own in found.values() for one in own]
    tflops = work_by_slice(Rounds.of_records(everything), (window,))[0] / window.length_s
    return SharedRate(
        number, str(everything[-1].label("precision")), tflops, window, _gib_each(events, number)
    )


def _gib_each(events: Iterable[Event], number: int) -> float | None:
    for event in events:
        allocated_mib = event.data.get("allocated_mib")
        told = event.kind == "allocation" and event.stage == "sharing" and event.data.get("workers") == number
        if told and isinstance(allocated_mib, int | float):
            return allocated_mib / number / MIB_PER_GIB
    return None


@criterion(
    "scaling.sharing",
    scope="device",
    unit="×",
    limit="`stages.sharing.sharing_share`, for the worst number of processes; and for the one process alone "
    "`limits.stability_worst_window_share` of the sustained rate of the same run. None for the CPU as "
    "the device, whose threads are divided among them and which others use too",
    remedy="give this card one worker (`workers = 1`); where several are wanted, look what else works on it, "
    "and let them run side by side under NVIDIA MPS instead of in turn",
    unmeasured="one of the processes did too little, or did not work together with the others; "
    "`stages.sharing.workers` does not begin with 1, or names no other number",
    also=Also(unmeasured=(*WITHOUT_WORK, "gpu-idle", "stranger-computes")),
    stages=("sharing",),
    rate=True,
    explained=slowed_by,
)
def sharing(device: DeviceEvidence) -> Finding:
    """Verified 16-bit products of several processes on one device together, against one process alone.

    All fill the same memory together. A GPU that one process keeps busy gets no faster by sharing: 0.92 is
    what an H200 kept.
    """
    numbers = device.device.settings(SharingSettings).workers
    if len(numbers) < 2 or numbers[0] != 1:
        raise NotMeasured(f"stages.sharing.workers = {list(numbers)} compares nothing with one process")
    rounds, events = device.possible(device.rounds("sharing")).records(), device.events("allocation")
    if not rounds:
        cause = device.cause()
        raise NotMeasured("no round in the sharing stage" + (f": {cause}" if cause else ""))
    alone, *others = (shared_rate(rounds, events, number) for number in numbers)
    if not device.is_cpu:
        device.silicon.require_possible((one.precision, one.tflops) for one in (alone, *others))
    ratios = {other: other.tflops / alone.tflops for other in others}
    worst = min(ratios.values())
    detail = f"{_named(alone)}: {figure(alone.tflops, 'TFLOP/s')}; "
    detail += ", ".join(f"{_named(other)}: {ratio:.2f}×" for other, ratio in ratios.items())
    if device.is_cpu:
        why = "the CPU's threads are divided, and its rate follows whoever else runs on it"
        return Finding(Outcome.NO_LIMIT, worst, detail=f"{detail}; {why}")
    slow = _slow_alone(device, alone)
    if slow is not None:
        return slow
    limit = device.limit("sharing_share", "sharing")
    return compared(worst, limit, good=worst >= limit.value, detail=detail)


def _slow_alone(device: DeviceEvidence, alone: SharedRate) -> Finding | None:
    """The failure of a card that was slow for all of them: the ratios say nothing about that."""
    sustained = rate_or_none(device)
    if sustained is None or sustained.precision != alone.precision:
        return None
    limit = device.limit("stability_worst_window_share")
    if alone.tflops >= limit.value * sustained.tflops:
        return None
    kept = alone.tflops / sustained.tflops
    detail = f"one process alone did {figure(alone.tflops, 'TFLOP/s')}"
    detail += f", where the sustained stage had {figure(sustained.tflops, 'TFLOP/s')}"
    source = f"its own sustained rate in this run; {limit.source}"
    return compared(
        kept, Limit(limit.value, source), good=False, detail=detail, remedy=SLOW, from_s=alone.window.from_s
    )


def _named(rate: SharedRate) -> str:
    """`2 × 64.5 GiB`; `2 processes` where their memory is not known."""
    if rate.gib_each is None:
        return "1 process" if rate.processes == 1 else f"{rate.processes} processes"
    return f"{rate.processes} × {figure(rate.gib_each, 'GiB')}"


CRITERIA = (sharing,)
