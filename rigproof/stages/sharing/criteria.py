"""How fast is a GPU when several processes share it?"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.clocks import NONE, Spans
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import SHORTEST_LOAD_S
from rigproof.criteria.evidence.floors import SLOW
from rigproof.criteria.evidence.rates import rate_or_none
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, Rounds
from rigproof.criteria.evidence.slowed import slowed_by
from rigproof.criteria.evidence.windows import Window, work_by_slice
from rigproof.profiles.planning.planning import MIB_PER_GIB
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.measurements import Event, Round
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.sharing.stage import KIND, SharingSettings
from rigproof.stages.tables import StageTable

SHARING_SHARE = KIND.key(lambda own: own.sharing_share)
STABILITY_WORST_WINDOW_SHARE = LIMITS.key(lambda limits: limits.stability_worst_window_share)


@dataclass(frozen=True, slots=True)
class SharedRate:
    """The rate of several processes together, over the time in which all of them worked."""

    processes: int
    precision: str
    tflops: float
    window: Window
    gib_each: float | None  # operands; None if not recorded


def shared_rate(
    rounds: Iterable[Round], events: Iterable[Event], number: int, uncounted: Spans = NONE
) -> SharedRate:
    """The rate of `number` processes, from one device's rounds and events of the sharing stage.

    `uncounted`: when its host stood still. Verified rounds after the warm-up count. Raises NotMeasured if one
    of the processes has too few of them, or if they did not work at the same time.
    """
    by_process: dict[int, list[Round]] = defaultdict(list)
    for done in rounds:
        process = done.label("process")
        counts = done.label("processes") == number and done.phase == "measure" and done.verified
        if counts and isinstance(process, int):
            by_process[process].append(done)
    for process in range(number):
        count = len(by_process[process])
        if count < FEWEST_ROUNDS:
            raise NotMeasured(f"{count} verified rounds of process {process + 1} of {number} that shared it")
    window = Window(
        max(min(done.t_s - done.seconds for done in own) for own in by_process.values()),
        min(max(done.t_s for done in own) for own in by_process.values()),
    )
    edges_s = [window.from_s, *uncounted.clip(window.from_s, max(window[:2])).ravel().tolist(), window.to_s]
    pieces = [Window(*both) for both in zip(edges_s[::2], edges_s[1::2], strict=True) if both[1] > both[0]]
    length_s = sum(one.length_s for one in pieces)
    if length_s < SHORTEST_LOAD_S:
        raise NotMeasured(f"{number} processes worked together for {length_s:.1f} s")
    counted = Rounds.of_records([done for own in by_process.values() for done in own])
    tflops = sum(work_by_slice(counted.begins_s, counted.t_s, counted.rates, pieces)) / length_s
    return SharedRate(number, str(counted.labels("precision")[-1]), tflops, window, _gib_each(events, number))


def _gib_each(events: Iterable[Event], number: int) -> float | None:
    for event in events:
        allocated_mib = event.data.get("allocated_mib")
        of_stage = event.kind == "allocation" and event.stage == "sharing"
        if of_stage and event.data.get("workers") == number and isinstance(allocated_mib, int | float):
            return allocated_mib / number / MIB_PER_GIB
    return None


@Criterion(
    "scaling.sharing",
    title="shared by processes",
    unit="×",
    direction="at_least",
    limit="`stages.sharing.sharing_share`, for the worst number of processes; and for one process alone "
    "`limits.stability_worst_window_share` of the sustained rate of the same run. None for the CPU as "
    "the device, whose threads are divided among the processes and which others also use",
    limits=(SHARING_SHARE, STABILITY_WORST_WINDOW_SHARE),
    severity="config",
    remedy="give this card one worker (`workers = 1`), or let several run at once with NVIDIA MPS",
    unmeasured="one of the processes did too little, or did not work at the same time as the others; "
    "`stages.sharing.workers` does not begin with 1, or has no other number",
    idling="not measured",
    stages=("sharing",),
    rate=True,
    caused_by_others=slowed_by,
)
def sharing(device: DeviceEvidence) -> Finding:
    """Verified 16-bit products of several processes together on one device, relative to one process alone.

    Together they always fill the same memory. A GPU that one process keeps busy gets no faster by sharing: an
    H200 reached 0.92.
    """
    numbers = device.device.settings(SharingSettings).workers
    if len(numbers) < 2 or numbers[0] != 1:
        raise NotMeasured(f"stages.sharing.workers = {list(numbers)} allows no comparison with one process")
    rounds, events = device.possible("sharing").records(), device.events("allocation")
    if not rounds:
        raise NotMeasured("no round in the sharing stage", device.cause())
    alone, *others = (shared_rate(rounds, events, number, device.uncounted) for number in numbers)
    if not device.is_cpu:
        device.silicon.require_possible((rate.precision, rate.tflops) for rate in (alone, *others))
    ratios = {other: other.tflops / alone.tflops for other in others}
    slowest = min(ratios, key=lambda other: ratios[other])
    worst = ratios[slowest]
    detail = f"{_processes(alone)}: {figure(alone.tflops, 'TFLOP/s')}; "
    detail += ", ".join(f"{_processes(other)}: {ratio:.2f}×" for other, ratio in ratios.items())
    if device.is_cpu:
        why = "the CPU's threads are divided, and its rate depends on what else runs on it"
        return Finding(Outcome.NO_LIMIT, worst, detail=f"{detail}; {why}")
    slow = _slow_alone(device, alone)
    if slow is not None:
        return slow
    limit = device.limit(SHARING_SHARE)
    good = worst >= limit.value
    return pass_or_fail(worst, limit, good=good, detail=detail, over=(slowest.window[:2],))


def _slow_alone(device: DeviceEvidence, alone: SharedRate) -> Finding | None:
    """The failure of a card that was slow with any number of processes, which the ratios do not show."""
    sustained = rate_or_none(device)
    if sustained is None or sustained.precision != alone.precision:
        return None
    limit = device.limit(STABILITY_WORST_WINDOW_SHARE)
    share = alone.tflops / sustained.tflops if sustained.tflops > 0 else 1.0
    if share >= limit.value:
        return None
    detail = f"one process alone did {figure(alone.tflops, 'TFLOP/s')}"
    detail += f", and the sustained stage {figure(sustained.tflops, 'TFLOP/s')}"
    return pass_or_fail(
        share,
        Limit(limit.value, f"its own sustained rate in this run; {limit.source}"),
        good=False,
        detail=detail,
        remedy=SLOW,
        from_s=alone.window.from_s,
        over=(alone.window[:2],),
    )


def _processes(rate: SharedRate) -> str:
    """`2 × 64.5 GiB`; `2 processes` if their memory is unknown."""
    if rate.gib_each is None:
        return "1 process" if rate.processes == 1 else f"{rate.processes} processes"
    return f"{rate.processes} × {figure(rate.gib_each, 'GiB')}"


CRITERIA = (sharing,)


def tables(recording: Recording) -> Iterator[StageTable]:
    """The rate of each number of processes on each device, also relative to one process alone."""
    rounds: dict[str, list[Round]] = defaultdict(list)
    for done in recording.rounds:
        if done.stage == "sharing" and done.device is None and done.seconds > 0 and recording.is_last(done):
            rounds[done.subject].append(done)
    rows = [row for subject, own in rounds.items() for row in _rows(recording, subject, own)]
    yield StageTable(
        section="Sharing",
        title="16-bit products by one process, and by several that share the device",
        columns=("Device", "Processes", "Operands each", "Together", "Relative to one"),
        rows=tuple(rows),
        note="Measured while all processes of a row worked; each row fills the same memory.",
    )


def _rows(recording: Recording, subject: str, rounds: list[Round]) -> Iterator[tuple[str, ...]]:
    events = [event for event in recording.events if event.subject == subject]
    numbers = sorted({number for done in rounds if isinstance(number := done.label("processes"), int)})
    rates = {number: _rate(rounds, events, number) for number in numbers}
    alone = rates.get(1)
    for number, rate in rates.items():
        if rate is None:
            yield subject, str(number), "", "not measured", ""
            continue
        each = "" if rate.gib_each is None else figure(rate.gib_each, "GiB")
        share = "" if alone is None else f"{rate.tflops / alone.tflops:.2f} ×"
        yield subject, str(number), each, figure(rate.tflops, "TFLOP/s"), share


def _rate(rounds: list[Round], events: list[Event], number: int) -> SharedRate | None:
    try:
        return shared_rate(rounds, events, number)
    except NotMeasured:
        return None
