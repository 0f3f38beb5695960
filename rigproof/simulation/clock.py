"""Simulated time: it only advances when told to."""

from rigproof.simulation.faults.injected import StageWindow


class SimulatedClock:
    """Run time, s, and the stages begun so far."""

    def __init__(self) -> None:
        self._t_s = 0.0
        self.stages: tuple[StageWindow, ...] = ()

    def now_s(self) -> float:
        """Run time."""
        return self._t_s

    def advance(self, seconds: float) -> None:
        """Let time pass; negative values count as 0."""
        self._t_s += max(0.0, seconds)

    def stage_begins(self, name: str, start_s: float, length_s: float, lap: int = 1) -> None:
        """Record a stage, again for each further attempt and lap; faults count from its first beginning."""
        if all((stage.name, stage.start_s) != (name, start_s) for stage in self.stages):
            self.stages += (StageWindow(name, start_s, length_s, lap),)
