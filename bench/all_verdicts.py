"""Every verdict of every recording that the project can make: two files of it show what a change did.

python3 bench/all_verdicts.py --out before.jsonl
python3 bench/all_verdicts.py --out after.jsonl && diff before.jsonl after.jsonl

It judges the committed recordings, and simulated runs of each rig of hwprofiles, of a card that nobody listed
and of unlike cards beside each other: one without a fault, and one with each fault at its defaults and with
the other keys that docs/faults.toml lists. Each line is a verdict with all its fields, or why a fault was
refused. Figures have 12 digits, so that the order in which a sum is made shows no difference; the lines are
sorted. All of it takes about an hour of one CPU, level quick alone seven minutes.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests")]

from rigproof.judging.attempts import another_attempt  # noqa: E402
from rigproof.judging.catalogue import FAULTS  # noqa: E402
from rigproof.judging.expected_outcomes import whole_runs  # noqa: E402
from rigproof.judging.laps import judge_all  # noqa: E402
from rigproof.profiles.auto import completed  # noqa: E402
from rigproof.profiles.loading.files import profile_folder  # noqa: E402
from rigproof.profiles.loading.load import load_rig, over_defaults  # noqa: E402
from rigproof.profiles.loading.loaded import LoadedRig  # noqa: E402
from rigproof.records.disk.store import read_recording  # noqa: E402
from rigproof.records.verdict import Verdict  # noqa: E402
from rigproof.run.simulated.trial import simulated_recording  # noqa: E402
from rigproof.simulation.faults.parsing import FaultError  # noqa: E402
from rigproof.simulation.host import simulated_inventory  # noqa: E402
from rigproof.stages.registry import KINDS  # noqa: E402

LEVELS = ("quick", "standard", "extended")
IN_REAL_TIME = "nvml-hang"  # takes ten real seconds, as its deadline does
MADE: dict[str, list[list[str]]] = {  # the cards of each node
    "unknown-card": [["unknown", "unknown"]],
    "unlike-cards": [["a10g"], ["l4", "l4"], ["rtx-4090"], ["h100-sxm", "rtx-3070"]],
}
RIGS = (*(path.stem for path in sorted((profile_folder() / "rigs").glob("*.toml"))), *MADE)
# The others are dual-3090-3070 with other plans, which quick and standard tell apart.
AT_LENGTH = ("dual-3090-3070", "h200-x2", "unknown-card", "unlike-cards")


@cache
def rig(name: str) -> LoadedRig:
    """The rig, with what its profile leaves open."""
    if name in MADE:
        nodes = [
            {"name": f"n{number}", "cpus": 8 * len(skus), "gpus": [{"sku": sku} for sku in skus]}
            for number, skus in enumerate(MADE[name])
        ]
        loaded = over_defaults({"name": name, "nodes": nodes}, name, KINDS)
    else:
        loaded = load_rig(name, KINDS)
    return completed(loaded, simulated_inventory(loaded))


def faults_of(name: str) -> list[str]:
    """Each fault and variant on the last subject of the rig that can notice it, as `--inject` takes them."""
    loaded = rig(name)
    found = []
    for case in whole_runs():
        lacks = case.fault.lacks
        subjects = [one.subject for one in loaded.devices() if lacks is None or not lacks(loaded, one)]
        if case.fault.scope == "node":
            subjects = [one.name for one in loaded.rig.nodes]
        if subjects and case.fault.name != IN_REAL_TIME:
            found.append(f"{case.fault.name}@{subjects[-1]}" + (f":{case.keys}" if case.keys else ""))
    return found


def judged_run(place: tuple[str, str, str]) -> list[str]:
    """The lines of one simulated run: its rig, its level, and its fault or an empty text."""
    name, level, fault = place
    said = f"simulated {name} {level} {fault or 'healthy'}"
    try:
        faults = [fault] if fault else []
        recording = simulated_recording(rig(name), level, faults, another_attempt=another_attempt)
    except FaultError as error:
        return [json.dumps({"run": said, "refused": str(error)})]
    return lines(said, judge_all(recording))


def judged_folder(path: Path) -> list[str]:
    """The lines of one committed recording."""
    return lines(f"recorded {path.relative_to(CHECKOUT)}", judge_all(read_recording(path)))


def lines(run: str, verdicts: Iterable[Verdict]) -> list[str]:
    """One for each verdict."""
    return [json.dumps({"run": run, **_rounded(asdict(one))}) for one in verdicts]


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.12g}")
        case dict():
            return {name: _rounded(one) for name, one in value.items()}
        case list() | tuple():
            return [_rounded(one) for one in value]
        case _:
            return value


def main() -> int:
    """Judge and write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--level", action="append", choices=LEVELS, help="default: all of them")
    options.add_argument("--rig", action="append", choices=RIGS, metavar="RIG", help="default: all of them")
    options.add_argument(
        "--fault", action="append", choices=FAULTS, metavar="FAULT", help="default: none, and all of them"
    )
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    places = [
        (name, level, fault)
        for level in given.level or LEVELS
        for name in given.rig or (AT_LENGTH if level == "extended" else RIGS)
        for fault in ["", *faults_of(name)]
        if not given.fault or fault.partition("@")[0] in given.fault
    ]
    folders = [path.parent for path in sorted(CHECKOUT.glob("reports/samples/**/recording.jsonl"))]
    with ProcessPoolExecutor(given.jobs) as pool:
        found = [*pool.map(judged_folder, folders), *pool.map(judged_run, places, chunksize=8)]
    given.out.write_text("\n".join(sorted(line for some in found for line in some)) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
