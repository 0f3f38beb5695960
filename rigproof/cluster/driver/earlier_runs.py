"""Keeps one event for each earlier run that never ended, however many agents of its host report it."""

from collections.abc import Callable

from rigproof.records.measurements import Event
from rigproof.records.recording import Record, Sample

Sink = Callable[[Record | Sample], None]


def reporting_once(sink: Sink) -> Sink:
    """A sink that drops a second "unfinished_run" event of one node and run, and passes on all else.

    An agent marks an earlier run as reported only when it ends in an orderly way. Until then a second agent
    of the node, which replaces the first or asks a node that came back, finds that run again. If the host
    has restarted in between, the second agent takes a run that was killed for one that the host did not
    survive.
    """
    reported: set[tuple[str, object]] = set()

    def pass_on(record: Record | Sample) -> None:
        if isinstance(record, Event) and record.kind == "unfinished_run":
            key = record.subject, record.data.get("run_id")
            if key in reported:
                return
            reported.add(key)
        sink(record)

    return pass_on
