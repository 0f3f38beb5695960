"""One end of the LAN stage, as a program on a host (`python -m support.lan_end JSON`): prints its records."""

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from rigproof.records.crews import Member
from rigproof.stages.lan import workload
from rigproof.stages.lan.stage import STAGE, LanSpec
from rigproof.stages.lan.workload import Exchange
from support.network_hosts import PATIENCE_S


@dataclass
class EndContext:
    """What a worker gives its workload; records are printed."""

    worker: str
    crew: Member
    subject: str = ""

    def now_s(self) -> float:
        return time.monotonic()  # one kernel's: the same on all hosts

    def emit(self, record: Any) -> None:
        sys.stdout.write(json.dumps([type(record).__name__, asdict(record)]) + "\n")
        sys.stdout.flush()

    def alive(self) -> None:
        """Nobody waits for it."""

    def stopped(self) -> bool:
        return False


def end(told: dict[str, Any]) -> None:
    """One end, to its end."""
    place = told["place"]
    workload.MEET_S = PATIENCE_S
    crew = Member(told["pair"], told["rank"], 2, (place[0], place[1]))
    spec = LanSpec(STAGE, told["node"], told.get("cuda", False), told["tcp_s"], told["library_s"], 0.0, 0.05)
    Exchange(spec, EndContext(f"{told['node']}/gpu0#0", crew)).run()


if __name__ == "__main__":
    end(json.loads(sys.argv[1]))
