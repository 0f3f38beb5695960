"""What a workload needs from the process in which it runs."""

from typing import Protocol

from rigproof.records.crews import Member
from rigproof.records.recording import Record


class WorkerContext(Protocol):
    """The worker's identity, the run time, where records go, and whether to stop."""

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
        """The worker's place in its crew, and the crew's rendezvous.

        A member that waits for others must check `stopped`, which is true as soon as one of them is lost.
        """
        ...

    def now_s(self) -> float:
        """Run time: seconds since the run's start."""
        ...

    def emit(self, record: Record) -> None:
        """Emit a record; must not block for long, since the device waits."""
        ...

    def alive(self) -> None:
        """Send a sign of life when a round takes long: the driver counts it as progress."""
        ...

    def stopped(self) -> bool:
        """Whether the workload should end. Checked after every round."""
        ...
