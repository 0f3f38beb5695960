"""Simulated time: it moves on only where somebody lets it."""

from rigproof.simulation.faults.injected import StageWindow


class SimulatedClock:
    """Run time, s, and the stages that were begun by then."""

    def __init__(self) -> None:
        self._t_s = 0.0
        self.stages: tuple[StageWindow, ...] = ()

    def now_s(self) -> float:
        """Run time."""
        return self._t_s

    def advance(self, seconds: float) -> None:
        """Let time pass; less than nothing is nothing."""
        self._t_s += max(0.0, seconds)

    def stage_begins(self, name: str, start_s: float, length_s: float) -> None:
        """Remember a stage, as often as it is begun; faults count from its first begin."""
        if all((stage.name, stage.start_s) != (name, start_s) for stage in self.stages):
            self.stages += (StageWindow(name, start_s, length_s),)
