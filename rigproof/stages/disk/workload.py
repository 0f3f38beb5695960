"""The disk stage's workload: a file is written where checkpoints are, past the page cache, and read back.

It runs in a process of its own: a disk that does not answer, such as a server of files that is down, hangs
that process and not the worker.
"""

import errno
import mmap
import os
from contextlib import closing
from typing import Literal

import numpy as np

from rigproof.devices.device import Device
from rigproof.devices.own_process import run_apart, serve_apart
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import WorkerContext
from rigproof.records.measurements import MB
from rigproof.stages.disk.scratch import Bytes, Place, ScratchFile, place_of
from rigproof.stages.disk.stage import READ, WRITE, DiskSpec, DiskTest

MODULE = "rigproof.stages.disk.workload"
STALL_S = 25.0  # without a message: a chunk takes as long at 0.7 MB/s
MIB, GIB = 2**20, 2**30
CHUNK_BYTES = 16 * MIB
PAGE_BYTES = 4096  # what O_DIRECT must be aligned to, on any disk
WRITE_SHARE = 0.5  # of the stage's length
FEWEST_CHUNKS = 4
MEANINGS = {
    errno.EIO: "the disk reports an input/output error; see `sudo dmesg`",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the user's quota is used up",
    errno.EROFS: "its file system is read-only; if it should not be, see `sudo dmesg`",
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
    silent = f"{spec.path}: the disk did not answer"
    run_apart(MODULE, spec, context, records=(DiskTest,), test="disk test", silent=silent, stall_s=STALL_S)


class DiskWork:
    """One file, from its beginning to its end."""

    def __init__(self, spec: DiskSpec, context: WorkerContext, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._spec = spec
        self._context = context
        self._reporter = Reporter(context, spec.stage, context.crew.subject)
        self._chunk = aligned(chunk_bytes)
        self._done = {WRITE: 0, READ: 0}  # chunks
        self._wrong = 0
        self._how: Literal["direct", "synced", ""] = ""

    def run(self) -> None:
        """Write, read back, and report. An error of the folder or the disk becomes a sentence."""
        place, trouble, error = Place(self._spec.path), "", ""
        try:
            place = place_of(self._spec.path)
            trouble = self._use(place)
        except OSError as failed:
            code = failed.errno or 0
            trouble = MEANINGS.get(code) or os.strerror(code)
            error = errno.errorcode.get(code, str(code))
        self._context.emit(
            DiskTest(
                t_s=self._context.now_s(),
                stage=self._spec.stage,
                worker=self._context.worker,
                subject=self._context.crew.subject,
                path=place.path,
                filesystem=place.filesystem,
                device=place.device,
                how=self._how,
                total_gib=place.total / GIB,
                free_gib=place.free / GIB,
                used_share=place.used_share,
                written_mib=self._done[WRITE] * len(self._chunk) / MIB,
                verified_mib=self._done[READ] * len(self._chunk) / MIB,
                wrong=self._wrong,
                trouble=trouble,
                error=error,
            )
        )

    def _use(self, place: Place) -> str:
        """Write a file there and read it back. Returns why nothing can be written; empty if it was."""
        if place.memory is not None:
            return f"{place.memory} keeps files in memory: that is no disk"
        most, reserve = (int(mib * MIB) for mib in (self._spec.most_mib, self._spec.reserve_mib))
        chunks = min(most, (place.free - reserve) // 2) // len(self._chunk)
        if chunks < FEWEST_CHUNKS:
            return (
                f"{place.free / GIB:.2f} GiB are free, too little to write beside the "
                f"{reserve / GIB:g} GiB that stay free"
            )
        begun_s, length_s = self._context.now_s(), self._spec.duration_s
        self._chunk[:] = np.frombuffer(os.urandom(len(self._chunk)), np.uint8)
        with closing(ScratchFile(place.path)) as file:
            self._pass(WRITE, file, self._chunk, chunks, begun_s + WRITE_SHARE * length_s)
            file.written()
            self._pass(READ, file, aligned(len(self._chunk)), self._done[WRITE], begun_s + length_s)
        return ""

    def _pass(self, operation: str, file: ScratchFile, data: Bytes, most: int, until_s: float) -> None:
        """Write or read chunks until the time is over, at least FEWEST_CHUNKS and at most `most`."""
        for number in range(most):
            late = number >= FEWEST_CHUNKS and self._context.now_s() > until_s
            if late or self._context.stopped():
                return
            mark_pages(self._chunk, number)
            at, begun_s = number * len(data), self._context.now_s()
            (file.write if operation == WRITE else file.read)(data, at)
            end_s = self._context.now_s()
            right = data is self._chunk or np.array_equal(data, self._chunk)
            if not right:
                self._wrong += 1
                at += int((data != self._chunk).argmax())
                self._reporter.event("disk_error", wrong_text(at), {"offset": at})
            self._done[operation] += 1
            self._how = "direct" if file.direct else "synced"
            self._reporter.round(
                phase="measure" if number else "warmup",
                seconds=max(end_s - begun_s, 1e-9),
                work=len(data) / 1e6,
                unit=MB,
                verified=right,
                labels={"operation": operation},
                t_s=end_s,
            )


def aligned(size: int) -> Bytes:
    """Room for that many bytes, which begins at a page of memory (O_DIRECT asks for that)."""
    return np.frombuffer(mmap.mmap(-1, size), np.uint8)


def mark_pages(chunk: Bytes, number: int) -> None:
    """Make random bytes chunk `number` of the file: each page begins with its own number.

    So no disk can store one page for several, and a page in the wrong place shows.
    """
    pages = chunk.view(np.uint64).reshape(-1, PAGE_BYTES // 8)
    pages[:, 0] = np.arange(len(pages)) + number * len(pages)


def wrong_text(offset: int) -> str:
    """What is wrong with a chunk."""
    return f"other data were read back than written, from byte {offset:#x} of the file on"


if __name__ == "__main__":
    serve_apart(lambda spec, context: DiskWork(spec, context).run(), DiskSpec)
