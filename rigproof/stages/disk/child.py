"""The process that writes and reads the file: `python -m rigproof.stages.disk.child SETTINGS`.

SETTINGS is a JSON object with the fields of a DiskSpec. It writes messages as JSON lines, and takes no
orders:

    round (operation, t_s, seconds, mb, verified, phase), …, wrong (offset), …, tested (…), done

A disk that does not answer hangs this process alone. Times are those of the host's monotonic clock. It ends
early when its stdin closes. Standard library only.
"""

import errno
import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rigproof.host import parent
from rigproof.stages.disk.place import GIB, Place, place_of
from rigproof.stages.disk.scratch import CHUNK_BYTES, Chunks, ScratchFile

MIB = 2**20
WRITE_SHARE = 0.5  # of the stage's length
FEWEST_CHUNKS = 4
MEANINGS = {
    errno.EIO: "the disk reports an input/output error; see `dmesg`",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the user's quota is used up",
    errno.EROFS: "its file system is read-only; if it should not be, see `dmesg`",
    errno.ENOENT: "there is no such folder",
    errno.ENOTDIR: "it is not a folder",
    errno.EACCES: "the user who runs Ray there may not write to it",
    errno.EPERM: "the user who runs Ray there may not write to it",
}


@dataclass(slots=True)
class Done:
    """What was done so far. `trouble`: why no more was, in words; `error`: that error's name."""

    how: str = ""
    written: int = 0  # chunks
    verified: int = 0
    wrong: int = 0
    trouble: str = ""
    error: str = ""


class DiskWork:
    """One file, from its beginning to its end."""

    def __init__(self, settings: dict[str, Any], stopped: Callable[[], bool], chunk_bytes: int) -> None:
        self._path = str(settings["path"])
        self._most = int(float(settings["most_mib"]) * MIB)
        self._reserve = int(float(settings["reserve_mib"]) * MIB)
        self._duration_s = float(settings["duration_s"])
        self._stopped = stopped
        self._chunk_bytes = chunk_bytes
        self._place: Place | None = None
        self.done = Done()

    def run(self) -> None:
        """Write, read back, and report. An error of the folder or the disk becomes a sentence."""
        try:
            self._place = place_of(self._path)
            self._use(self._place)
        except OSError as error:
            self._fail(error)
        self._report()

    def _use(self, place: Place) -> None:
        if place.memory is not None:
            self.done.trouble = f"{place.memory} keeps files in memory: that is no disk"
            return
        number = min(self._most, (place.free - self._reserve) // 2) // self._chunk_bytes
        if number < FEWEST_CHUNKS:
            self.done.trouble = (
                f"{max(place.free, 0) / GIB:.2f} GiB are free, too little to write beside the "
                f"{self._reserve / GIB:g} GiB that stay free"
            )
            return
        begun_s = time.monotonic()
        file = ScratchFile(place.path)
        try:
            chunks = Chunks(self._chunk_bytes)
            self._write(file, chunks, number, begun_s + WRITE_SHARE * self._duration_s)
            self._read(file, chunks, begun_s + self._duration_s)
        finally:
            file.close()

    def _write(self, file: ScratchFile, chunks: Chunks, most: int, until_s: float) -> None:
        while self.done.written < most and not self._stopped():
            if self.done.written >= FEWEST_CHUNKS and time.monotonic() > until_s:
                break
            number = self.done.written
            chunk = chunks.make(number)
            begun_s = time.monotonic()
            file.write(chunk, number * chunks.size)
            self._round("write", begun_s, phase="measure" if number else "warmup")
            self.done.written += 1
            self.done.how = "direct" if file.direct else "synced"
        file.written()

    def _read(self, file: ScratchFile, chunks: Chunks, until_s: float) -> None:
        """As much as there is time for, and the fewest chunks in any case."""
        into = mmap.mmap(-1, chunks.size)
        for number in range(self.done.written):
            if self._stopped() or (number >= FEWEST_CHUNKS and time.monotonic() > until_s):
                break
            begun_s = time.monotonic()
            file.read(into, number * chunks.size)
            end_s = time.monotonic()
            offset = chunks.differing(into, number)
            if offset is not None:
                self.done.wrong += 1
                parent.tell(what="wrong", offset=offset)
            self.done.verified += 1
            phase = "measure" if number else "warmup"
            self._round("read", begun_s, phase=phase, end_s=end_s, verified=offset is None)

    def _round(
        self, operation: str, begun_s: float, *, phase: str, end_s: float | None = None, verified: bool = True
    ) -> None:
        end_s = time.monotonic() if end_s is None else end_s
        parent.tell(
            what="round",
            operation=operation,
            t_s=end_s,
            seconds=max(end_s - begun_s, 1e-9),
            mb=self._chunk_bytes / 1e6,
            verified=verified,
            phase=phase,
        )

    def _fail(self, error: OSError) -> None:
        code = error.errno or 0
        self.done.trouble = MEANINGS.get(code) or os.strerror(code)
        self.done.error = errno.errorcode.get(code, str(code))

    def _report(self) -> None:
        place, done = self._place, self.done
        parent.tell(
            what="tested",
            path=self._path if place is None else place.path,
            filesystem="unknown" if place is None else place.filesystem,
            device="unknown" if place is None else place.device,
            how=done.how,
            total_gib=0.0 if place is None else place.total / GIB,
            free_gib=0.0 if place is None else place.free / GIB,
            used_share=0.0 if place is None else place.used_share,
            written_mib=done.written * self._chunk_bytes / MIB,
            verified_mib=done.verified * self._chunk_bytes / MIB,
            wrong=done.wrong,
            trouble=done.trouble,
            error=done.error,
        )


def main(settings: dict[str, Any]) -> int:
    """Do the work; returns the exit status."""
    return parent.serve(lambda orders: DiskWork(settings, orders.closed.is_set, CHUNK_BYTES).run())


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
