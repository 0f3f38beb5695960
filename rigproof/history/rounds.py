"""Hands rounds that a device timed to pytest-benchmark, as if it had timed them itself.

Each pytest-benchmark round is the device's seconds for one unit of work, such as 1 TFLOP. So its OPS column,
rounds over total seconds, is the rate in TFLOP/s.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, repeat
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.records.measurements import TFLOP, Round
from rigproof.records.recording import Recording
from rigproof.stages.registry import SLICES

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

WINDOW_S = 1.0  # over which the rates of workers that share a device are added


class ReplayClock:
    """A timer for `@pytest.mark.benchmark(timer=...)` that moves only when a round is replayed.

    Only for `benchmark.pedantic`: calibration would read it for ever.
    """

    def __init__(self) -> None:
        self._now_s = 0.0
        self._round_s = 0.0

    def __call__(self) -> float:
        """Seconds since the replayed round began."""
        return self._now_s

    def begin(self, seconds: float) -> None:
        """Start a round that is going to take `seconds`; from zero, so that no digit is lost."""
        self._now_s = 0.0
        self._round_s = seconds

    def end(self) -> None:
        """Let the round's time pass."""
        self._now_s = self._round_s

    def __str__(self) -> str:
        return "device timer"


def benchmark_marker(group: str | None = None) -> pytest.MarkDecorator:
    """A `benchmark` mark with a clock of its own; `clock_of` finds the clock again."""
    return pytest.mark.benchmark(timer=ReplayClock(), group=group)


def clock_of(item: pytest.Item) -> ReplayClock:
    """The clock that `benchmark_marker` gave this test. KeyError where it has none."""
    marker = item.get_closest_marker("benchmark")
    clock = marker.kwargs.get("timer") if marker is not None else None
    if not isinstance(clock, ReplayClock):
        raise KeyError(f"{item.nodeid} has no replay clock: mark it with benchmark_marker()")
    return clock


def replay(benchmark: "BenchmarkFixture", rounds: Sequence[Round], clock: ReplayClock) -> bool:
    """Give the rounds of one device to the test's `benchmark`; False where there is none to give.

    `clock` must be the timer of the test's `benchmark` mark. Disabled benchmarks (xdist,
    `--benchmark-disable`) keep nothing, and that is no error.
    """
    seconds = seconds_per_unit(rounds)
    if not seconds:
        benchmark.skipped = True  # else pytest-benchmark warns that its fixture was not used
        return False
    # The last one again for a profiler that wants one more call.
    upcoming = chain(seconds, repeat(seconds[-1]))
    benchmark.pedantic(
        clock.end,
        setup=lambda: clock.begin(next(upcoming)),
        rounds=len(seconds),
        iterations=1,
        warmup_rounds=0,
    )
    return True


def seconds_per_unit(rounds: Sequence[Round]) -> list[float]:
    """Device seconds for one unit of work: of each round, or, where workers share the device, of each second.

    Rounds without a positive time and work are left out: they are no measurements. Workers' rates are
    added only over windows in which every one of them finished a round.
    """
    timed = [one for one in rounds if one.seconds > 0 and one.work > 0]
    workers = {one.worker for one in timed}
    if len(workers) < 2:
        return [one.seconds / one.work for one in timed]
    windows: dict[int, dict[str, list[Round]]] = defaultdict(lambda: defaultdict(list))
    for one in timed:
        windows[int(one.t_s // WINDOW_S)][one.worker].append(one)
    shared = [by_worker for _, by_worker in sorted(windows.items()) if by_worker.keys() == workers]
    return [1 / sum(map(_rate, by_worker.values())) for by_worker in shared]


def _rate(rounds: Sequence[Round]) -> float:
    return sum(one.work for one in rounds) / sum(one.seconds for one in rounds)


def measured_rounds(recording: Recording, criterion: str, subject: str) -> list[Round]:
    """The rounds behind a rate: those that its stage measured, of one precision where its figure is of one.

    Of a stage that was measured once more, those of the second time.
    """
    judged = CATALOGUE[criterion]
    stage = SLICES[judged.stages[0]]
    if stage.measured is not None:
        return stage.measured(recording, subject)
    kind = judged.figure
    precision = kind.precision if kind is not None and kind.products else None
    return [
        one
        for one in recording.rounds.of(subject)
        if one.stage == stage.name
        and one.phase == "measure"
        and precision in (None, one.label("precision"))
        and recording.is_last(one)
    ]


def extra_info(recording: Recording, criterion: str, subject: str, rounds: Sequence[Round]) -> dict[str, Any]:
    """What a stored benchmark says beside its times: whose they are and how the device was meanwhile.

    Clocks, temperatures and power are means over the samples between the first and the last round; None
    where the device reports none.
    """
    gpu = recording.gpus.get(subject)
    node = recording.nodes.get(subject.partition("/")[0])
    worker = next((one for one in recording.workers if one.subject == subject), None)
    begin_s = min((one.t_s - one.seconds for one in rounds), default=0.0)
    end_s = max((one.t_s for one in rounds), default=0.0)
    samples = [one for one in recording.gpu_samples.of(subject) if begin_s <= one.t_s <= end_s]

    def mean(field: str) -> float | None:
        values = [value for one in samples if (value := getattr(one, field)) is not None]
        return round(fmean(values), 2) if values else None

    return {
        "criterion": criterion,
        "subject": subject,
        "run_id": recording.run.run_id,
        "level": recording.run.level,
        "simulated": recording.run.simulated,
        "unit": f"s/{next((one.unit for one in rounds), TFLOP)}",
        "precisions": sorted({str(one.label("precision")) for one in rounds}),
        "sizes": sorted({size for one in rounds if isinstance(size := one.label("size"), int)}),
        "gpu_uuid": gpu.uuid if gpu else None,
        "gpu_name": gpu.name if gpu else None,
        "power_limit_w": gpu.power_limit_w if gpu else None,
        "driver": node.driver_version if node else None,
        "torch": worker.torch_version if worker else None,
        "cuda": worker.cuda_version if worker else None,
        "sm_clock_mean_mhz": mean("sm_clock_mhz"),
        "memory_clock_mean_mhz": mean("memory_clock_mhz"),
        "core_temperature_mean_c": mean("core_temperature_c"),
        "memory_temperature_mean_c": mean("memory_temperature_c"),
        "power_mean_w": mean("power_w"),
    }
