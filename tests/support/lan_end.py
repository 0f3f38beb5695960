"""One end of the LAN stage, as a program on a host (`python -m support.lan_end JSON`): prints its records."""

import json
import sys
from typing import Any

from rigproof.records.crews import Member
from rigproof.stages.lan import workload
from rigproof.stages.lan.stage import STAGE, LanSpec
from rigproof.stages.lan.workload import Exchange
from support.network_hosts import PATIENCE_S
from support.printing import Printing


def end(told: dict[str, Any]) -> None:
    """One end, to its end."""
    place = told["place"]
    workload.MEET_S = PATIENCE_S
    crew = Member(told["pair"], told["rank"], 2, (place[0], place[1]))
    spec = LanSpec(STAGE, told["node"], told.get("cuda", False), told["tcp_s"], told["library_s"], 0.0, 0.05)
    Exchange(spec, Printing(f"{told['node']}/gpu0#0", crew)).run()


if __name__ == "__main__":
    end(json.loads(sys.argv[1]))
