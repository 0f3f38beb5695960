"""Passes rounds that a device timed to pytest-benchmark, as if it had timed them itself.

Each pytest-benchmark round is the device's seconds for one unit of work, such as 1 TFLOP or 1 GB. So its OPS
column, rounds over total seconds, is the rate in TFLOP/s or GB/s.
"""

import copy
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.profiles.kinds.figures import FigureKind
from rigproof.records.grouping import grouped
from rigproof.records.measurements import Round
from rigproof.records.recording import Recording
from rigproof.stages.registry import KINDS

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture


class ReplayClock:
    """A timer for `@pytest.mark.benchmark(timer=...)` that only advances when a round is replayed.

    Only for `benchmark.pedantic`: calibration would never end.
    """

    _now_s = 0.0

    def __call__(self) -> float:
        """Seconds since the replayed round began."""
        return self._now_s

    def set(self, now_s: float) -> None:
        """Begin a round at zero, so that no digit is lost, or end it."""
        self._now_s = now_s

    def __str__(self) -> str:
        return "device timer"


def benchmark_marker(group: str | None = None) -> pytest.MarkDecorator:
    """A `benchmark` mark with its own clock, which `clock_of` returns."""
    return pytest.mark.benchmark(timer=ReplayClock(), group=group)


def clock_of(item: pytest.Item) -> ReplayClock:
    """The clock that `benchmark_marker` gave this test; KeyError if there is none."""
    marker = item.get_closest_marker("benchmark")
    clock = marker.kwargs.get("timer") if marker is not None else None
    if not isinstance(clock, ReplayClock):
        raise KeyError(f"{item.nodeid} has no replay clock: mark it with benchmark_marker()")
    return clock


def replay(
    benchmark: "BenchmarkFixture",
    rounds: Sequence[Round],
    clock: ReplayClock,
    extra_info: Mapping[str, Any],
    part: str = "",
) -> bool:
    """Store the rounds of one device through the test's `benchmark`. Returns False if there are none.

    `clock` must be the timer of the test's `benchmark` mark. A test can store several benchmarks; `part` is
    added to the test's name then. Disabled benchmarks (xdist, `--benchmark-disable`) store nothing, which is
    not an error.
    """
    benchmark.skipped = True  # else pytest-benchmark warns that its fixture was not used: copies of it are
    seconds = seconds_per_unit(rounds)
    if not seconds:
        return False
    own = copy.copy(benchmark)  # one can be used once
    own.name, own.fullname = (f"{name} {part}".rstrip() for name in (benchmark.name, benchmark.fullname))
    own.extra_info = dict(extra_info)
    # The last one is repeated for a profiler, which makes one more call.
    upcoming = chain(seconds, repeat(seconds[-1]))
    once = {"rounds": len(seconds), "iterations": 1, "warmup_rounds": 0}
    own.pedantic(lambda: clock.set(next(upcoming)), setup=lambda: clock.set(0.0), **once)
    return True


def seconds_per_unit(rounds: Sequence[Round]) -> list[float]:
    """Device seconds for one unit of work: for each round, or for each second if workers share the device.

    Rounds without a positive time and work are not measurements and are left out. The workers' rates are
    added only over seconds in which each of them finished a round.
    """
    timed = [one for one in rounds if one.seconds > 0 and one.work > 0]
    workers = {one.worker for one in timed}
    if len(workers) < 2:
        return [one.seconds / one.work for one in timed]
    windows = grouped(sorted(timed, key=lambda one: int(one.t_s)), lambda one: int(one.t_s)).values()
    shared = [grouped(window, lambda one: one.worker) for window in windows]
    return [1 / sum(map(_rate, own.values())) for own in shared if own.keys() == workers]


def _rate(rounds: Sequence[Round]) -> float:
    return sum(one.work for one in rounds) / sum(one.seconds for one in rounds)


def figure_rounds(recording: Recording, figure: FigureKind, subject: str) -> list[Round]:
    """The rounds behind a figure: those that its stage measured with the figure's labels.

    If the stage was attempted twice, those of the last attempt.
    """
    stage = KINDS.of_figure(figure)
    if stage.measured is not None:
        return stage.measured(recording, subject)
    every = (
        one for one in recording.rounds.of(subject) if one.stage == stage.name and one.phase == "measure"
    )
    labels = figure.labels.items()
    own = (one for one in every if all(one.label(name) == value for name, value in labels))
    return [one for one in own if recording.is_last(one)]


def figure_title(criterion: str, figure: FigureKind) -> str:
    """The criterion's name, and which of its figures it is if it has several: `memory.bandwidth copy`."""
    several = len(CATALOGUE[criterion].figures) > 1
    return " ".join([criterion, *map(str, figure.labels.values())]) if several else criterion


def extra_info(
    recording: Recording, criterion: str, figure: FigureKind, subject: str, rounds: Sequence[Round]
) -> dict[str, Any]:
    """Facts stored with a benchmark beside its times: the device, the work, and the device's state.

    `unit` is that of OPS. `labels` has the values of the rounds' labels, by name.
    """
    labels = {label for one in rounds for label in one.labels.items()}
    values = grouped(sorted(labels, key=lambda label: (label[0], str(label[1]))), lambda label: label[0])
    return {
        "criterion": criterion,
        "title": figure_title(criterion, figure),
        "labels": {name: [value for _, value in every] for name, every in values.items()},
        **conditions(recording, figure, subject),
        **means_of(recording, subject, rounds),
    }


def conditions(recording: Recording, figure: FigureKind, subject: str) -> dict[str, Any]:
    """What a figure of a device is measured under, as far as it is known before it is."""
    gpu = recording.gpus.get(subject)
    node = recording.nodes.get(subject.partition("/")[0])
    workers = [one for one in recording.workers if one.subject == subject]
    worker = workers[0] if workers else None
    stage, plan = KINDS.of_figure(figure).name, {} if recording.plan is None else recording.plan.plan
    return {
        "figure": figure.name,
        "subject": subject,
        "run_id": recording.run.run_id,
        "level": recording.run.level,
        "tags": list(recording.run.tags),
        "simulated": recording.run.simulated,
        "unit": figure.unit,
        "length_s": next((one["expected_s"] for one in plan.get("stages", ()) if one["name"] == stage), None),
        "workers": len({one.worker for one in workers}),
        "gpu_uuid": gpu.uuid if gpu else None,
        "gpu_name": gpu.name if gpu else None,
        "power_limit_w": gpu.power_limit_w if gpu else None,
        "driver": node.driver_version if node else None,
        "torch": worker.torch_version if worker else None,
        "cuda": worker.cuda_version if worker else None,
    }


def means_of(recording: Recording, subject: str, rounds: Sequence[Round]) -> dict[str, float | None]:
    """Mean clocks, temperatures and power over the samples between the first and the last round.

    None for a sensor that the device does not have.
    """
    begin_s = min((one.t_s - one.seconds for one in rounds), default=0.0)
    end_s = max((one.t_s for one in rounds), default=0.0)
    samples = recording.gpu_samples
    times_s = samples.numbers(subject, "t_s")
    within = (begin_s <= times_s) & (times_s <= end_s)

    def mean(field: str) -> float | None:
        values = samples.numbers(subject, field)[within]
        known = values[~np.isnan(values)].tolist()
        return round(fmean(known), 2) if known else None

    return {
        "sm_clock_mean_mhz": mean("sm_clock_mhz"),
        "memory_clock_mean_mhz": mean("memory_clock_mhz"),
        "core_temperature_mean_c": mean("core_temperature_c"),
        "memory_temperature_mean_c": mean("memory_temperature_c"),
        "power_mean_w": mean("power_w"),
    }
