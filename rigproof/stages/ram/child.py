"""The process that copies and tests RAM: `python -m rigproof.stages.ram.child SETTINGS`.

SETTINGS is a JSON object with the fields of a RamSpec. It writes messages as JSON lines, and takes no orders:

    round (operation, content, t_s, seconds, gb, verified, phase), …, wrong (…), …, tested (…), done
    short (why): there is too little memory to copy

Times are those of the host's monotonic clock. It ends early when its stdin closes. Memory is its own, so that
all of it is returned when it ends; if memory runs out, the kernel ends this process before others.
"""

import json
import sys
import time
from contextlib import suppress
from typing import Any

from rigproof.host import parent
from rigproof.host.parent import Orders
from rigproof.host.ram import cache_mib, give_way
from rigproof.stages.ram.copying import Copies
from rigproof.stages.ram.passes import Located, MemoryTest, Pass, Report
from rigproof.stages.ram.room import Room
from rigproof.stages.ram.settings import COPY, LEAST_CACHES
from rigproof.stages.ram.threads import PinnedThreads

COPY_SHARE = 0.3  # of the stage's length
WARM_UP_ROUNDS, FEWEST_ROUNDS = 1, 5
# McCalpin, STREAM run rules: each array is at least four times the sum of all last-level caches.
CACHES = 4
ALIVE_S = 0.5


class RamWork:
    """Copies, then patterns."""

    def __init__(self, settings: dict[str, Any], orders: Orders) -> None:
        self._settings = settings
        self._orders = orders
        self._begun_s = time.monotonic()
        self._alive_s = self._begun_s
        self._cache_mib = cache_mib()
        self._room = Room(float(settings["reserve_mib"]), float(settings["reserve_share"]))
        self._threads = PinnedThreads(int(settings["threads"]))

    def run(self) -> None:
        """Do all of it, or as much as there is time for until the parent ends it."""
        duration_s = float(self._settings["duration_s"])
        self._copy(COPY_SHARE * duration_s)
        left_s = duration_s - (time.monotonic() - self._begun_s)
        test = MemoryTest(
            self._threads,
            self._room,
            self._cache_mib,
            max(float(self._settings["least_mib"]), LEAST_CACHES * self._cache_mib),
            self._passed,
            alive=self._alive,
            stopped=self._stopped,
        )
        self._report(test.run(max(left_s, (1 - COPY_SHARE) * duration_s / 2)))
        self._threads.close()

    def _copy(self, length_s: float) -> None:
        wanted_mib = max(float(self._settings["buffer_mib"]), CACHES * self._cache_mib)
        free_mib = self._room.free_mib()
        if 2 * wanted_mib > free_mib:
            why = f"{max(free_mib, 0):.0f} MiB are free beside the reserve"
            parent.tell(what="short", why=f"copies need 2 × {wanted_mib:.0f} MiB, and {why}")
            return
        try:
            copies = Copies(self._threads, wanted_mib, self._alive)
        except MemoryError as error:
            parent.tell(what="short", why=f"the kernel refused 2 × {wanted_mib:.0f} MiB: {error}")
            return
        try:
            end_s, number = time.monotonic() + length_s, 0
            while not self._stopped() and (number < FEWEST_ROUNDS or time.monotonic() < end_s):
                done = copies.round(float(self._settings["round_s"]))
                phase = "warmup" if number < WARM_UP_ROUNDS else "measure"
                parent.tell(
                    what="round",
                    operation=COPY,
                    content="",
                    t_s=done.end_s,
                    seconds=done.seconds,
                    gb=done.gb,
                    verified=done.verified,
                    phase=phase,
                )
                number += 1
            count, some = copies.compare()
            if count:
                self._wrong(count, [Located(one, COPY, hard=True, physical=None) for one in some])
        finally:
            copies.release()

    def _passed(self, done: Pass) -> None:
        parent.tell(
            what="round",
            operation=done.operation,
            content=done.content,
            t_s=done.end_s,
            seconds=done.seconds,
            gb=done.gb,
            verified=done.right,
            phase="measure",
        )

    def _report(self, report: Report) -> None:
        if report.wrong:
            self._wrong(report.wrong, report.located)
        parent.tell(
            what="tested",
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

    @staticmethod
    def _wrong(count: int, located: list[Located]) -> None:
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
        parent.tell(what="wrong", count=count, words=words)

    def _alive(self) -> None:
        now_s = time.monotonic()
        if now_s - self._alive_s >= ALIVE_S:
            self._alive_s = now_s
            parent.tell(what="alive")

    def _stopped(self) -> bool:
        return self._orders.closed.is_set()


def main(settings: dict[str, Any]) -> int:
    """Do the work; returns the exit status."""
    with suppress(OSError):
        give_way()
    return parent.serve(lambda orders: RamWork(settings, orders).run())


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
