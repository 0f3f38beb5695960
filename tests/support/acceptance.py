"""Acceptance runs on the canned rig, in a process of their own, and what they left behind."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE_S = 240  # a step of seconds on a quiet machine


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
        """The test cases of the run's junit.xml, by name."""
        cases = list(ElementTree.parse(self.folder / "junit.xml").iter("testcase"))
        named = {case.attrib["name"]: case for case in cases}
        assert len(named) == len(cases), "a test is there twice"
        return named

    @property
    def history(self) -> list[Path]:
        return sorted((self.reports / "history" / "two-nodes").glob("*"))


def properties(case: ElementTree.Element) -> dict[str, str]:
    """What a JUnit test case says besides its outcome."""
    return {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")}


def python(
    *arguments: str | Path, cwd: Path = CHECKOUT, patience_s: float = PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """An interpreter of its own in which rigproof and `support` can be imported from the start."""
    path = [str(CHECKOUT), str(CHECKOUT / "tests"), os.environ.get("PYTHONPATH")]
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))},
        capture_output=True,
        text=True,
        timeout=patience_s,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def run_pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Pytest in the checkout, as a user starts it."""
    return python("-m", "pytest", "-p", "no:cacheprovider", *arguments)


def rigproof(*arguments: str | Path, cwd: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    """The command line, as a user starts it."""
    return python("-m", "rigproof.cli.main", *arguments, cwd=cwd)


def accept(reports: Path, profile: Path, scenario: str, *options: str) -> Run:
    """`pytest -m hardware` on the canned rig."""
    done = run_pytest(
        "-p",
        "support.canned_rig",
        f"--canned={scenario}",
        "-m",
        "hardware",
        f"--hwprofile={profile}",
        f"--report-dir={reports}",
        *options,
    )
    return Run(done.returncode, done.stdout + done.stderr, reports)
