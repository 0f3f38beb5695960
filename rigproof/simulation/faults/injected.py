"""One injected fault, when it acts, and the simulated time by which it does."""

from collections.abc import Sequence
from dataclasses import dataclass

WHOLE_RUN_S = float("inf")


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time: seconds, or with `share` a fraction of the stage (0 to 1)."""

    value: float
    share: bool = False

    def seconds(self, stage_s: float) -> float:
        """Its seconds in a stage of that length."""
        return self.value * stage_s if self.share else self.value

    def __str__(self) -> str:
        return f"{self.value * 100:g}%" if self.share else f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class StageWindow:
    """A stage that was begun: run time of its beginning, s, its planned length, s, and its lap."""

    name: str
    start_s: float
    length_s: float
    lap: int = 1


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A fault of the catalogue on one subject, with all its values.

    `after` counts from the beginning of `stage`; None: it acts from the start of the run. `length` None:
    until the end. `within`: it only acts in that stage. `lap`: the one in which it begins, of a run that goes
    round its stages several times; None: it is there from the start. `by` is a fraction (0.1 is 10 %), `to` a
    value in the unit of what it changes, `late_s` a delay.
    """

    name: str
    subject: str
    stage: str
    after: Span | None = None
    length: Span | None = None
    by: float | None = None
    to: float | None = None
    code: int | None = None
    field: str | None = None
    within: bool = False
    late_s: float | None = None
    lap: int | None = None

    def window(self, stages: Sequence[StageWindow]) -> tuple[float, float] | None:
        """When it acts (from, to; run time, s); None if its stage has not begun."""
        if self.after is None and self.length is None and not self.within and self.lap in (None, 1):
            return (0.0, WHOLE_RUN_S)
        for number, stage in enumerate(stages):
            if stage.name == self.stage and stage.lap == (self.lap or 1):
                after = self.after or Span(0.0)
                from_s = stage.start_s + after.seconds(stage.length_s)
                to_s = WHOLE_RUN_S if self.length is None else from_s + self.length.seconds(stage.length_s)
                if self.within:
                    next_s = stages[number + 1].start_s if number + 1 < len(stages) else WHOLE_RUN_S
                    to_s = min(to_s, stage.start_s + stage.length_s, next_s)
                return (from_s, to_s)
        return None

    def hits_task(self, stages: Sequence[StageWindow]) -> bool:
        """Whether it hits the tasks of its kind in the latest stage: in its own lap, in every attempt."""
        return self.lap is None or not stages or stages[-1].lap == self.lap

    def acts(self, t_s: float, stages: Sequence[StageWindow], since_s: float | None = None) -> bool:
        """Whether it acts at this moment of the run, or at any since `since_s`."""
        window = self.window(stages)
        return window is not None and window[0] <= t_s and (t_s if since_s is None else since_s) < window[1]

    def begun(self, t_s: float, stages: Sequence[StageWindow]) -> bool:
        """Whether it has begun by then. Effects that persist, such as counters, go by this."""
        window = self.window(stages)
        return window is not None and window[0] <= t_s

    def __str__(self) -> str:
        keys = {
            "stage": self.stage if self.within else None,
            "lap": None if self.lap == 1 else self.lap,
            "after": self.after,
            "for": self.length,
            "by": self._by(),
            "to": None if self.to is None else f"{self.to:g}",
            "code": self.code,
            "field": self.field,
        }
        given = ",".join(f"{key}={value}" for key, value in keys.items() if value is not None)
        return f"{self.name}@{self.subject}" + (f":{given}" if given else "")

    def _by(self) -> str | None:
        if self.late_s is not None:
            return f"{self.late_s:g}s"
        return None if self.by is None else f"{self.by * 100:g}%"


class SimulatedClock:
    """Run time, s, and the stages begun so far."""

    def __init__(self) -> None:
        self._t_s = 0.0
        self.stages: tuple[StageWindow, ...] = ()

    def now_s(self) -> float:
        """The run time now, s."""
        return self._t_s

    def advance(self, seconds: float) -> None:
        """Let time pass; negative values count as 0."""
        self._t_s += max(0.0, seconds)

    def stage_begins(self, name: str, start_s: float, length_s: float, lap: int = 1) -> None:
        """Record a stage, again for each further attempt and lap; faults count from its first beginning."""
        if all((stage.name, stage.start_s) != (name, start_s) for stage in self.stages):
            self.stages += (StageWindow(name, start_s, length_s, lap),)
