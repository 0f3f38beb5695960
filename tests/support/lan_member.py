"""A member of a crew of nodes, as a program on a host: the route stage between real hosts.

    python -m support.lan_member '{"rank": …, "nodes":…, "rendezvous": [host, port], "gloo": true, "gpus": …}'

prints what the workload emits, a JSON line each. Without `gloo` nothing is reduced, and no torch is loaded.
`gpus`: which nodes have one, so that NCCL is tried, too.
"""

import json
import sys

from rigproof.records.crews import Member
from rigproof.stages.route import workload
from rigproof.stages.route.stage import RouteSpec
from support.printing import Printing


def main() -> None:
    """One member."""
    told = json.loads(sys.argv[1])
    nodes = tuple(told["nodes"])
    if not told["gloo"]:
        workload.prepare = workload.reduce_all = lambda *_: None  # type: ignore[assignment,misc]
    member = Member("rig", told["rank"], len(nodes), tuple(told["rendezvous"]))
    context = Printing(f"{nodes[told['rank']]}/gpu0#0", member)
    workload.run_route(RouteSpec("route", nodes, 4.0, tuple(told["gpus"])), None, context)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
