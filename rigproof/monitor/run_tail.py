"""Follows the recording of the current run, read-only."""

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rigproof.monitor.run_state import ROUNDS_KEPT_S, RunState
from rigproof.monitor.snapshot import RunNow
from rigproof.records.disk.reading import PARQUET_FILE, RECORDING_FILE, SAMPLES, record_of_line
from rigproof.records.disk.store import FLUSH_S
from rigproof.records.disk.table_files import DamagedError, read_parts
from rigproof.records.disk.tables import part_files
from rigproof.records.fields import table_name
from rigproof.records.identity import RunInfo
from rigproof.records.limits import (
    RECORDING_BYTES_MAX,
    RECORDING_LINE_BYTES_MAX,
    FileRefusedError,
    open_plain,
)
from rigproof.records.measurements import Round
from rigproof.records.rows import TableError

# A run that writes nothing for this long was aborted: it may wait `start_s` (60 s) for its nodes.
SILENT_S = 90.0
ROUNDS = table_name(Round)
PARTS_KEPT = math.ceil(ROUNDS_KEPT_S / FLUSH_S) + 1
NEWEST = 5  # folders that are looked at: two runs at a time are rare
CHUNK = 2**20


class RunTail:
    """The newest run of a report folder that has not ended; `now` returns None if there is none."""

    def __init__(self, report_dir: Path) -> None:
        self._runs = Path(report_dir) / "runs"
        self._folder: Path | None = None
        self._state: RunState | None = None
        self._offset = 0
        self._rest = b""
        self._rounds_seen = (0, 0)  # the number of the last part, and its length

    def now(self, wall_s: float) -> RunNow | None:
        """Its state at `wall_s`, seconds since the epoch, with everything written since the last call."""
        try:
            found = self._running(wall_s)
            if found is None:
                self._folder = self._state = None
                return None
            folder, silent_s = found
            if folder != self._folder or (folder / RECORDING_FILE).stat().st_size < self._offset:
                self._folder, self._state, self._offset, self._rest = folder, None, 0, b""
                self._rounds_seen = (0, 0)
            self._read_on(folder)
        except (OSError, FileRefusedError):  # removed or unmounted in between, or not written by a run
            return None
        return None if self._state is None else self._state.now(wall_s, silent_s)

    def _running(self, wall_s: float) -> tuple[Path, float] | None:
        """The folder, and the seconds since something was written there.

        A run that ends joins the parts of its samples into a file: a run that has the file has ended.
        """
        names = sorted((path.name for path in self._runs.iterdir()), reverse=True)[:NEWEST]
        for folder in (self._runs / name for name in names):
            if (folder / PARQUET_FILE).exists():
                continue
            written = [_written_s(folder / name) for name in (RECORDING_FILE, *SAMPLES)]
            silent_s = max(0.0, wall_s - max(written))
            if written[0] > 0 and silent_s <= SILENT_S:
                return folder, silent_s
        return None

    def _read_on(self, folder: Path) -> None:
        for line in self._lines(folder / RECORDING_FILE):
            try:
                record = record_of_line(line)
            except ValueError:
                continue  # another version's: the known parts are shown
            if isinstance(record, RunInfo):
                self._state = RunState(record)
            elif self._state is not None:
                self._state.add(record)
        if self._state is not None:
            for one in self._new_rounds(folder / ROUNDS):
                self._state.add(one)

    def _new_rounds(self, folder: Path) -> Iterator[Round]:
        """The rounds that were written since the last call: of the first one those of the last seconds."""
        for number, path in part_files(folder)[-PARTS_KEPT:]:
            last, seen = self._rounds_seen
            if number < last:
                continue
            try:
                part = read_parts([partial(open_plain, path, RECORDING_BYTES_MAX)], ROUNDS)
                rounds = part.rows[ROUNDS].typed(Round)
            except (DamagedError, TableError):
                continue  # another version's, as above
            if (number, len(rounds)) != (last, seen):
                yield from list(rounds)[seen if number == last else 0 :]
                self._rounds_seen = (number, len(rounds))

    def _lines(self, path: Path) -> Iterator[bytes]:
        """The lines that were finished since the last call; a torn last one waits for its rest."""
        with open_plain(path, RECORDING_BYTES_MAX) as file:
            file.seek(self._offset)
            while chunk := file.read(CHUNK):
                self._offset += len(chunk)
                *lines, rest = chunk.split(b"\n")
                if lines:
                    lines[0] = self._rest + lines[0]
                    self._rest = b""
                self._rest = (self._rest + rest)[: RECORDING_LINE_BYTES_MAX + 1]  # more is refused as a line
                yield from lines


def _written_s(path: Path) -> float:
    """When it was last written; 0 if it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
