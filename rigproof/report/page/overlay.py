"""A second run, drawn over the charts of the first."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rigproof.records.recording import Recording
from rigproof.report.page.plots import PlotLine


@dataclass(frozen=True, slots=True)
class Overlay:
    """`shift_s`: what is added to its times, so that the first stage of both begins at the same place."""

    recording: Recording
    shift_s: float

    def lines(self, lines: Iterable[PlotLine], subjects: Iterable[str]) -> list[PlotLine]:
        """Its lines of these subjects as the charts of the first run show them: shifted and dotted."""
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
    """The other run on the first one's time; by the runs' own time if they have no stage in common."""
    begun = {stage.name: stage.start_s for stage in reversed(recording.attempts)}
    common = (begun[stage.name] - stage.start_s for stage in other.attempts if stage.name in begun)
    return Overlay(other, next(common, 0.0))
