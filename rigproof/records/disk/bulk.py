"""Reads the many plain lines of a recording, rounds above all, by the block and as columns.

Ten thousand lines of one kind are read at a time (`plain_lines`). Whatever is not plainly right (a field that
is missing, a word that no record has, an error) leaves those of a block to be read line by line, which finds
the place and says what is wrong there.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rigproof.records.disk.collecting import Collector
from rigproof.records.disk.plain_lines import PlainLines
from rigproof.records.measurements import MemoryReading, RewardBatch, Round
from rigproof.records.recording import Recording

if TYPE_CHECKING:
    import pyarrow as pa

BULK = {"round": Round, "memory": MemoryReading, "rewards": RewardBatch}
FEWEST = 64  # lines; fewer are read sooner one by one
_PREFIXES = {tag: f'{{"type":"{tag}",'.encode() for tag in BULK}
_NEWLINE = ord("\n")


@dataclass(frozen=True, slots=True)
class Block:
    """What was read of so many lines: tables by kind, and those that are `left`, each with its place."""

    lines: int
    tables: "dict[str, pa.Table]"
    left: list[tuple[int, bytes]]


class BulkReader:
    """Takes blocks of whole lines and keeps what it could read as columns."""

    def __init__(self) -> None:
        self.collectors: dict[str, Collector[Any]] = {tag: Collector(record) for tag, record in BULK.items()}
        self._plain = {tag: PlainLines(tag, one.kinds) for tag, one in self.collectors.items()}

    def read(self, block: bytes) -> "Block":
        """What can be read of these lines as columns. Keeps nothing: a thread may be ahead with it."""
        lines, tables = _Lines(block), {}
        left = np.ones(len(lines), np.bool_)
        for tag, prefix in _PREFIXES.items():
            own = lines.beginning(prefix)
            if own.true_count < FEWEST:
                continue
            table = self._plain[tag].table(lines.text(own), lines.line(own.index(True).as_py()))
            if table is not None and len(table) == own.true_count:
                tables[tag] = table
                left &= ~own.to_numpy(zero_copy_only=False)
        places = np.flatnonzero(left).tolist()
        return Block(len(lines), tables, [(place, lines.line(place)) for place in places])

    def keep(self, block: "Block") -> None:
        """Puts what was read behind the rest."""
        for tag, table in block.tables.items():
            self.collectors[tag].add(table)

    def add(self, record: object) -> bool:
        """Keeps a record that was read by itself; False where it is of another kind."""
        for collector in self.collectors.values():
            if isinstance(record, collector.record):
                collector.add_record(record)
                return True
        return False

    def put_into(self, recording: Recording) -> None:
        """Gives what was read to a Recording that has none of it yet."""
        recording.rounds = self.collectors["round"].rows()
        recording.memory = self.collectors["memory"].rows()
        recording.rewards = self.collectors["rewards"].rows()


class _Lines:
    """The lines of a block, each with its end; the last one may lack it."""

    def __init__(self, block: bytes) -> None:
        import pyarrow as pa  # noqa: PLC0415

        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE) + 1
        if len(block) and not block.endswith(b"\n"):
            ends = np.append(ends, len(block))
        bounds = np.concatenate(([0], ends)).astype(np.int32)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(block)]
        self._lines = pa.BinaryArray.from_buffers(pa.binary(), len(bounds) - 1, buffers)

    def __len__(self) -> int:
        """How many."""
        return len(self._lines)

    def beginning(self, prefix: bytes) -> "pa.BooleanArray":
        """Which lines begin with that."""
        import pyarrow.compute as pc  # noqa: PLC0415

        return pc.starts_with(self._lines, prefix)

    def text(self, which: "pa.BooleanArray") -> "pa.Buffer":
        """These lines, one behind the other."""
        _, _, text = self._lines.filter(which).buffers()
        return text

    def line(self, place: int) -> bytes:
        """One of them."""
        line: bytes = self._lines[place].as_py()
        return line
