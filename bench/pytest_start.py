"""What an installed rigproof adds to the start of a pytest that has nothing to do with it.

Two environments of the same packages, one with rigproof as its wheel installs it, and a project of one test.
Each arm starts `python -m pytest` there, in turns, after a first start that writes bytecode: with rigproof,
without it, and without the plugins of pytest that rigproof requires either.

    python3 bench/pytest_start.py --out pytest_start.json
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests")]

from rates import tell  # noqa: E402 - after the path

from support.environments import Environment  # noqa: E402

# Without the plugins that only rigproof's own tests need.
QUIET = (
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:hypothesispytest",
    "-p",
    "no:rerunfailures",
    "-p",
    "no:xdist",
)
REQUIRED = ("-p", "no:benchmark", "-p", "no:timeout")
ARMS = {"with": (), "without": (), "bare": REQUIRED}


def start(environment: Environment, project: Path, options: tuple[str, ...]) -> tuple[float, float]:
    """CPU time and wall-clock time of one start, in ms."""
    command = [environment.bin / "python", "-m", "pytest", *QUIET, *options]
    begun_s = time.monotonic()
    process = subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - begun_s
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"pytest ended with status {process.returncode}: {command}")
    return 1e3 * (usage.ru_utime + usage.ru_stime), 1e3 * wall_s


def main() -> None:
    """Start each arm in turns and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=40, help="starts of each arm")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    os.environ.pop("PYTHONPATH", None)
    taken: dict[str, list[tuple[float, float]]] = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory(prefix="rigproof-bench-") as name:
        project = Path(name) / "project"
        project.mkdir()
        (project / "test_one.py").write_text("def test_one():\n    pass\n")
        installed, without = (Environment(Path(name) / arm) for arm in ("with", "without"))
        installed.install_rigproof()
        environments = {"with": installed, "without": without, "bare": without}
        for turn in range(args.turns + 1):
            for arm, options in ARMS.items():
                took = start(environments[arm], project, options)
                if turn:  # the first one writes bytecode
                    taken[arm].append(took)
    figures: dict[str, object] = {"turns": args.turns, "load": os.getloadavg()[0]}
    for index, kind in enumerate(("cpu_ms", "wall_ms")):
        medians = {arm: statistics.median(one[index] for one in took) for arm, took in taken.items()}
        added = [a[index] - b[index] for a, b in zip(taken["with"], taken["without"], strict=True)]
        figures[kind] = {arm: round(median, 1) for arm, median in medians.items()} | {
            "added": round(statistics.median(added), 1),
            "ratio": round(medians["with"] / medians["without"], 3),
        }
    tell(figures, args.out)


if __name__ == "__main__":
    main()
