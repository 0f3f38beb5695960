"""A pytest plugin that puts a canned rig in the place of Ray, agents and workers: `-p support.canned_rig`.

`--canned SCENARIO` picks what the rig does. Its records are those of the healthy recording, perhaps with one
thing broken, and reach the sink in the order in which a real rig's do.
"""

import importlib.util
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import pytest

from rigproof.cluster.actors.remembering import Remembering
from rigproof.cluster.ray.preconditions import ClusterStartFailed
from rigproof.plugin import run
from rigproof.profiles.loading import load as loading
from rigproof.profiles.loading.load import all_skus
from rigproof.profiles.loading.matching import sku_of
from rigproof.records.measurements import Event, Stage
from rigproof.records.samples import PcieErrors
from rigproof.stages.feeding.stage import RewardBatch
from rigproof.stages.registry import KINDS
from support.bench import Bench
from support.fault_changes import stranger_computes
from support.rig_profile import RIG


def _nothing(_bench: Bench) -> None:
    """All is well."""


def _slow(bench: Bench) -> None:
    """One card at a third of its rate, in the stage that measures each precision."""
    bench.slow("pc1/gpu0", 1 / 3, stage="gemm")


def _without_sensor(bench: Bench) -> None:
    """One card does not report its core temperature."""
    bench.samples("pc2/gpu0", core_temperature_c=None)


def _interrupt() -> None:
    raise KeyboardInterrupt


def _break() -> None:
    raise RuntimeError("the driver fell off the bus")


def _terminate() -> None:
    signal.raise_signal(signal.SIGTERM)


def _terminate_again(_sink: Callable[[Any], None]) -> None:
    signal.raise_signal(signal.SIGTERM)


def _leave_a_process(sink: Callable[[Any], None]) -> None:
    sink(Event(73.0, "timeout", "rig", "processes [4242] did not end", data={"limit_s": 10}))


def _fail_to_start() -> None:
    raise ClusterStartFailed("Ray did not start within 60 s; look at /tmp/ray/session_latest/logs")


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is broken in the recording, and what happens before the session, on entering or half through
    the sustained stage, or while the rig is taken down.
    """

    change: Callable[[Bench], None] = _nothing
    on_entering: Callable[[], None] | None = None
    on_configure: Callable[[], None] | None = None
    in_sustained: Callable[[], None] | None = None
    on_closing: Callable[[Callable[[Any], None]], None] | None = None
    remembers: bool = False  # pc1 is this very host, with its state folder


SCENARIOS = {
    "healthy": Scenario(),
    "slow": Scenario(_slow),
    "without-sensor": Scenario(_without_sensor),
    "stranger": Scenario(stranger_computes),
    "ctrl-c": Scenario(in_sustained=_interrupt),
    "sigterm": Scenario(in_sustained=_terminate),
    "sigterm-early": Scenario(on_configure=_terminate),
    "sigterm-twice": Scenario(in_sustained=_terminate, on_closing=_terminate_again),
    "this-host": Scenario(remembers=True),
    "process-left": Scenario(on_closing=_leave_a_process),
    "broken": Scenario(in_sustained=_break),
    "not-started": Scenario(on_entering=_fail_to_start),
    "broken-on-entering": Scenario(on_entering=_break),
}


class CannedRig:
    """Stands where RigCluster stands, with the part of its interface that an acceptance run uses."""

    def __init__(
        self,
        scenario: Scenario,
        *_: object,
        sink: Callable[[Any], None],
        run_id: str,
        **__: object,
    ) -> None:
        bench = Bench()
        scenario.change(bench)
        self._memory = Remembering("pc1", run_id, lambda: 1.0, dict) if scenario.remembers else None
        if self._memory is not None:
            bench.drop("boots", "pc1")
        self._scenario = scenario
        self._recording = bench.recording
        self._sink = sink
        read = (bench.recording.gpu_samples, bench.recording.host_samples, bench.recording.of(PcieErrors))
        self._samples = iter(sorted((one for kind in read for one in kind), key=lambda one: one.t_s))
        self._next = next(self._samples, None)
        self._open = False

    def __enter__(self) -> Self:
        if self._scenario.on_entering:
            self._scenario.on_entering()
        self._open = True
        find_sku = sku_of(all_skus(KINDS))
        for record in (
            *(self._memory.begin() if self._memory is not None else ()),
            *self._recording.nodes.values(),
            *(replace(gpu, sku=find_sku(gpu)) for gpu in self._recording.gpus.values()),
            *self._recording.foreign_memory.values(),
            *self._recording.processes,
            *self._recording.process_watches.values(),
        ):
            self._sink(record)
        self.read_counters("before")
        for worker in self._recording.workers:
            self._sink(worker)
        return self

    def close(self) -> None:
        self._open = False
        if self._memory is not None:
            self._memory.end()
        if self._scenario.on_closing:
            self._scenario.on_closing(self._sink)

    def run_stage(
        self,
        stage: Any,
        specs: Any,
        turns: Any,
        *,
        lap: int,
        further: Any,
        host_load: Any,
        ahead: Any,
        on_tick: Callable[[], None],
    ) -> Stage:
        """Everything that the recording has up to the stage's end, all at once."""
        assert self._open, "a stage runs while the rig is up"
        assert specs, "a stage without work"
        assert {name for turn in turns for crew in turn for name in crew.workers} == set(specs)
        whole = replace(self._recording.stages[stage.name], lap=lap)
        assert whole.end_s is not None
        happens = self._scenario.in_sustained if stage.name == "sustained" else None
        end_s = (whole.start_s + whole.end_s) / 2 if happens else whole.end_s
        self._sink(replace(whole, end_s=None, status="running", loaded_from_s=None, loaded_to_s=None))
        ended = replace(whole, end_s=end_s, status="interrupted", loaded_to_s=None)
        try:
            for record in self._until(stage.name, end_s):
                self._sink(record)
            on_tick()
            if happens:
                happens()
            ended = whole
        finally:
            self._sink(ended)
        return ended

    def read_counters(self, moment: str) -> None:
        """The counters of that moment; after the load what agents read since, too."""
        assert self._open, "counters are read while the rig is up"
        for reading in (*self._recording.counters, *self._recording.boots):
            if reading.moment == moment:
                self._sink(reading)
        if moment == "after" and self._memory is not None:
            self._sink(self._memory.boot("after"))
        while moment == "after" and self._next is not None:
            self._sink(self._next)
            self._next = next(self._samples, None)

    def _until(self, stage: str, end_s: float) -> Iterator[Any]:
        recording = self._recording
        for one in (*recording.rounds, *recording.memory, *recording.of(RewardBatch), *recording.events):
            if one.stage == stage and one.t_s <= end_s:
                yield one
        while self._next is not None and self._next.t_s <= end_s:
            yield self._next
            self._next = next(self._samples, None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The scenario; and `--numprocesses`, where pytest-xdist is not there to declare it."""
    parser.addoption("--canned", default="healthy", choices=SCENARIOS)
    if importlib.util.find_spec("xdist") is None:
        parser.addoption("--numprocesses", type=int)


def pytest_configure(config: pytest.Config) -> None:
    """From here on an acceptance run gets the canned rig, and a level is as long as the canned run was."""
    scenario = SCENARIOS[config.getoption("--canned")]
    if scenario.on_configure is not None:
        scenario.on_configure()

    def rig(*promised: object, **settings: Any) -> CannedRig:
        return CannedRig(scenario, *promised, **settings)

    run.RigCluster = rig  # type: ignore[misc, assignment]
    own = RIG | {"nodes": []}
    loading.default_layers = lambda **_: [("own", own)]  # type: ignore[attr-defined]
