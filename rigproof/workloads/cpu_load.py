"""Threads that hold a host's CPU at a target, whatever everybody else does. Standard library only."""

import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rigproof.records.samples import CpuTimes
from rigproof.workloads.cpu_band import Controller, Usage

SLOT_S = 0.1
STEP_S = 0.2
HASHED_BYTES = 2**20  # hashing more than 2 KiB releases the interpreter lock; this takes about 1 ms
THREADS_PER_MIB = 16  # more threads hash more at a time, so that the interpreter lock stays mostly free
READINGS_KEPT = 3000  # ten minutes


@dataclass(frozen=True, slots=True)
class LoadReading:
    """One step of the controller."""

    clock_s: float  # monotonic
    busy_percent: float  # of the capacity, everybody
    foreign_cpus: float
    own_cpus: float
    share: float  # decided for the next step, per thread
    short_cpus: float  # wanted beyond what the threads can give


class CpuLoad:
    """Holds `target_percent` of the host's CPU with `threads` threads between `start` and `stop`.

    Each thread works in slots of 100 ms until its own CPU time reaches the share, then sleeps; slots
    are staggered over the threads. Every 200 ms the share follows what `cpu_times` says. Where the
    threads are fewer than the target needs, each works all the time and `saturated` tells so.
    Where `cpu_times` fails, the load pauses: nobody knows then what the host has left.
    """

    def __init__(self, threads: int, target_percent: float, cpu_times: Callable[[], CpuTimes]) -> None:
        self._controller = Controller(threads, target_percent)
        self._cpu_times = cpu_times
        self._buffer = bytes(HASHED_BYTES * max(1, threads // THREADS_PER_MIB))
        self._used_s = [0.0] * threads  # CPU time; each thread writes its own place
        self._share = 0.0
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._readings: deque[LoadReading] = deque(maxlen=READINGS_KEPT)
        self.error: str | None = None

    @property
    def share(self) -> float:
        """What each thread uses of one CPU now, 0 to 1."""
        return self._share

    @property
    def saturated(self) -> bool:
        """Whether the latest step wanted more than the threads can give."""
        return bool(self._readings) and self._readings[-1].short_cpus > 0

    def readings(self) -> tuple[LoadReading, ...]:
        """The controller's steps, oldest first, ten minutes at most."""
        return tuple(self._readings)

    def start(self) -> None:
        """Start the threads; the load comes up after the first reading. RuntimeError if it was started."""
        if self._threads:
            raise RuntimeError("the CPU load was started already")
        count = len(self._used_s)
        self._threads = [
            threading.Thread(target=self._work, args=(place, count), name=f"cpu-load-{place}")
            for place in range(count)
        ]
        self._threads.append(threading.Thread(target=self._control, name="cpu-load-control"))
        for thread in self._threads:
            thread.daemon = True  # a caller that dies without stop must not hang
            thread.start()

    def stop(self) -> None:
        """End and join the threads; they need a few milliseconds. Does nothing the second time."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._share = 0.0

    def _work(self, place: int, count: int) -> None:
        """Work one thread's slots. What a slot overdid is taken off the next one."""
        slot_at_s = time.monotonic() + SLOT_S * place / count
        overdone_s = 0.0
        while not self._stop.wait(max(0.0, slot_at_s - time.monotonic())):
            begun_s = used_s = time.thread_time()
            allowed_s = self._share * SLOT_S - overdone_s
            slot_at_s += SLOT_S
            while used_s - begun_s < allowed_s and time.monotonic() < slot_at_s and not self._stop.is_set():
                hashlib.sha256(self._buffer)
                used_s = time.thread_time()
                self._used_s[place] = used_s
            overdone_s = min(SLOT_S, max(0.0, used_s - begun_s - allowed_s))
            if time.monotonic() > slot_at_s + SLOT_S:  # held up for long: do not make up for it
                slot_at_s = time.monotonic()

    def _control(self) -> None:
        """Follow the host until stopped."""
        last, last_own_s = self._read()
        at_s = time.monotonic()
        while True:
            at_s = max(at_s + STEP_S, time.monotonic())
            if self._stop.wait(at_s - time.monotonic()):
                break
            now, own_s = self._read()
            usage = used_between(last, now, own_s - last_own_s) if last and now else None
            if usage is not None and now is not None:
                self._follow(now.clock_s, usage)
            last, last_own_s = now, own_s

    def _read(self) -> tuple[CpuTimes | None, float]:
        """The host's times beside our own; None, and no load, where they cannot be read."""
        try:
            times = self._cpu_times()
        except (OSError, ValueError) as error:
            self.error = f"CPU times: {error}"
            self._share = 0.0
            times = None
        return times, sum(self._used_s)

    def _follow(self, clock_s: float, usage: Usage) -> None:
        decision = self._controller.step(usage)
        self._share = decision.share
        self._readings.append(
            LoadReading(
                clock_s=clock_s,
                busy_percent=100 * usage.busy_cpus / usage.capacity_cpus,
                foreign_cpus=usage.foreign_cpus,
                own_cpus=usage.own_cpus,
                share=decision.share,
                short_cpus=decision.short_cpus,
            )
        )


def used_between(earlier: CpuTimes, later: CpuTimes, own_s: float) -> Usage | None:
    """Mean use between two readings; None where no time passed or nothing can be used."""
    passed_s = later.clock_s - earlier.clock_s
    if passed_s <= 0 or later.capacity_cpus <= 0:
        return None
    busy_cpus = max(0.0, (later.busy_s - earlier.busy_s) / passed_s)
    return Usage(busy_cpus, max(0.0, own_s / passed_s), later.capacity_cpus)
