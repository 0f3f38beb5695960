"""From a rig's history to what each card of a run did before, under the same conditions."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from rigproof.criteria.steps import LOOKED_AT
from rigproof.history.reading import CONDITIONS, Kept, StoredRate, figure_key, read_history
from rigproof.history.rejections import RUNS_MOST
from rigproof.history.rounds import conditions
from rigproof.history.verdicts import verdicts
from rigproof.records.champions import same_power
from rigproof.records.earlier import Earlier, EarlierRate, EarlierRates, earlier_event
from rigproof.records.grouping import grouped
from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.records.verdict import Decision, count_of
from rigproof.stages.registry import KINDS

# Besides the power limit, which may differ by a little.
ALIKE: Mapping[str, Callable[[StoredRate], str | None]] = {
    **{name: CONDITIONS[name] for name in ("driver", "torch", "CUDA", "level")},
    "stage length": lambda one: None if one.kept.length_s is None else f"{one.kept.length_s:g} s",
    "workers": lambda one: None if one.kept.workers is None else f"{one.kept.workers}",
}


def earlier_events(folder: Path, report_dir: Path, recording: Recording, t_s: float) -> Iterator[Event]:
    """For each card found, what the runs of a history measured of it; none if there were no runs.

    Runs count that ended ACCEPTED, as far as the history or their verdict says, each once; never this run.
    """
    history = read_history(folder)
    heads = islice(verdicts(report_dir), RUNS_MOST)
    bad = {None, recording.run.run_id}
    bad |= {run.name for run, head in heads if head is not None and head.get("verdict") != Decision.ACCEPTED}
    good = [one for one in history.rates if one.kept.accepted and one.kept.run_id not in bad]
    good.sort(key=lambda one: one.measured_at)
    found = {(one.kept.run_id, one.kept.gpu_uuid, figure_key(one)): one for one in good}
    for gpu in recording.gpus.values():
        own = [one for one in found.values() if one.kept.gpu_uuid == gpu.uuid]
        if own or history.problems:
            figures = tuple(_figures(own, gpu, recording))
            yield earlier_event(gpu.subject, Earlier(figures, history.problems), t_s)


def _figures(own: Sequence[StoredRate], gpu: GpuIdentity, recording: Recording) -> Iterator[EarlierRates]:
    for (figure, _), every in grouped(own, lambda one: (one.kept.figure, figure_key(one))).items():
        if figure is None or figure not in KINDS.figures:
            continue
        here = {"title": figure, "rate": 1.0, **conditions(recording, KINDS.figures[figure], gpu.subject)}
        now = StoredRate("", "", "", Kept.model_validate(here))
        unlike = [_unlike(one, now) for one in every]
        alike = [one.kept for one, text in zip(every, unlike, strict=True) if not text][-LOOKED_AT:]
        runs = tuple(
            EarlierRate(one.run_id or "", one.rate, one.sm_clock_mean_mhz, one.core_temperature_mean_c)
            for one in alike
        )
        others = Counter(filter(None, unlike)).most_common(1)
        told = "".join(f"{count_of(number, 'others')} had {text}" for text, number in others)
        yield EarlierRates(figure, every[-1].kept.unit, every[-1].kept.labels, runs, told)


def _unlike(one: StoredRate, now: StoredRate) -> str:
    """The first condition that differs, as `driver 570.124.06`; empty if none does."""
    if not same_power(one.kept.power_limit_w, now.kept.power_limit_w):
        return f"power limit {CONDITIONS['power limit'](one) or 'unknown'}"
    values = ((name, read(one), read(now)) for name, read in ALIKE.items())
    return next((f"{name} {before or 'unknown'}" for name, before, here in values if before != here), "")
