"""The RAM stage's workload: memory is copied by all threads, then what is free is tested with patterns.

It runs in a process of its own, which may take most of the host's memory: all of it is returned when the
process ends, however it does, and if memory runs out, the kernel ends that process before others.
"""

from contextlib import suppress
from threading import Barrier

import numpy as np

from rigproof.devices.device import Device
from rigproof.devices.own_process import run_apart, serve_apart
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import WorkerContext
from rigproof.host.ram import cache_mib, give_way
from rigproof.records.measurements import GB
from rigproof.stages.ram.patterns import (
    WORD_BYTES,
    Pattern,
    PatternTest,
    PinnedThreads,
    Room,
    Words,
    Wrong,
    report,
    taken,
)
from rigproof.stages.ram.stage import COPY, LEAST_CACHES, RamSpec, RamTest

MODULE = "rigproof.stages.ram.workload"
STALL_S = 15.0  # without a message
COPY_SHARE = 0.3  # of the stage's length
FEWEST_ROUNDS = 5  # the first of them warms up
# McCalpin, STREAM run rules: each array is at least four times the sum of all last-level caches.
CACHES = 4
PAGE_WORDS = 4096 // WORD_BYTES
START_S = 30.0  # for all threads to come to the start of a round
MOST_LOCATED = 4  # of each thread


def run_ram(spec: RamSpec, _device: Device, context: WorkerContext) -> None:
    """Measure the host's RAM until done or stopped. Emits rounds, events, and a RamTest.

    Raises RuntimeError if the process dies, hangs or fails. It is not left running.
    """
    test = "memory test"
    silent = f"the {test} was silent"
    run_apart(MODULE, spec, context, records=(RamTest,), test=test, silent=silent, stall_s=STALL_S)


class RamWork:
    """Copies, then patterns."""

    def __init__(self, spec: RamSpec, context: WorkerContext) -> None:
        self._spec = spec
        self._context = context
        self._reporter = Reporter(context, spec.stage, context.crew.subject)
        self._cache_mib = cache_mib()
        self._room = Room(spec.reserve_mib, spec.reserve_share)
        self._threads = PinnedThreads(spec.threads)

    def run(self) -> None:
        """Do all of it, or as much as there is time for until the worker ends it."""
        begun_s, length_s = self._context.now_s(), self._spec.duration_s
        self._copy(begun_s + COPY_SHARE * length_s)
        left_s = length_s - (self._context.now_s() - begun_s)
        test = PatternTest(
            self._threads,
            self._room,
            self._reporter,
            cache_mib=self._cache_mib,
            least_mib=max(self._spec.least_mib, LEAST_CACHES * self._cache_mib),
        )
        test.run(max(left_s, (1 - COPY_SHARE) * length_s / 2))
        if test.wrong:
            report(self._reporter, test.wrong, test.words)
        self._context.emit(
            RamTest(
                t_s=self._context.now_s(),
                stage=self._spec.stage,
                worker=self._context.worker,
                subject=self._context.crew.subject,
                threads=len(self._threads),
                total_mib=self._room.total_mib,
                available_mib=self._room.available_mib,
                reserve_mib=self._room.reserve_mib,
                cache_mib=self._cache_mib,
                tested_mib=test.tested_mib,
                passes=test.passes,
                wrong=test.wrong,
                cut_short=test.cut_short,
            )
        )

    def _copy(self, until_s: float) -> None:
        wanted_mib = max(self._spec.buffer_mib, CACHES * self._cache_mib)
        free_mib = self._room.free_mib()
        if 2 * wanted_mib > free_mib:
            why = f"{max(free_mib, 0):.0f} MiB are free beside the reserve"
            self._reporter.event("ram_short", f"copies need 2 × {wanted_mib:.0f} MiB, and {why}", {})
            return
        try:
            copies = Copies(self._threads, wanted_mib, self._reporter)
        except MemoryError as error:
            why = f"the kernel refused 2 × {wanted_mib:.0f} MiB: {error}"
            self._reporter.event("ram_short", why, {})
            return
        number = 0
        while not self._context.stopped() and (number < FEWEST_ROUNDS or self._context.now_s() < until_s):
            copies.round(self._spec.round_s)
            number += 1
        copies.compare()


class Copies:
    """`mib` of memory that all threads copy together, each a part of its own, to and fro.

    So each copy is made of the one before: a word that one of them got wrong is wrong in all that follow, and
    shows at the end, when all words are compared with what was written first. MemoryError if the kernel
    refuses the memory.
    """

    def __init__(self, threads: PinnedThreads, mib: float, reporter: Reporter) -> None:
        self._threads = threads
        self._reporter = reporter
        self._context = reporter.context
        self._start = Barrier(len(threads))
        self._repeats = 1
        self._stamp = 0
        self._pattern = Pattern("random", 1)
        # Of each thread: what the next copy is made of, and where it goes.
        self._parts = [(taken(mib / len(threads)), taken(mib / len(threads))) for _ in range(len(threads))]
        self._unstamped = threads.each(self._fill, meanwhile=self._context.alive)

    def round(self, length_s: float) -> None:
        """Copy for about `length_s`; the first round, a warm-up, tells how often that is.

        Before it each page gets a new stamp, which an odd number of copies must carry to the other half.
        """
        self._stamp += 1
        done = self._threads.each(self._copy, meanwhile=self._context.alive)
        end_s = max(end_s for _, end_s, _ in done)
        seconds = end_s - min(begun_s for begun_s, _, _ in done)
        self._reporter.round(
            phase="warmup" if self._stamp == 1 else "measure",
            seconds=seconds,
            work=2 * self._repeats * sum(source.nbytes for source, _ in self._parts) / 1e9,
            unit=GB,
            verified=all(right for _, _, right in done),
            labels={"operation": COPY, "threads": len(self._threads)},
            t_s=end_s,
        )
        self._repeats = max(1, round(self._repeats * length_s / max(seconds, 1e-6))) | 1

    def compare(self) -> None:
        """Report words that are not what was written first."""
        found = self._threads.each(self._compare, meanwhile=self._context.alive)
        count = sum(number for number, _ in found)
        if count:
            words = [one.entry(COPY, hard=True, physical=None) for _, some in found for one in some]
            report(self._reporter, count, words)

    def _fill(self, thread: int) -> Words:
        source, target = self._parts[thread]
        self._pattern.fill(source, 0)
        target.fill(0)
        return source[::PAGE_WORDS].copy()

    def _copy(self, thread: int) -> tuple[float, float, bool]:
        """Begin and end in run time, and whether the last copy has the stamps."""
        source, target = self._parts[thread]
        source[::PAGE_WORDS] = self._stamp
        self._start.wait(START_S)
        begun_s = self._context.now_s()
        for _ in range(self._repeats):
            np.copyto(target, source)
            source, target = target, source
        end_s = self._context.now_s()
        self._parts[thread] = source, target
        return begun_s, end_s, bool((source[::PAGE_WORDS] == self._stamp).all())

    def _compare(self, thread: int) -> tuple[int, list[Wrong]]:
        source, _ = self._parts[thread]
        source[::PAGE_WORDS] = self._unstamped[thread]  # each round has looked at its stamps
        return self._pattern.verify(source, 0, MOST_LOCATED)


def _serve(spec: RamSpec, context: WorkerContext) -> None:
    with suppress(OSError):
        give_way()
    RamWork(spec, context).run()


if __name__ == "__main__":
    serve_apart(_serve, RamSpec)
