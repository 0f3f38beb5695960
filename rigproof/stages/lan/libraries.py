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
from rigproof.records.measurements import Phase
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
    MB,
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
        """One operation as often as there is time for: its measuring end, which receives, decides that."""
        before = Moment.now(self._way.end, os.getpid())
        labels = {"traffic": self._name, "operation": operation, "direction": direction, "company": ALONE}
        repeated = _Repeated(self, store, labels)
        if direction == BOTH:
            number = repeated.both_ways(operation)
            roles: tuple[Role, ...] = ("sender", "receiver")
        else:
            source = 1 if direction == BACK else 0
            number = repeated.sent(operation) if self.rank == source else repeated.received(operation, source)
            roles = ("sender",) if self.rank == source else ("receiver",)
        spent = Moment.now(self._way.end, os.getpid()).since(before)
        reporter, node = self._way.reporter, self._way.spec.node
        for role in roles:
            reporter.context.emit(traffic(reporter, node, spent, (role, number * self.mb), labels))

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


class _Repeated:
    """One operation, repeated. In each round other numbers are sent than in the one before."""

    def __init__(self, library: Library, store: dist.Store, labels: StringLabels) -> None:
        self._library = library
        self._store = store
        self._labels = labels
        self._key = " ".join(labels.values())

    def sent(self, operation: str) -> int:
        """The end from which it goes. Returns the number of rounds."""
        data = [self._data(self._library.rank, number) for number in range(2)]
        number, rounds = 0, FEWEST_ROUNDS
        while number < rounds:
            self._one_way(operation, data[number % 2], self._library.rank)
            self._library.wait()
            if not number:
                rounds = int(self._store.get(self._key))
            number += 1
        return number

    def received(self, operation: str, source: int) -> int:
        """The end to which it goes: it is ready for the next round before it compares the last one."""
        data = [self._data(source, number) for number in range(2)]
        targets = [torch.zeros_like(data[0]) for _ in range(2)]
        done_s = time.monotonic()
        self._one_way(operation, targets[0], source)
        self._library.wait()
        rounds = self._library.rounds(time.monotonic() - done_s)
        pending = self._coming(operation, targets[1], source)
        self._store.set(self._key, str(rounds))
        self._library.round(
            0, time.monotonic() - done_s, self._labels, verified=torch.equal(targets[0], data[0])
        )
        done_s = time.monotonic()
        for number in range(1, rounds):
            pending.wait()
            self._library.wait()
            begun_s, done_s = done_s, time.monotonic()
            target = targets[number % 2]
            if number + 1 < rounds:
                pending = self._coming(operation, targets[(number + 1) % 2].zero_(), source)
            right = torch.equal(target, data[number % 2])
            self._library.round(number, done_s - begun_s, self._labels, verified=right)
        return rounds

    def both_ways(self, operation: str) -> int:
        """An operation that goes both ways at once; the first rank measures."""
        data = [[self._data(rank, number) for number in range(2)] for rank in range(2)]
        own = data[self._library.rank]
        gathered = operation == ALL_GATHER
        expected = [torch.stack(pair) if gathered else pair[0] + pair[1] for pair in zip(*data, strict=True)]
        target = torch.empty_like(expected[0])
        number, rounds = 0, FEWEST_ROUNDS
        while number < rounds:
            if gathered:
                target.zero_()
            else:
                target.copy_(own[number % 2])
            self._library.wait()
            begun_s = time.monotonic()
            if gathered:
                dist.all_gather(list(target.unbind()), own[number % 2], self._library.group)
            else:
                dist.all_reduce(target, group=self._library.group)
            self._library.wait()
            seconds, right = time.monotonic() - begun_s, torch.equal(target, expected[number % 2])
            if not number and self._library.rank == 0:
                self._store.set(self._key, str(self._library.rounds(seconds)))
            if self._library.rank == 0 or not right:
                self._library.round(number, seconds, self._labels, verified=right)
            if not number:
                rounds = int(self._store.get(self._key))
            number += 1
        return number

    def _data(self, rank: int, number: int) -> torch.Tensor:
        """The whole numbers that a rank sends in even or odd rounds: nowhere the same as in the others."""
        library = self._library
        numbers = torch.arange(library.count, device=library.device).remainder_(VALUES)
        return numbers.add_(1 + rank + 2 * number).float()

    def _one_way(self, operation: str, data: torch.Tensor, source: int) -> None:
        group = self._library.group
        if operation == BROADCAST:
            dist.broadcast(data, source, group)
        elif self._library.rank == source:
            dist.send(data, 1 - source, group)
        else:
            dist.recv(data, source, group)

    def _coming(self, operation: str, target: torch.Tensor, source: int) -> dist.Work:
        group = self._library.group
        broadcast = operation == BROADCAST
        work = (
            dist.broadcast(target, source, group, async_op=True)
            if broadcast
            else dist.irecv(target, source, group)
        )
        assert work is not None
        return work


def run_libraries(names: tuple[str, ...], way: Way, store_at: Address, begin: Callable[[str], None]) -> None:
    """Each library in turn, by a store on the first end's host. `begin` hears its name."""
    os.environ |= settings(way.end, way.address)
    host, port = store_at
    limit = timedelta(seconds=2 * LIMIT_S)
    store = dist.TCPStore(host, port, 2, is_master=way.reporter.context.crew.rank == 0, timeout=limit)
    for name in names:
        begin(name)
        Library(name, way).run(store)
