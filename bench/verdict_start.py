"""What `rigproof verdict` takes, against a Python that does nothing.

Both start in turns; of each the median counts. The folder has as many runs as a year of nightly tests leaves.

    python3 bench/verdict_start.py --out verdict_start.json
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(CHECKOUT)]

from rates import tell  # noqa: E402 - after the path

RUNS = 365
ARMS = {"verdict": ("-m", "rigproof", "verdict"), "nothing": ("-c", "pass")}


def main() -> None:
    """Start both in turns and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=30, help="starts of each arm")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    sample = json.loads((CHECKOUT / "reports/samples/h200-x2-quick/verdict.json").read_text())
    taken_s: dict[str, list[float]] = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory(prefix="rigproof-bench-") as name:
        for number in range(RUNS):  # of another machine, so that all of them are read
            run = Path(name) / "reports" / "runs" / f"2026{number:04d}"
            run.mkdir(parents=True)
            (run / "verdict.json").write_text(json.dumps(sample, indent=1))
        for _ in range(args.turns):
            for arm, arguments in ARMS.items():
                begun_s = time.monotonic()
                command = [sys.executable, *arguments]
                subprocess.run(
                    command,
                    cwd=name,
                    env={"PYTHONPATH": str(CHECKOUT)},
                    stdout=subprocess.DEVNULL,
                    check=False,
                )
                taken_s[arm].append(time.monotonic() - begun_s)
    found = {f"{arm}_s": round(statistics.median(seconds), 3) for arm, seconds in taken_s.items()}
    tell({**found, "runs_read": RUNS, "turns": args.turns}, args.out)


if __name__ == "__main__":
    main()
