"""The RAM stage's workload: memory is copied by all threads, then what is free is tested with patterns.

It runs in a process of its own, which may take most of the host's memory: all of it is returned when the
process ends, however it does, and if memory runs out, the kernel ends that process before others.
"""

import signal
import sys
from contextlib import suppress
from typing import Any

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.own_process import run_apart, serve_apart
from rigproof.devices.reporting import Reporter
from rigproof.host.ram import cache_mib, give_way
from rigproof.records.measurements import Labels, Phase
from rigproof.stages.ram.copying import Copies, CopyRound
from rigproof.stages.ram.passes import Located, MemoryTest, Pass, Report
from rigproof.stages.ram.room import Room
from rigproof.stages.ram.stage import COPY, GB, LEAST_CACHES, RamSpec, RamTest
from rigproof.stages.ram.threads import PinnedThreads

MODULE = "rigproof.stages.ram.workload"
STALL_S = 15.0  # without a message
COPY_SHARE = 0.3  # of the stage's length
WARM_UP_ROUNDS, FEWEST_ROUNDS = 1, 5
# McCalpin, STREAM run rules: each array is at least four times the sum of all last-level caches.
CACHES = 4


def run_ram(spec: RamSpec, _device: Device, context: WorkerContext) -> None:
    """Measure the host's RAM until done or stopped. Emits rounds, events, and a RamTest.

    Raises RuntimeError if the process dies, hangs or fails. It is not left running.
    """
    run_apart(
        MODULE,
        spec,
        context,
        records=(RamTest,),
        test="memory test",
        silent="the memory test was silent",
        stall_s=STALL_S,
        endings={-signal.SIGKILL: "; the kernel killed it since memory ran out, or somebody did"},
    )


class RamWork:
    """Copies, then patterns."""

    def __init__(self, spec: RamSpec, context: WorkerContext) -> None:
        self._spec = spec
        self._context = context
        self._reporter = Reporter(context, spec.stage, context.crew.subject)
        self._begun_s = context.now_s()
        self._cache_mib = cache_mib()
        self._room = Room(spec.reserve_mib, spec.reserve_share)
        self._threads = PinnedThreads(spec.threads)

    def run(self) -> None:
        """Do all of it, or as much as there is time for until the worker ends it."""
        duration_s = self._spec.duration_s
        self._copy(COPY_SHARE * duration_s)
        left_s = duration_s - (self._context.now_s() - self._begun_s)
        test = MemoryTest(
            self._threads,
            self._room,
            self._cache_mib,
            max(self._spec.least_mib, LEAST_CACHES * self._cache_mib),
            self._passed,
            context=self._context,
        )
        self._report(test.run(max(left_s, (1 - COPY_SHARE) * duration_s / 2)))
        self._threads.close()

    def _copy(self, length_s: float) -> None:
        wanted_mib = max(self._spec.buffer_mib, CACHES * self._cache_mib)
        free_mib = self._room.free_mib()
        if 2 * wanted_mib > free_mib:
            why = f"{max(free_mib, 0):.0f} MiB are free beside the reserve"
            self._reporter.event("ram_short", f"copies need 2 × {wanted_mib:.0f} MiB, and {why}", {})
            return
        try:
            copies = Copies(self._threads, wanted_mib, self._context)
        except MemoryError as error:
            why = f"the kernel refused 2 × {wanted_mib:.0f} MiB: {error}"
            self._reporter.event("ram_short", why, {})
            return
        try:
            end_s, number = self._context.now_s() + length_s, 0
            while not self._context.stopped() and (number < FEWEST_ROUNDS or self._context.now_s() < end_s):
                done = copies.round(self._spec.round_s)
                phase: Phase = "warmup" if number < WARM_UP_ROUNDS else "measure"
                self._round(done, {"operation": COPY}, phase)
                number += 1
            count, some = copies.compare()
            if count:
                self._wrong(count, [Located(one, COPY, hard=True, physical=None) for one in some])
        finally:
            copies.release()

    def _passed(self, done: Pass) -> None:
        self._round(done, {"operation": done.operation, "content": done.content}, "measure")

    def _round(self, done: CopyRound | Pass, labels: Labels, phase: Phase) -> None:
        self._reporter.round(
            phase=phase,
            seconds=done.seconds,
            work=done.gb,
            unit=GB,
            verified=done.verified,
            labels={**labels, "threads": len(self._threads)},
            t_s=done.end_s,
        )

    def _report(self, report: Report) -> None:
        if report.wrong:
            self._wrong(report.wrong, report.located)
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
                tested_mib=report.tested_mib,
                passes=report.passes,
                wrong=report.wrong,
                cut_short=report.cut_short,
            )
        )

    def _wrong(self, count: int, located: list[Located]) -> None:
        words = [
            {
                "offset": one.wrong.offset,
                "expected": f"{one.wrong.expected:016x}",
                "read": f"{one.wrong.read:016x}",
                "bits": list(one.wrong.bits),
                "content": one.content,
                "hard": one.hard,
                "physical": one.physical,
            }
            for one in located
        ]
        self._reporter.event("ram_error", in_words(count, words), {"count": count, "words": words})


def in_words(count: int, words: list[dict[str, Any]]) -> str:
    """How many words were wrong, and the first of them: its place, its bits, and whether it stayed wrong."""
    number = "1 word" if count == 1 else f"{count} words"
    if not words:
        return f"{number} wrong"
    first = words[0]
    where = f"at offset {first['offset']:#x}"
    if first["physical"] is not None:
        where += f" (physical address {first['physical']:#x})"
    bits = ", ".join(map(str, first["bits"][:4])) + (", …" if len(first["bits"]) > 4 else "")
    kind = "hard" if first["hard"] else "soft: right when read again"
    return (
        f"{number} wrong, the first {where}: {first['read']} in place of {first['expected']}, "
        f"bit{'' if len(first['bits']) == 1 else 's'} {bits} ({first['content']}; {kind})"
    )


def _serve(spec: RamSpec, context: WorkerContext) -> None:
    with suppress(OSError):
        give_way()
    RamWork(spec, context).run()


if __name__ == "__main__":
    sys.exit(serve_apart(_serve, RamSpec))
