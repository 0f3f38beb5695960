"""How often a healthy simulated rig with noise is not accepted: each seed on the next rig of hwprofiles/rigs.

python3 bench/false_alarms.py --seeds 200 --out reports/samples/bench/false_alarms.json
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import get_args

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.files import stems
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.verdict import Outcome, Verdict, decide, sentence
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS


def rigs_with_gpus() -> list[str]:
    """The shipped rigs that can be simulated, by name."""
    loaded = {name: load_rig(name, KINDS) for name in sorted(stems("rigs"))}
    return [name for name, rig in loaded.items() if all(one.gpu.device == "cuda" for one in rig.devices())]


def alarms(verdicts: list[Verdict]) -> list[Verdict]:
    """Those that say anything against the rig."""
    return [one for one in verdicts if one.outcome in (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)]


def main() -> int:
    """Run them, print each that is not accepted, write the counts."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=200)
    options.add_argument("--level", default="standard", choices=get_args(LevelName))
    options.add_argument("--out", type=Path)
    args = options.parse_args()
    rigs = rigs_with_gpus()
    outcomes: Counter[str] = Counter()
    decisions: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    found, begun_s = [], time.monotonic()
    for seed in range(args.seeds):
        name = rigs[seed % len(rigs)]
        verdicts = judge_all(simulated_recording(load_rig(name, KINDS), args.level, seed=seed))
        runs[name] += 1
        outcomes.update(one.outcome.value for one in verdicts)
        decisions[decide(verdicts).value] += 1
        against = alarms(verdicts)
        found += [f"{name} seed {seed}: {sentence(one)}" for one in against]
    document = {
        "what": "healthy simulated rigs with seeded noise; every alarm would be a false one",
        "level": args.level,
        "runs": args.seeds,
        "runs_by_rig": dict(runs),
        "decisions": dict(decisions),
        "verdicts": sum(outcomes.values()),
        "outcomes": {outcome.value: outcomes[outcome.value] for outcome in Outcome},
        "alarms": found,
        "seconds": round(time.monotonic() - begun_s, 1),
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    print(text, end="")
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text, encoding="utf-8")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
