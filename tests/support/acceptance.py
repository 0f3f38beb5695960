"""Acceptance runs on the canned rig, in a process of their own, and what they left behind."""

import gc
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache, cached_property
from multiprocessing import forkserver
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
SHORT_PCS = CHECKOUT / "tests" / "support" / "short_pcs.toml"
PATIENCE_S = 240  # a step of seconds on a quiet machine
# pytest as a user has it: without the plugins that only these tests need, which take a quarter of a second.
PYTEST = (
    *("-m", "pytest", "-p", "no:cacheprovider"),
    *("-p", "no:hypothesispytest", "-p", "no:rerunfailures", "-p", "no:xdist"),
)


@dataclass(frozen=True)
class Run:
    """A run that has ended."""

    status: int
    output: str
    reports: Path

    @property
    def folder(self) -> Path:
        """The run's folder, by the name that points at the newest."""
        return (self.reports / "latest").resolve()

    @cached_property
    def result(self) -> dict[str, Any]:
        """verdict.json."""
        return json.loads((self.folder / "verdict.json").read_text())

    @cached_property
    def criteria(self) -> dict[tuple[str, str], dict[str, Any]]:
        """What verdict.json says about each criterion and subject."""
        return {(one["criterion"], one["subject"]): one for one in self.result["criteria"]}

    def outcome(self, criterion: str, subject: str) -> str:
        return self.criteria[criterion, subject]["outcome"]

    @cached_property
    def junit(self) -> dict[str, ElementTree.Element]:
        """The test cases of the run's junit.xml, by name; without that of the verdict."""
        cases = list(ElementTree.parse(self.folder / "junit.xml").iter("testcase"))
        named = {case.attrib["name"]: case for case in cases}
        assert len(named) == len(cases), "a test is there twice"
        verdict = named.pop("verdict")
        assert verdict.findtext("system-out") in self.output
        assert (verdict.find("error") is None) is (self.status == 0)
        return named

    @property
    def history(self) -> list[Path]:
        return sorted((self.reports / "history" / "two-nodes").glob("*"))


def runs_in_order(reports: Path) -> list[Path]:
    """The folders of its runs, the first one first: names of runs of one second do not tell which that is."""
    return sorted((reports / "runs").iterdir(), key=lambda run: (run / "recording.jsonl").stat().st_mtime_ns)


def properties(suite: ElementTree.Element) -> dict[str, str]:
    """What a JUnit test suite says of the run."""
    return {one.attrib["name"]: one.attrib["value"] for one in suite.iter("property")}


def python(
    *arguments: str | Path, cwd: Path = CHECKOUT, patience_s: float = PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """An interpreter of its own in which rigproof and `support` can be imported from the start."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=patience_s,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def run_pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Pytest in the checkout, as a user starts it, who does not have hypothesis."""
    return forked("pytest", ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments), CHECKOUT)


def rigproof(*arguments: str | Path, cwd: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    """The command line, as a user starts it."""
    return forked("rigproof", tuple(map(str, arguments)), cwd)


def _environment() -> dict[str, str]:
    path = [str(CHECKOUT), str(CHECKOUT / "tests"), os.environ.get("PYTHONPATH")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}


# Most of a short run's time goes into imports. A process that has done them is forked for each: a run still
# is a process of its own, with its own modules, signals, output and exit status. What pytest loads as a
# plugin is not among them, since pytest could not rewrite it any more. A run with a real Ray starts its own
# interpreter: Ray reads the environment when it is imported.
PRELOADED = (
    *("pytest", "ray", "pynvml", "pyarrow.parquet", "prometheus_client"),
    *("pyarrow.compute", "rich.live", "rich.markup", "tomlkit", "unittest", "xml.etree.ElementTree"),
    *("rigproof.run.simulated.trial", "rigproof.judging.judge", "rigproof.report.files.files"),
    *("rigproof.report.page.page", "rigproof.profiles.lint.rig"),
    *("rigproof.report.terminal.live", "rigproof.report.terminal.terminal"),
    *("rigproof.report.files.metrics", "rigproof.report.files.summary_md", "rigproof.records.disk.store"),
    *("rigproof.history.champion_keeping", "rigproof.history.storage", "rigproof.judging.attempts"),
    *("rigproof.cli.main", "execnet", "pandas"),  # pyarrow imports pandas where it is there
)
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload([*PRELOADED, "support.before_forks"])


@cache
def _start_server() -> None:
    """Start what is forked, where it finds `support`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", _environment()["PYTHONPATH"])
        forkserver.ensure_running()


def forked(module: str, arguments: tuple[str, ...], cwd: Path) -> subprocess.CompletedProcess[str]:
    """As `python -m module`, in a process that has imported much of rigproof already."""
    _start_server()
    with tempfile.TemporaryDirectory() as folder:
        written = (Path(folder) / "out", Path(folder) / "err")
        process = _FORKED.Process(target=_as_main, args=(module, arguments, cwd, _environment(), written))
        process.start()
        process.join(PATIENCE_S)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired([module, *arguments], PATIENCE_S)
        out, err = (path.read_text() for path in written)
        return subprocess.CompletedProcess([module, *arguments], process.exitcode, out, err)


def _as_main(
    module: str,
    arguments: tuple[str, ...],
    cwd: Path,
    environment: dict[str, str],
    written: tuple[Path, Path],
) -> None:
    gc.freeze()  # what was imported before the fork is no garbage of this run
    for stream, path in zip((sys.stdout, sys.stderr), written, strict=True):
        with path.open("wb") as file:
            os.dup2(file.fileno(), stream.fileno())
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    path = environment["PYTHONPATH"].split(os.pathsep)
    sys.path[:] = [str(cwd), *path, *(one for one in sys.path if one not in path)]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def accept(reports: Path, profile: Path, scenario: str, *options: str) -> Run:
    """`pytest -m hardware` on the canned rig."""
    done = run_pytest(
        "-p",
        "support.canned_rig",
        f"--canned={scenario}",
        "-m",
        "hardware",
        f"--hwprofile={profile}",
        f"--hw-report-dir={reports}",
        *options,
    )
    return Run(done.returncode, done.stdout + done.stderr, reports)
