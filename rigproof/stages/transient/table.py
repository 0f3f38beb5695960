"""The transient stage as a table: what the cards of each host drew and did, wave by wave."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rigproof.criteria.evidence.readings import Readings
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.series import Series
from rigproof.criteria.evidence.windows import Window
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.stages.tables import StageTable
from rigproof.stages.transient.draws import together
from rigproof.stages.transient.settings import STAGE

NONE = "–"
COLUMNS = (
    "Node",
    "GPUs",
    "Hz",
    "Waves",
    "High, W",
    "Low, W",
    "Mean, W",
    "1 s average, W",
    "Peak of a card, W",
    "Of its limit, %",
    "J/TFLOP",
    "TFLOP/s",
    "Begin apart, ms",
)
NOTE = (
    "High and low: sums over these GPUs at a moment, as sampled; what is between two samples is not seen. "
    "Mean: by their energy counters. Peak: the highest instant reading of one card, also as a share of its "
    "enforced limit. J/TFLOP: energy over verified work, pauses included. TFLOP/s: of all together while a "
    "burst lasts. Begin apart: the most between two GPUs in a wave."
)


def transient_tables(recording: Recording) -> Iterator[StageTable]:
    """One row for each node, number of GPUs and frequency."""
    done = _bursts(recording)
    rows = []
    for node in dict.fromkeys(subject.partition("/")[0] for subject in done):
        own = {subject: rounds for subject, rounds in done.items() if subject.startswith(f"{node}/")}
        labels = {
            (gpus, hz)
            for rounds in own.values()
            for gpus, hz in zip(rounds.labels("gpus"), rounds.labels("hz"), strict=True)
            if isinstance(gpus, int) and isinstance(hz, int) and hz > 0
        }
        rows += [_row(recording, node, own, gpus, hz) for gpus, hz in sorted(labels)]
    if rows:
        yield StageTable(
            section="Power",
            title="Load switched on and off",
            columns=COLUMNS,
            rows=tuple(rows),
            note=NOTE,
        )


def _bursts(recording: Recording) -> dict[str, Rounds]:
    """The verified bursts of the last attempt at the stage, by device."""
    begun = recording.stages.get(STAGE)
    found = {}
    for subject in recording.rounds.subjects():
        rounds = Rounds.of_subject(recording.rounds, subject)
        rounds = rounds.only(rounds.same("stage", STAGE)).verified
        if begun is not None:
            rounds = rounds.only(rounds.t_s >= begun.start_s)
        if len(rounds):
            found[subject] = rounds
    return found


def _row(recording: Recording, node: str, done: Mapping[str, Rounds], gpus: int, hz: int) -> tuple[str, ...]:
    own = {
        subject: part
        for subject, rounds in done.items()
        if len(part := rounds.only(rounds.labelled("gpus", gpus) & rounds.labelled("hz", hz)))
    }
    begin_s = min(float(rounds.begins_s.min()) for rounds in own.values())
    window = Window(begin_s, max(float(rounds.begins_s.max()) for rounds in own.values()) + 1 / hz)
    rate_hz = float(recording.run.rig.get("sampling", {}).get("rate_hz", 10.0))
    instant = [_read(recording, subject, "power_w", window) for subject in own]
    average = [_read(recording, subject, "power_average_w", window) for subject in own]
    energy = [_read(recording, subject, "energy_j", window) for subject in own]
    sums, means = (together(read, window, 1 / rate_hz) for read in (instant, average))
    peak_w, share = _peak(recording, dict(zip(own, instant, strict=True)))
    mean_w = sum(map(_mean_w, energy))
    tflop = sum(float(rounds.work.sum()) for rounds in own.values())
    rate = sum((rounds.measured if len(rounds.measured) else rounds).rate() for rounds in own.values())
    return (
        node,
        str(gpus),
        str(hz),
        str(max(map(len, own.values()))),
        figure(float(sums.max())) if len(sums) else NONE,
        figure(float(sums.min())) if len(sums) else NONE,
        _shown(mean_w),
        figure(float(means.mean())) if len(means) else NONE,
        _shown(peak_w),
        _shown(100 * share),
        _shown(mean_w * window.length_s / tflop),
        figure(rate),
        _shown(1000 * _apart_s(list(own.values()), begin_s, hz)) if len(own) > 1 else NONE,
    )


def _read(recording: Recording, subject: str, field: str, window: Window) -> Readings:
    return Series.of(recording.gpu_samples, subject).within(window).recorded(field)


def _mean_w(energy: Readings) -> float:
    """By a card's energy counter; NaN if it was not read twice."""
    if len(energy) < 2 or energy.times_s[-1] <= energy.times_s[0]:
        return float("nan")
    return float((energy.values[-1] - energy.values[0]) / (energy.times_s[-1] - energy.times_s[0]))


def _peak(recording: Recording, instant: Mapping[str, Readings]) -> tuple[float, float]:
    """The highest reading of one card, W, and as a share of its enforced limit; NaN if not known."""
    read = {subject: one.highest for subject, one in instant.items() if len(one)}
    if not read:
        return float("nan"), float("nan")
    subject = max(read, key=lambda one: read[one])
    gpu = recording.gpus.get(subject)
    limit_w = gpu.power_limit_w if gpu is not None else None
    return read[subject], read[subject] / limit_w if limit_w else float("nan")


def _apart_s(own: Sequence[Rounds], begin_s: float, hz: int) -> float:
    """The most by which two GPUs began the same wave apart, s; NaN if no wave has several bursts."""
    begins_s = np.concatenate([rounds.begins_s for rounds in own])
    waves = np.rint((begins_s - begin_s) * hz).astype(np.intp)
    order = np.lexsort((begins_s, waves))
    waves, begins_s = waves[order], begins_s[order]
    first = np.flatnonzero(np.append(True, waves[1:] != waves[:-1]))
    apart_s = np.maximum.reduceat(begins_s, first) - np.minimum.reduceat(begins_s, first)
    shared = np.diff(np.append(first, len(waves))) > 1
    return float(apart_s[shared].max()) if shared.any() else float("nan")


def _shown(value: float) -> str:
    return figure(value) if np.isfinite(value) else NONE
