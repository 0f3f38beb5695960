"""The disk stage's workload: a file is written where checkpoints are, past the page cache, and read back.

It runs in a process of its own: a disk that does not answer, such as a server of files that is down, hangs
that process and not the worker.
"""

import errno
import mmap
import os
import sys
from typing import Literal

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.own_process import run_apart, serve_apart
from rigproof.devices.reporting import Reporter
from rigproof.records.measurements import Phase
from rigproof.stages.disk.place import GIB, Place, place_of
from rigproof.stages.disk.scratch import CHUNK_BYTES, Chunks, ScratchFile
from rigproof.stages.disk.stage import MB, READ, WRITE, DiskSpec, DiskTest

MODULE = "rigproof.stages.disk.workload"
STALL_S = 25.0  # without a message: a chunk takes as long at 0.7 MB/s
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


def run_disk(spec: DiskSpec, _device: Device, context: WorkerContext) -> None:
    """Measure the disk until done or stopped. Emits rounds, events, and a DiskTest.

    Raises RuntimeError if the process dies, hangs or fails. It is not left running, unless the kernel holds
    it.
    """
    run_apart(
        MODULE,
        spec,
        context,
        records=(DiskTest,),
        test="disk test",
        silent=f"{spec.path}: the disk did not answer",
        stall_s=STALL_S,
    )


class DiskWork:
    """One file, from its beginning to its end."""

    def __init__(self, spec: DiskSpec, context: WorkerContext, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._spec = spec
        self._context = context
        self._reporter = Reporter(context, spec.stage, context.crew.subject)
        self._chunk_bytes = chunk_bytes
        self._place: Place | None = None
        self._how: Literal["direct", "synced", ""] = ""
        self._written = self._verified = self._wrong = 0  # chunks
        self._trouble = self._error = ""

    def run(self) -> None:
        """Write, read back, and report. An error of the folder or the disk becomes a sentence."""
        try:
            self._place = place_of(self._spec.path)
            self._use(self._place)
        except OSError as error:
            code = error.errno or 0
            self._trouble = MEANINGS.get(code) or os.strerror(code)
            self._error = errno.errorcode.get(code, str(code))
        self._report()

    def _use(self, place: Place) -> None:
        if place.memory is not None:
            self._trouble = f"{place.memory} keeps files in memory: that is no disk"
            return
        most, reserve = (int(mib * MIB) for mib in (self._spec.most_mib, self._spec.reserve_mib))
        number = min(most, (place.free - reserve) // 2) // self._chunk_bytes
        if number < FEWEST_CHUNKS:
            self._trouble = (
                f"{max(place.free, 0) / GIB:.2f} GiB are free, too little to write beside the "
                f"{reserve / GIB:g} GiB that stay free"
            )
            return
        begun_s = self._context.now_s()
        file = ScratchFile(place.path)
        try:
            chunks = Chunks(self._chunk_bytes)
            self._write(file, chunks, number, begun_s + WRITE_SHARE * self._spec.duration_s)
            self._read(file, chunks, begun_s + self._spec.duration_s)
        finally:
            file.close()

    def _write(self, file: ScratchFile, chunks: Chunks, most: int, until_s: float) -> None:
        while self._written < most and not self._ends(self._written, until_s):
            number = self._written
            chunk = chunks.make(number)
            begun_s = self._context.now_s()
            file.write(chunk, number * chunks.size)
            self._round(WRITE, number, begun_s, self._context.now_s())
            self._written += 1
            self._how = "direct" if file.direct else "synced"
        file.written()

    def _read(self, file: ScratchFile, chunks: Chunks, until_s: float) -> None:
        """As much as there is time for, and the fewest chunks in any case."""
        into = mmap.mmap(-1, chunks.size)
        for number in range(self._written):
            if self._ends(number, until_s):
                break
            begun_s = self._context.now_s()
            file.read(into, number * chunks.size)
            end_s = self._context.now_s()
            offset = chunks.differing(into, number)
            if offset is not None:
                self._wrong += 1
                self._reporter.event("disk_error", wrong_text(offset), {"offset": offset})
            self._verified += 1
            self._round(READ, number, begun_s, end_s, verified=offset is None)

    def _ends(self, done: int, until_s: float) -> bool:
        return self._context.stopped() or (done >= FEWEST_CHUNKS and self._context.now_s() > until_s)

    def _round(
        self, operation: str, number: int, begun_s: float, end_s: float, *, verified: bool = True
    ) -> None:
        phase: Phase = "measure" if number else "warmup"
        self._reporter.round(
            phase=phase,
            seconds=max(end_s - begun_s, 1e-9),
            work=self._chunk_bytes / 1e6,
            unit=MB,
            verified=verified,
            labels={"operation": operation},
            t_s=end_s,
        )

    def _report(self) -> None:
        place = self._place
        self._context.emit(
            DiskTest(
                t_s=self._context.now_s(),
                stage=self._spec.stage,
                worker=self._context.worker,
                subject=self._context.crew.subject,
                path=self._spec.path if place is None else place.path,
                filesystem="unknown" if place is None else place.filesystem,
                device="unknown" if place is None else place.device,
                how=self._how,
                total_gib=0.0 if place is None else place.total / GIB,
                free_gib=0.0 if place is None else place.free / GIB,
                used_share=0.0 if place is None else place.used_share,
                written_mib=self._written * self._chunk_bytes / MIB,
                verified_mib=self._verified * self._chunk_bytes / MIB,
                wrong=self._wrong,
                trouble=self._trouble,
                error=self._error,
            )
        )


def wrong_text(offset: int) -> str:
    """What is wrong with a chunk."""
    return f"other data were read back than written, from byte {offset:#x} of the file on"


if __name__ == "__main__":
    sys.exit(serve_apart(lambda spec, context: DiskWork(spec, context).run(), DiskSpec))
