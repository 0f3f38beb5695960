"""What training sends through: gloo, and between GPUs NCCL over sockets. Imports torch.

Two ranks of torch.distributed, on the interface that the streams went through, and each answer compared.
Numbers are whole and small, so that sums are exact.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from rigproof.devices.rank import WATCHDOGS
from rigproof.devices.reporting import Reporter
from rigproof.records.crews import Address
from rigproof.records.measurements import MB, Phase
from rigproof.stages.lan.counting import End, Moment
from rigproof.stages.lan.stage import (
    ALL_GATHER,
    ALL_REDUCE,
    ALONE,
    BACK,
    BOTH,
    BROADCAST,
    GLOO,
    LATENCY_BYTES,
    OUT,
    SEND,
    LanSpec,
)
from rigproof.stages.lan.streams import Role, StringLabels, latency, traffic

LIMIT_S = 10.0  # of each operation
ROUND_S = 0.15  # of an operation, by the rate of TCP
SMALLEST_MB, LARGEST_MB = 0.25, 64.0
FEWEST_ROUNDS, MOST_ROUNDS = 4, 200  # the first warms up
MESSAGES = 100
WORK = ((SEND, OUT), (SEND, BACK), (BROADCAST, OUT), (ALL_REDUCE, BOTH), (ALL_GATHER, BOTH))
VALUES = 1000
ROLES: tuple[Role, Role] = ("sender", "receiver")


def settings(end: End, address: str) -> dict[str, str]:
    """The variables by which both libraries take this interface, and NCCL sockets."""
    found = {**WATCHDOGS, "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "TORCH_NCCL_BLOCKING_WAIT": "1"}
    found |= {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}  # also where containers seem to be one host
    found["NCCL_SOCKET_FAMILY"] = "AF_INET6" if ":" in address else "AF_INET"
    if end.interface is not None:
        found |= {"GLOO_SOCKET_IFNAME": end.interface.name, "NCCL_SOCKET_IFNAME": f"={end.interface.name}"}
    return found


@dataclass(frozen=True, slots=True)
class Way:
    """The way between two ends. `address`: this end's own; `mbps`: the rate of TCP, MB/s."""

    spec: LanSpec
    reporter: Reporter
    end: End
    address: str
    mbps: float


class Library:
    """One library between two ranks, which have met at a store. Sizes go by the rate of TCP."""

    def __init__(self, name: str, way: Way) -> None:
        self._name = name
        self._way = way
        self.rank = way.reporter.context.crew.rank
        self.group: dist.ProcessGroup | None = None  # gloo's is the first one
        self.device = torch.device("cpu" if name == GLOO else "cuda")
        mb = min(max(way.mbps * ROUND_S, SMALLEST_MB), LARGEST_MB)
        self.count = int(mb * 1e6 / 4) | 1  # odd: no size that everything divides

    @property
    def mb(self) -> float:
        """What an operation moves each way; of two ranks, all-reduce and all-gather as much as the others."""
        return self.count * 4 / 1e6

    def run(self, store: dist.Store) -> None:
        """All operations. Raises torch's errors. Groups are not taken down: that could hang, too."""
        limit = timedelta(seconds=LIMIT_S)
        if self._name == GLOO:
            dist.init_process_group(GLOO, store=store, rank=self.rank, world_size=2, timeout=limit)
        else:
            self.group = dist.new_group(backend=self._name, timeout=limit)
        for size in LATENCY_BYTES:
            self._messages(size)
        for operation, direction in WORK:
            if not self._way.reporter.context.stopped():
                self._repeat(store, operation, direction)

    def _messages(self, size: int) -> None:
        """Small messages there and back."""
        sent = torch.arange(size // 4, dtype=torch.int32, device=self.device)
        got = torch.empty_like(sent)
        times_s = []
        for number in range(MESSAGES + 1):
            begun_s = time.perf_counter()
            if self.rank == 0:
                dist.send(sent, 1, self.group)
            dist.recv(got, 1 - self.rank, self.group)
            if self.rank == 1:
                dist.send(got, 0, self.group)
            self.wait()
            times_s.append(time.perf_counter() - begun_s)
            if not torch.equal(got, sent):
                self._wrong(f"message {number} of {size} bytes differs")
            sent += 1
            self._way.reporter.context.alive()
        if self.rank == 0:
            reporter = self._way.reporter
            reporter.context.emit(latency(reporter, self._name, size, times_s[1:]))

    def _repeat(self, store: dist.Store, operation: str, direction: str) -> None:
        """One operation as often as there is time for: who receives measures, and decides that.

        Each round has other numbers than the one before, and begins when both ends are ready: no rate has the
        time that it takes to compare.
        """
        labels = {"traffic": self._name, "operation": operation, "direction": direction, "company": ALONE}
        source, receiver = (1, 0) if direction == BACK else (0, 1)
        both = direction == BOTH
        measures = self.rank == (0 if both else receiver)
        data = [[self._data(rank, number) for rank in range(2)] for number in range(2)]
        right = [_right(operation, torch.stack(pair), source) for pair in data]
        target = torch.empty_like(right[0])
        before = Moment.now(self._way.end, os.getpid())
        number, rounds = 0, FEWEST_ROUNDS
        while number < rounds:
            own = data[number % 2][self.rank]
            if operation == ALL_REDUCE or (self.rank == source and not both):
                target[0].copy_(own)
            else:
                target.zero_()
            self._meet()
            begun_s = time.monotonic()
            self._meet()  # nothing comes before this end counts the time
            self._do(operation, target, own, source)
            self.wait()
            seconds = time.monotonic() - begun_s
            equal = torch.equal(target, right[number % 2])
            if measures or not equal:
                self.round(number, seconds, labels, verified=equal)
            if not number:
                key = " ".join(labels.values())
                if measures:
                    store.set(key, str(self.rounds(seconds)))
                rounds = int(store.get(key))
            number += 1
        spent = Moment.now(self._way.end, os.getpid()).since(before)
        for role in ROLES if both else (ROLES[self.rank == receiver],):
            moved = role, number * self.mb
            context = self._way.reporter.context
            context.emit(traffic(self._way.reporter, self._way.spec.node, spent, moved, labels))

    def _do(self, operation: str, target: torch.Tensor, own: torch.Tensor, source: int) -> None:
        if operation == ALL_REDUCE:
            dist.all_reduce(target[0], group=self.group)
        elif operation == ALL_GATHER:
            dist.all_gather(list(target.unbind()), own, self.group)
        elif operation == BROADCAST:
            dist.broadcast(target[0], source, self.group)
        elif self.rank == source:
            dist.send(target[0], 1 - source, self.group)
        else:
            dist.recv(target[0], source, self.group)

    def _data(self, rank: int, number: int) -> torch.Tensor:
        """The whole numbers that a rank sends in even or odd rounds: nowhere the same as in the others."""
        numbers = torch.arange(self.count, device=self.device).remainder_(VALUES)
        return numbers.add_(1 + rank + 2 * number).float()

    def _meet(self) -> None:
        dist.all_reduce(torch.zeros(1, device=self.device), group=self.group)
        self.wait()

    def wait(self) -> None:
        """Wait until the device has done what was asked of it."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def round(self, number: int, seconds: float, labels: StringLabels, *, verified: bool) -> None:
        """Report a round; the first one warms up."""
        phase: Phase = "measure" if number else "warmup"
        self._way.reporter.round(
            phase=phase, seconds=seconds, work=self.mb, unit=MB, verified=verified, labels=labels
        )
        self._way.reporter.context.alive()
        if not verified:
            self._wrong(f"{labels['operation']} {labels['direction']} has wrong elements in round {number}")

    def rounds(self, seconds: float) -> int:
        """How many rounds there is time for, if one takes so long."""
        wanted = int(self._way.spec.library_s / len(WORK) / max(seconds, 1e-6))
        return min(max(wanted, FEWEST_ROUNDS), MOST_ROUNDS)

    def _wrong(self, what: str) -> None:
        self._way.reporter.event("lan_wrong", f"{self._name}: {what}", {"traffic": self._name})


def _right(operation: str, pair: torch.Tensor, source: int) -> torch.Tensor:
    """What an operation on a pair's numbers has to give: both, their sum, or those of the source."""
    if operation == ALL_GATHER:
        return pair
    return pair.sum(0, keepdim=True) if operation == ALL_REDUCE else pair[source : source + 1].clone()


def run_libraries(names: tuple[str, ...], way: Way, store_at: Address, begin: Callable[[str], None]) -> None:
    """Each library in turn, by a store on the first end's host. `begin` hears its name."""
    os.environ |= settings(way.end, way.address)
    host, port = store_at
    limit = timedelta(seconds=2 * LIMIT_S)
    store = dist.TCPStore(host, port, 2, is_master=way.reporter.context.crew.rank == 0, timeout=limit)
    for name in names:
        begin(name)
        Library(name, way).run(store)
