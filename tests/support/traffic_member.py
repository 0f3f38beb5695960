"""The all-reduces of the route stage between two ranks on this host, each a program of its own.

    python -m support.traffic_member '{"rank": …, "port": …, "megabytes": …, "arms": [[library, arm, …]]}'

prints what came of each arm, a JSON line each.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rigproof.host.addresses import free_ports
from rigproof.records.crews import Member
from rigproof.stages.route.stage import Came
from rigproof.stages.route.traffic import TrafficSpec, Tried, reduce_all
from support.acceptance import CHECKOUT
from support.network_hosts import PATIENCE_S
from support.printing import Printing
from support.real_runs import INSIDE

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Told:
    """What came of an arm at one rank."""

    tried: Tried
    came: Came
    more: Mapping[str, Any]

    @property
    def carrier(self) -> str:
        """The interface that sent most."""
        sent: Mapping[str, float] = self.more["sent_mb"]
        return max(sent, key=lambda name: sent[name])


def reduced(
    arms: Sequence[Tried], megabytes: float = 4.0, environment: Sequence[Mapping[str, str]] = ({}, {})
) -> list[list[Told]]:
    """What each of two ranks tells. `environment`: more variables of each."""
    (port,) = free_ports(LOOPBACK, 1)
    processes = []
    for rank, more in enumerate(environment):
        told = json.dumps({"rank": rank, "port": port, "megabytes": megabytes, "arms": arms})
        path = {"PYTHONPATH": f"{INSIDE}:{CHECKOUT}:{CHECKOUT / 'tests'}"}
        command = [sys.executable, "-m", "support.traffic_member", told]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        processes.append(subprocess.Popen(command, env=os.environ | path | more, **pipes))
    found = []
    for process in processes:
        output, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, f"{process.returncode}: {output}{errors}"
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("[")]
        found.append([Told(tuple(tried), came, more) for tried, came, more in lines])
    return found


def main() -> None:
    """One rank."""
    told = json.loads(sys.argv[1])
    rank, arms = told["rank"], tuple(tuple(one) for one in told["arms"])
    spec = TrafficSpec("route", LOOPBACK, told["port"], rank, 2, told["megabytes"], arms)

    def hear(*told: Any) -> None:
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()

    reduce_all(spec, Printing(f"pc{rank}/gpu0#0", Member("rig", rank, 2, None)), hear)


if __name__ == "__main__":
    main()
