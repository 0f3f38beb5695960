"""The side of a rank's own process: it joins its crew's group, and tells each step. Imports torch."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from rigproof.devices.cpu import CpuMark
from rigproof.devices.cuda import CudaMark
from rigproof.devices.device import Mark
from rigproof.devices.specs import NCCL
from rigproof.host.parent import tell
from rigproof.host.progress import Progress
from rigproof.records.crews import Member

JOIN = "join"
PATIENCE = timedelta(minutes=10)  # longer than any deadline of ours: the worker ends what is stuck


class Steps:
    """Tells the worker each step of this rank: its number, the same on all ranks, what it is, and its size.

    `outside_s`: how long what comes between two steps may take. `progress`: in the operations of a step.
    """

    def __init__(self, outside_s: float) -> None:
        self.outside_s = outside_s
        self.sequence = 0
        self.progress = Progress()

    @contextmanager
    def step(self, operation: str, mib: int, limit_s: float) -> Iterator[None]:
        """A step that must be over within `limit_s`; it is left when the device has finished it."""
        self.sequence += 1
        self.progress.begin_step()
        front = {"sequence": self.sequence, "operation": operation, "mib": mib}
        tell(what="step", inside=True, limit_s=limit_s, **front)
        yield
        tell(what="step", inside=False, limit_s=self.outside_s, **front)


class Place:
    """Where this rank works: its GPU with NCCL, the CPU with gloo."""

    def __init__(self, backend: str, cpu_threads: int) -> None:
        self.backend = backend
        torch.set_num_threads(max(1, cpu_threads))
        self.where = torch.device("cuda", 0) if backend == NCCL else torch.device("cpu")
        if backend == NCCL:
            torch.cuda.set_device(self.where)

    def mark(self) -> Mark:
        """A mark behind everything queued so far."""
        return CudaMark() if self.backend == NCCL else CpuMark()


@contextmanager
def meeting_place(crew: Member) -> Iterator[None]:
    """In the worker: rank 0's keeps the place where its crew's processes meet, whatever becomes of them."""
    store = None
    if crew.rank == 0 and crew.size > 1:
        host, port = crew.meets_at
        store = dist.TCPStore(host, port, is_master=True, wait_for_workers=False, timeout=PATIENCE)
    yield
    del store


def join(crew: Member, place: Place, steps: Steps, limit_s: float, group: str = "") -> None:
    """Join the crew's group of that name at its meeting place, as the first step. Raises torch's error.

    The group is not taken down: whoever waits for others to leave, too, could hang once more.
    """
    with steps.step(JOIN, 0, limit_s):
        store: dist.Store = dist.HashStore()  # of a rank alone
        if crew.size > 1:
            host, port = crew.meets_at
            store = dist.TCPStore(host, port, is_master=False, timeout=PATIENCE)
        dist.init_process_group(
            place.backend,
            store=dist.PrefixStore(group, store),
            rank=crew.rank,
            world_size=crew.size,
            timeout=PATIENCE,
            device_id=place.where if place.backend == NCCL else None,
        )
