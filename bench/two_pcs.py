"""PCs on one LAN, accepted end to end: `PYTHONPATH=.:tests python3 bench/two_pcs.py --folder /tmp/two-pcs`.

Each PC is a network namespace of this machine, with the CPU as its device and a cable that carries `--mbit`
each way (tbf). A real Ray joins them, and a run goes through all that exchanges data: lan.route,
lan.bandwidth, collectives, and training together. Needs root, `ip` and `tc`, and a machine that has nothing
else to do: all of them share its CPUs. Prints JSON; the folder then holds what the run left, but its page.
"""

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

from support.network_hosts import Network, why_not
from support.ray_hosts import RayHosts

LENGTHS_S = {"sustained": 8, "route": 3, "lan": 3, "collective": 6, "ddp": 10}
LEVEL = "extended"  # the shortest that trains together
SLOW = 0.1  # of the others' rate


def run(names: list[str], mbit: float, slow: str, folder: Path) -> dict[str, Any]:
    """The result, with what failed."""
    with Network(*names, named=True) as network:
        for name in names:
            network.carry(name, mbit=mbit * (SLOW if name == slow else 1))
        hosts = RayHosts.of(network)
        for host in network.hosts.values():
            started = hosts.ray_start(host)
            if started.returncode:
                raise SystemExit(started.stdout)
        # No driver of these cards reports what they carry; an example more makes a tiny model's step longer.
        more = {
            "lan": f"link_mbit = {mbit:g}\nlibrary_s.{LEVEL} = 1.5\n",
            "collective": "",
            "ddp": "batch = 64\n",
        }
        profile = hosts.profile(
            rig=f"{len(names)}-pcs", start_s=120, stall_s=30, level=LEVEL, more=more, **LENGTHS_S
        )
        ended = hosts.accept(profile, f"--hw-level={LEVEL}").end()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(ended.folder, folder, ignore=shutil.ignore_patterns("*.html", "junit.xml", "*.prom"))
        shutil.copy(profile, folder / "profile.toml")
        (folder / "terminal.txt").write_text(re.sub(r"/tmp/rpn-\S*/", "/tmp/", ended.output))
        failed = {
            " ".join(key): one["detail"] for key, one in ended.criteria.items() if one["outcome"] == "fail"
        }
        return {
            "verdict": ended.result["verdict"],
            "said": ended.output.splitlines()[-2],
            "status": ended.status,
            "failed": failed,
        }


def main() -> None:
    """Write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="for what the run leaves")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--mbit", type=float, default=1000.0)
    parser.add_argument("--slow", default="", help="a host whose cable carries a tenth of that, such as pc3")
    told = parser.parse_args()
    if reason := why_not():
        raise SystemExit(reason)
    names = [f"pc{number}" for number in range(1, told.hosts + 1)]
    print(json.dumps(run(names, told.mbit, told.slow, told.folder), ensure_ascii=False, indent=2))


if __name__ == "__main__":
    main()
