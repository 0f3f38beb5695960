"""Informs the simulated clock of the stages that begin."""

from collections.abc import Callable

from rigproof.profiles.planning.plan import Plan
from rigproof.records.measurements import Stage
from rigproof.records.recording import Record, Sample
from rigproof.simulation.faults.injected import SimulatedClock

Sink = Callable[[Record | Sample], None]


def heard_by(clock: SimulatedClock, plan: Plan, sink: Sink) -> Sink:
    """A sink that also informs the clock of each stage that begins."""

    def pass_on(record: Record | Sample) -> None:
        if isinstance(record, Stage) and record.end_s is None:
            length_s = plan.stage(record.name).expected_s
            clock.stage_begins(record.name, record.start_s, length_s, record.lap)
        sink(record)

    return pass_on
