"""Threads that hold a host's CPU at a target, whatever other processes do. Standard library only."""

import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rigproof.host.cpu_band import Controller, Usage
from rigproof.records.samples import CpuTimes

SLOT_S = 0.05
STEP_S = 0.1
MIB = 2**20
# Hashing more than 2 KiB releases the interpreter lock. All threads together take it so often that it
# is held for a few percent of the time, however many they are; one thread takes it every 0.5 ms at most.
LOCKS_PER_S = 15_000
SHORTEST_PIECE_S = 0.0005
READINGS_KEPT = 6000  # ten minutes


@dataclass(frozen=True, slots=True)
class LoadReading:
    """The host's CPU use in one step of the controller, and what it decided."""

    clock_s: float  # monotonic
    usage: Usage
    share: float  # decided for the next step, per thread
    short_cpus: float  # target beyond what the threads can do


class CpuLoad:
    """Holds `target_percent` of the host's CPU with `threads` threads between `start` and `stop`.

    Each thread works in slots of 50 ms until its own CPU time reaches the share, then sleeps; slots are
    staggered over the threads. Every 100 ms the share follows `cpu_times`, also for slots that are in
    progress. If the threads are too few for the target, each works all the time, and the readings say how
    much is short. If `cpu_times` fails, the load pauses, because the host's free CPU time is unknown then.
    `own_s` returns the CPU seconds of the load's process, which does nothing else.
    """

    def __init__(
        self,
        threads: int,
        target_percent: float,
        cpu_times: Callable[[], CpuTimes],
        own_s: Callable[[], float] = time.process_time,
    ) -> None:
        self._controller = Controller(threads, target_percent)
        self._cpu_times = cpu_times
        self._own_s = own_s
        self._count = threads
        self._piece = b""
        self._share = 0.0
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._readings: deque[LoadReading] = deque(maxlen=READINGS_KEPT)
        self.error: str | None = None

    @property
    def share(self) -> float:
        """The share of one CPU that each thread uses now, 0 to 1."""
        return self._share

    def readings(self) -> tuple[LoadReading, ...]:
        """The controller's steps, oldest first, ten minutes at most."""
        return tuple(self._readings)

    def start(self) -> None:
        """Start the threads, once; their load begins after the first reading."""
        self._piece = bytes(piece_bytes(self._count, seconds_per_mib()))
        self._threads = [
            threading.Thread(target=self._work, args=(place,), name=f"cpu-load-{place}")
            for place in range(self._count)
        ]
        self._threads.append(threading.Thread(target=self._control, name="cpu-load-control"))
        for thread in self._threads:
            thread.daemon = True  # a caller that ends without `stop` must not hang
            thread.start()

    def stop(self) -> None:
        """End and join the threads, which takes a few milliseconds. A second call does nothing."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._share = 0.0

    def _work(self, place: int) -> None:
        """Work one thread's slots. A slot's excess is subtracted from the next one."""
        slot_at_s = time.monotonic() + SLOT_S * place / self._count
        overdone_s = 0.0
        while not self._stop.wait(max(0.0, slot_at_s - time.monotonic())):
            begun_s, used_s = time.thread_time() - overdone_s, overdone_s
            slot_at_s += SLOT_S
            while self._goes_on(used_s, slot_at_s):
                hashlib.sha256(self._piece)
                used_s = time.thread_time() - begun_s
            overdone_s = min(SLOT_S, max(0.0, used_s - self._share * SLOT_S))
            if time.monotonic() > slot_at_s + SLOT_S:  # delayed for long: do not catch up
                slot_at_s = time.monotonic()

    def _goes_on(self, used_s: float, until_s: float) -> bool:
        return used_s < self._share * SLOT_S and time.monotonic() < until_s and not self._stop.is_set()

    def _control(self) -> None:
        """Take a reading every step, and set the threads' share by it, until stopped."""
        last, last_own_s = self._read()
        # From the end of one step to the next: after a late one there is no other at once, since the kernel
        # counts busy time in ticks, and one tick in a moment looks like many CPUs.
        while not self._stop.wait(STEP_S):
            now, own_s = self._read()
            usage = used_between(last, now, own_s - last_own_s) if last and now else None
            if usage is not None and now is not None:
                self._follow(now.clock_s, usage)
            last, last_own_s = now, own_s

    def _read(self) -> tuple[CpuTimes | None, float]:
        """The host's CPU times, and our own CPU seconds. If the host's cannot be read: None, and no load."""
        try:
            times = self._cpu_times()
        except (OSError, ValueError) as error:
            self.error = f"CPU times: {error}"
            self._share = 0.0
            times = None
        return times, self._own_s()

    def _follow(self, clock_s: float, usage: Usage) -> None:
        decision = self._controller.step(usage)
        self._share = decision.share
        self._readings.append(
            LoadReading(clock_s=clock_s, usage=usage, share=decision.share, short_cpus=decision.short_cpus)
        )


def piece_bytes(threads: int, of_mib_s: float) -> int:
    """How much a thread hashes at a time, so that all of them take the interpreter lock `LOCKS_PER_S` times.

    The zeros of a `bytes` that was never written to are one page of memory, mapped repeatedly: reading them
    loads neither the RAM nor the caches, however large the piece is.
    """
    piece_s = max(SHORTEST_PIECE_S, threads / LOCKS_PER_S)
    return max(MIB // 16, int(MIB * piece_s / of_mib_s))


def seconds_per_mib() -> float:
    """How long hashing a MiB takes here: 0.4 to 3 ms, depending on the CPU's SHA instructions."""
    buffer = bytes(MIB)
    spent_s = []
    for _ in range(3):
        begun_s = time.thread_time()
        hashlib.sha256(buffer)
        spent_s.append(time.thread_time() - begun_s)
    return min(spent_s)


def used_between(earlier: CpuTimes, later: CpuTimes, own_s: float) -> Usage | None:
    """Mean CPU use between two readings, in which the load itself used `own_s` CPU seconds.

    None if no time passed or no CPU can be used.
    """
    passed_s = later.clock_s - earlier.clock_s
    if passed_s <= 0 or later.capacity_cpus <= 0:
        return None
    busy_cpus = max(0.0, (later.busy_s - earlier.busy_s) / passed_s)
    return Usage(busy_cpus, max(0.0, own_s / passed_s), later.capacity_cpus)
