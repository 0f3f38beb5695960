"""A worker's context in a program on a host: what is emitted is printed, a JSON line each, and read here."""

import json
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rigproof.records.crews import Member


@dataclass
class Printing:
    """What a worker gives its workload; nobody tells it to stop."""

    worker: str
    crew: Member
    subject: str = "rig"
    objects: None = None

    def now_s(self) -> float:
        return time.monotonic()  # one kernel's: the same on all hosts

    def emit(self, record: Any) -> None:
        sys.stdout.write(json.dumps([type(record).__name__, asdict(record)]) + "\n")
        sys.stdout.flush()

    def alive(self) -> None:
        """Nobody counts it."""

    def stopped(self) -> bool:
        return False


def printed(lines: Iterable[str], kinds: Mapping[str, type]) -> list[Any]:
    """The records in what such a program printed."""
    found = []
    for line in lines:
        if line.startswith("["):
            name, fields = json.loads(line)
            own = {key: tuple(one) if isinstance(one, list) else one for key, one in fields.items()}
            found.append(kinds[name](**own))
    return found
