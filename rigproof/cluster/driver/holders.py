"""Adds to out-of-memory events which other processes hold the card's memory, as far as is known by then."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from rigproof.records.identity import WorkerIdentity
from rigproof.records.measurements import Event
from rigproof.records.processes import GpuProcess, holding
from rigproof.records.recording import Record, Sample

Sink = Callable[[Record | Sample], None]


def naming_holders(sink: Sink) -> Sink:
    """A sink that adds to each "oom" event the other processes that hold the device's memory.

    They are added to its message and as `data.holders`.

    No holder is named if the driver's pids differ from those our workers see, as in a container.
    """
    here: dict[str, dict[int, GpuProcess]] = defaultdict(dict)
    own: dict[str, set[int]] = defaultdict(set)  # by node

    def named(event: Event) -> Event:
        pids = own[event.subject.partition("/")[0]]
        listed = here[event.subject].values()
        others = [one for one in listed if not one.belongs_to(pids)]
        holders = holding(others) if len(others) < len(listed) else ""
        if not holders:
            return event
        return replace(event, message=f"{event.message}; {holders}", data=event.data | {"holders": holders})

    def pass_on(record: Record | Sample) -> None:
        match record:
            case GpuProcess(gone=True):
                here[record.subject].pop(record.pid, None)
            case GpuProcess():
                here[record.subject][record.pid] = record
            case WorkerIdentity():
                own[record.node].add(record.pid)
            case Event(kind="oom"):
                record = named(record)
        sink(record)

    return pass_on
