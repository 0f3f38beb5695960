"""Do the tests notice mistakes? A seeded sample of mutations, each run against the nearest tests, then wider.

Exit status: 0 where at least `--least` of the sample was killed, 1 where less, 2 where the tests fail by
themselves.
"""

import argparse
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

from mutations import Mutation, all_of, picked

ROOT = Path(__file__).resolve().parents[1]
# What loads a rig, decides whether it is accepted, and how long it is waited for.
PROFILES = ("lint/*", "planning/plan*", "planning/floor_basis", "loading/structure")
CLUSTER = ("driver/stage_loop", "driver/workers", "driver/agents", "ray/calls")
SCOPE = (
    "rigproof/criteria/*.py",
    "rigproof/criteria/*/*.py",
    "rigproof/stages/*/*.py",
    "rigproof/devices/*.py",
    "rigproof/host/*.py",
    "rigproof/judging/*.py",
    "rigproof/history/*.py",
    *(f"rigproof/profiles/{name}.py" for name in PROFILES),
    *(f"rigproof/cluster/{name}.py" for name in CLUSTER),
)
JUDGED = ("criteria", "judging", "stages")  # the tests of one are near those of the others
# Where else a stage shows what it does: in what is refused of a profile, and in simulated runs of faults.
STAGE_SHOWN_BY = {
    "stage": "tests/unit/profiles",
    "simulated": "tests/simulation/test_expected_outcomes.py",
}
SEED = 1
SAMPLE = 150
LEAST = 0.95
TEST_LIMIT_S = 120  # a test of these takes 7 s at most: what takes longer hangs, and is killed by that
PYTEST = ("-q", "-x", "--no-header", "--tb=no", "-rfE", "-p", "no:cacheprovider")
HYPOTHESIS = "--hypothesis-profile=first-failure"  # of tests/unit/conftest.py
LIMITS_IN_A_RUN = 10  # a run that takes longer than so many tests may take hangs, too
OUTPUT = "output.txt"
NO_TESTS = 5  # pytest's exit status
TESTS_FAILED = 1
UNCOPIED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")


@dataclass(frozen=True)
class Explained:
    """Why a mutation that survives is no gap in the tests."""

    path: str
    definition: str
    operator: str
    before: str
    why: str

    def covers(self, one: Mutation) -> bool:
        """Whether it is about this mutation."""
        same = (one.path, one.definition, one.before) == (self.path, self.definition, self.before)
        return same and fnmatch(one.operator, self.operator)


@dataclass(frozen=True)
class Outcome:
    """What became of a mutation: `ring` says which tests killed it, `by` the first one; "" where none did."""

    mutation: Mutation
    after: str
    ring: str
    by: str
    seconds: float

    @property
    def text(self) -> str:
        """Where it is and what it does, in one line."""
        one = self.mutation
        return f"{one.path}:{one.line} {one.operator}\n    - {one.before}\n    + {self.after}"


def copied(folder: Path) -> Path:
    """A copy of the checkout, compiled so that a change of a file is always noticed."""
    shutil.copytree(ROOT, folder, ignore=UNCOPIED)
    compiling = ("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "rigproof")
    subprocess.run([sys.executable, *compiling], cwd=folder, check=True)
    return folder


@dataclass(frozen=True)
class Trial:
    """How tests are run: the seed of hypothesis, and the longest that one may take."""

    seed: int
    test_limit_s: int
    nearest_only: bool

    def status(self, copy: Path, arguments: Sequence[str], *, write_bytecode: bool = False) -> int:
        """pytest's exit status."""
        environment = os.environ | {"PYTHONPATH": str(copy)}
        if not write_bytecode:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        limits = (HYPOTHESIS, f"--hypothesis-seed={self.seed}", f"--timeout={self.test_limit_s}")
        with (copy / OUTPUT).open("wb") as output:
            # A session of its own: what a mutation leaves behind ends with it.
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *PYTEST, *limits, *arguments],
                cwd=copy,
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                return process.wait(LIMITS_IN_A_RUN * self.test_limit_s)
            except subprocess.TimeoutExpired:
                return TESTS_FAILED
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def output_of(copy: Path) -> str:
    """What the last run of pytest printed."""
    return (copy / OUTPUT).read_text(encoding="utf-8", errors="replace")


def first_failure(output: str) -> str:
    """The test that failed, or what pytest printed last."""
    lines = [line for line in output.splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return (failed or lines or [""])[-1][:200]


def tests_of(copy: Path, path: str) -> tuple[list[str], list[str]]:
    """The nearest tests of a file; and the folders of all that are near, with its simulated runs."""
    _, *rooms = Path(path).parent.parts
    name, unit = Path(path).stem, Path("tests", "unit")
    folders = JUDGED if rooms[0] in JUDGED else rooms[:1]
    own_folder = copy / unit.joinpath(*rooms)
    named = (*own_folder.glob(f"test_{name}.py"), *own_folder.glob(f"test_{name}_*.py"))
    # test_host_limits.py is of host_limits.py, where there is one, and not of host.py.
    others = {f"test_{one.stem}.py" for one in (copy / path).parent.glob(f"{name}_*.py")}
    own = sorted(one for one in named if one.name not in others)
    package = ".".join(("rigproof", *rooms))
    imported = (f"{package}.{name} import", f"{package} import {name}\n")
    tests = sorted((copy / unit / rooms[0]).rglob("test_*.py"))
    nearest = own or [one for one in tests if any(line in one.read_text("utf-8") for line in imported)]
    simulated = [one.relative_to(copy) for one in (copy / "tests" / "simulation").glob(f"test_{name}.py")]
    if rooms[0] == "stages" and name in STAGE_SHOWN_BY:
        simulated.append(Path(STAGE_SHOWN_BY[name]))
    wider = [*(unit / folder for folder in folders), *simulated]
    return [str(one.relative_to(copy)) for one in nearest], list(map(str, wider))


def tried(copies: "queue.Queue[Path]", trial: Trial, one: Mutation) -> Outcome:
    """Run the tests against one mutation, in whichever copy is free."""
    copy = copies.get()
    begin_s = time.monotonic()
    file = copy / one.path
    source = file.read_text(encoding="utf-8")
    mutated = one.applied_to(source)
    after = mutated.splitlines()[one.line - 1].strip()
    try:
        file.write_text(mutated, encoding="utf-8")
        ring, by = _killed_by(copy, trial, one.path)
        return Outcome(one, after, ring, by, time.monotonic() - begin_s)
    finally:
        file.write_text(source, encoding="utf-8")
        copies.put(copy)


def _killed_by(copy: Path, trial: Trial, path: str) -> tuple[str, str]:
    nearest, folders = tests_of(copy, path)
    wider = [*folders, *(f"--ignore={name}" for name in nearest)]
    rings = [("nearest", nearest)] if nearest else []
    if not (nearest and trial.nearest_only):
        rings.append(("wider", wider))
    for ring, arguments in rings:
        status = trial.status(copy, arguments)
        if status not in (0, NO_TESTS):
            return ring if status == TESTS_FAILED else "import", first_failure(output_of(copy))
    return "", ""


def without_mutation_they_pass(copies: Sequence[Path], trial: Trial, paths: Sequence[str]) -> bool:
    """Whether all tests pass: one that fails anyway would kill every mutation."""
    found = [tests_of(copies[0], path) for path in paths]
    chosen = {folder for _, folders in found for folder in folders}
    if trial.nearest_only:
        chosen = {name for nearest, folders in found for name in nearest or folders}
    for copy in copies:
        # The first copy's tests are run, the others' compiled at least.
        only_compiled = [] if copy == copies[0] else ["--collect-only"]
        if trial.status(copy, [*sorted(chosen), *only_compiled], write_bytecode=True):
            print(output_of(copy), file=sys.stderr)
            return False
    return True


def explanations(file: Path) -> list[Explained]:
    """What the file says."""
    tables = tomllib.loads(file.read_text(encoding="utf-8")).get("survivor", []) if file.exists() else []
    return [Explained(**one) for one in tables]


def reported(outcomes: Sequence[Outcome], known: Sequence[Explained], least: float) -> bool:
    """Print the score and who survived; whether enough were killed."""
    alive = [one for one in outcomes if not one.ring]
    killed = {ring: sum(one.ring == ring for one in outcomes) for ring in ("nearest", "wider", "import")}
    share = 1 - len(alive) / len(outcomes)
    for one in alive:
        why = [known_one.why for known_one in known if known_one.covers(one.mutation)]
        print(f"SURVIVED {one.text}\n    {'explained: ' + why[0] if why else 'NOT EXPLAINED'}")
    by_ring = f"{killed['nearest']} by the nearest tests, {killed['wider']} by wider ones"
    imports = f", {killed['import']} could not be imported" if killed["import"] else ""
    print(f"{len(outcomes) - len(alive)} of {len(outcomes)} killed, {100 * share:.1f} %: {by_ring}{imports}")
    return share >= least


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sample", type=int, default=SAMPLE, help=f"how many, {SAMPLE} by default; 0: all")
    parser.add_argument("--seed", type=int, default=SEED, help="which ones")
    parser.add_argument("--only", action="append", help="files, as a pattern: rigproof/criteria/w*.py")
    parser.add_argument("--within", action="append", help="functions or classes, by name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--least", type=float, default=LEAST, help="the share that must be killed")
    parser.add_argument("--test-limit", type=int, default=TEST_LIMIT_S, help="seconds that a test may take")
    parser.add_argument("--nearest", action="store_true", help="run the nearest tests alone")
    parser.add_argument("--list", action="store_true", help="only say which mutations")
    parser.add_argument("--out", type=Path, help="write what became of each, as JSON")
    parser.add_argument("--explained", type=Path, default=Path(__file__).with_name("mutants_explained.toml"))
    return parser.parse_args()


def _row(one: Outcome) -> dict[str, Any]:
    fields = ("path", "line", "definition", "operator", "before", "number")
    return {name: getattr(one.mutation, name) for name in fields} | {
        "after": one.after,
        "ring": one.ring,
        "by": one.by,
    }


def _tried_all(sample: Sequence[Mutation], trial: Trial, jobs: int) -> list[Outcome] | None:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [copied(Path(folder, str(number))) for number in range(max(1, jobs))]
        if not without_mutation_they_pass(copies, trial, [one.path for one in sample]):
            return None
        free: queue.Queue[Path] = queue.Queue()
        for copy in copies:
            free.put(copy)
        trying: Callable[[Mutation], Outcome] = partial(tried, free, trial)
        outcomes = []
        with ThreadPoolExecutor(len(copies)) as pool:
            for one in pool.map(trying, sample):
                print(
                    f"{one.ring or 'SURVIVED':8} {one.seconds:5.1f} s  {one.text}\n    {one.by}", flush=True
                )
                outcomes.append(one)
    return outcomes


def main() -> int:
    """Pick, try, report."""
    args = _arguments()
    every = all_of(ROOT, args.only or SCOPE)
    if args.within:
        every = [one for one in every if one.definition in args.within]
    sample = picked(every, args.seed, args.sample)
    if not sample:
        print("no file, or nothing in it, can be mutated", file=sys.stderr)
        return 2
    if args.list:
        for one in sample:
            print(f"{one.path}:{one.line} {one.definition} {one.operator} {one.before}")
        return 0
    print(f"{len(sample)} of {len(every)} mutations, seed {args.seed}", flush=True)
    trial = Trial(args.seed, args.test_limit, args.nearest)
    outcomes = _tried_all(sample, trial, args.jobs)
    if outcomes is None:
        print("the tests fail without any mutation: mend that first", file=sys.stderr)
        return 2
    if args.out:
        args.out.write_text(json.dumps([_row(one) for one in outcomes], indent=1, ensure_ascii=False) + "\n")
    return 0 if reported(outcomes, explanations(args.explained), args.least) else 1


if __name__ == "__main__":
    raise SystemExit(main())
