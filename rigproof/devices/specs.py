"""A worker's task in a stage, and what it needs from its process. The driver makes tasks without torch."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from rigproof.devices.device import Device
from rigproof.records.crews import Member
from rigproof.records.recording import Record

NCCL, GLOO = "nccl", "gloo"  # what devices exchange data by
# s, without an object that was asked for: Ray asks again after 10 (object_manager_pull_timeout_ms is 10,000).
OBJECT_SILENT_S = 12.0
STORE_SHARE = 0.125  # of the smallest store, for an object: Ray frees what is withdrawn a second late


class Objects(Protocol):
    """The object store of the cluster, by which workers hand data to each other."""

    @property
    def address(self) -> str:
        """What another worker needs to get what this one offers."""

    @property
    def room_mb(self) -> float:
        """What this node's store holds at most, 10^6 bytes."""

    def offer(self, data: Any) -> None:
        """Put data into this node's store, in place of what was offered before."""

    def offered(self) -> list[Any]:
        """A reference to what is offered, for who asks; none if nothing is."""

    def withdraw(self) -> None:
        """Offer nothing any more; the store frees it."""

    def get(self, address: str, limit_s: float, go_on: Callable[[], bool]) -> tuple[float, Any]:
        """What a worker offers, and how long it took to come from its store, s.

        TimeoutError if it does not come in time, or `go_on` says so; RuntimeError if it cannot come.
        """


class WorkerContext(Protocol):
    """The worker's identity, the run time, where records go, and whether to stop."""

    @property
    def worker(self) -> str:
        """The worker's name, e.g. "pc1/gpu0#0"."""

    @property
    def subject(self) -> str:
        """The promised device, e.g. "pc1/gpu0"."""

    @property
    def crew(self) -> Member:
        """The worker's place in its crew, and the crew's rendezvous.

        A member that waits for others must check `stopped`, which is true as soon as one of them is lost.
        """

    @property
    def objects(self) -> Objects | None:
        """The cluster's store; None in a process of the worker's own."""

    def now_s(self) -> float:
        """Run time: seconds since the run's start."""

    def emit(self, record: Record) -> None:
        """Emit a record; must not block for long, since the device waits."""

    def alive(self) -> None:
        """Send a sign of life when a round takes long: the driver counts it as progress."""

    def stopped(self) -> bool:
        """Whether the workload should end. Checked after every round."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A worker's task in the stage of that name; each stage has its own class."""

    stage: str

    def run(self, device: Device, context: WorkerContext) -> None:
        """Do the task until it is done or `context.stopped()`: `run_<name>` of the stage's workload.py.

        Only this imports the workload, and so torch. Raises ValueError if the device cannot do it,
        MemoryError if the memory does not suffice, RuntimeError if a process of the task's own fails, and
        torch's own error for a failed device.
        """
        folder = type(self).__module__.rpartition(".")[0]
        work = getattr(import_module(f"{folder}.workload"), f"run_{folder.rpartition('.')[2]}")
        work(self, device, context)
