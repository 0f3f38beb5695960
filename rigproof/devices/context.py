"""What a workload needs from the process that runs it."""

from typing import Protocol

from rigproof.records.crews import Member
from rigproof.records.recording import Record


class WorkerContext(Protocol):
    """Who works, what time it is, where records go, and whether to stop."""

    @property
    def worker(self) -> str:
        """The worker's name, e.g. "pc1/gpu0#0"."""
        ...

    @property
    def subject(self) -> str:
        """The promised device, e.g. "pc1/gpu0"."""
        ...

    @property
    def crew(self) -> Member:
        """Its place among those that it works with, and where they meet.

        Whoever waits for the others asks `stopped` meanwhile: it is so as soon as one of them is lost.
        """
        ...

    def now_s(self) -> float:
        """Run time: seconds since the run's start."""
        ...

    def emit(self, record: Record) -> None:
        """Hand a record over; must not block for long, since the device waits meanwhile."""
        ...

    def alive(self) -> None:
        """A sign of life, where a round takes long to come: the driver counts it as progress."""
        ...

    def stopped(self) -> bool:
        """True once the workload is to end. It is asked after every round."""
        ...
