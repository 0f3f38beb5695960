"""A second run, drawn over the charts of the first."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rigproof.records.recording import Recording
from rigproof.report.page.plots import PlotLine


@dataclass(frozen=True, slots=True)
class Overlay:
    """A second run; `shift_s` added to its times makes the first stage of both begin at the same place."""

    recording: Recording
    shift_s: float

    def lines(self, lines: Iterable[PlotLine], subjects: Iterable[str]) -> list[PlotLine]:
        """The second run's lines of these subjects, shifted and dotted."""
        shown = set(subjects)
        return [
            replace(
                line,
                name=f"{line.name}, other run",
                times_s=[t_s + self.shift_s for t_s in line.times_s],
                dotted=True,
            )
            for line in lines
            if line.subject in shown
        ]


def overlay_of(recording: Recording, other: Recording) -> Overlay:
    """The other run on the first one's time; by each run's own time if they share no stage."""
    begun = {stage.name: stage.start_s for stage in reversed(recording.attempts)}
    common = (begun[stage.name] - stage.start_s for stage in other.attempts if stage.name in begun)
    return Overlay(other, next(common, 0.0))
