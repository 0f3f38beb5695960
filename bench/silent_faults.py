"""Which simulated faults are neither refused nor noticed, in each stage, on each device of each rig?

python3 bench/silent_faults.py --out silent_faults.json

The tests try each fault in every second stage on one rig, in turns: tests/simulation/test_nothing_silent.py.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests")]

from rigproof.judging.laps import judge_all  # noqa: E402
from rigproof.run.simulated.trial import simulated_recording  # noqa: E402
from support.silent_faults import (  # noqa: E402
    LOUD,
    RIGS,
    STAGES,
    faults_in,
    level_of,
    refused,
    rig_of,
    silent,
    texts_of,
    together,
)


def swept(place: tuple[str, str]) -> tuple[str, str, int, list[str], list[str]]:
    """Of a rig and a stage: how many faults acted, the ones that were silent, and what is loud in health."""
    rig, stage = place
    texts = [
        text
        for fault in faults_in(stage)
        for text in texts_of(fault, stage, rig)
        if not refused(text, stage, rig)
    ]
    found = [one for several in together(texts) for one in alone(rig, stage, several)]
    return rig, stage, len(texts), found, healthy(rig, stage)


def alone(rig: str, stage: str, several: tuple[str, ...]) -> Iterator[str]:
    """Those that are silent in company, and by themselves."""
    for text in silent(rig, stage, several):
        if len(several) == 1 or silent(rig, stage, [text]):
            yield text


def healthy(rig: str, stage: str) -> list[str]:
    """What is loud without a fault: it would hide a silent one."""
    recording = simulated_recording(rig_of(rig, stage), level_of(stage))
    return [f"{one.subject} {one.criterion}" for one in judge_all(recording) if one.outcome in LOUD]


def main() -> int:
    """Sweep, print and write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rig", action="append", choices=RIGS)
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    places = [(rig, stage) for rig in given.rig or RIGS for stage in STAGES]
    table, quiet, loud = {}, [], []
    with ProcessPoolExecutor(given.jobs) as pool:
        for rig, stage, number, found, health in pool.map(swept, places):
            table.setdefault(rig, {})[stage or "any"] = number
            quiet += [f"{rig}: {text}" for text in found]
            loud += [f"{rig} {stage}: {one}" for one in health]
            print(rig, stage or "any", number, found, health, flush=True)
    result = {"acted": table, "silent": quiet, "loud_in_health": loud}
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if quiet or loud else 0


if __name__ == "__main__":
    sys.exit(main())
