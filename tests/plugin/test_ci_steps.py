"""The shell steps of the CI examples, run as runners do; the rig is simulated, and nothing is installed."""

import os
import sys
from pathlib import Path

import pytest

from rigproof.records.verdict import EXIT_STATUS, Decision
from support.acceptance import CHECKOUT, SHORT_PCS
from support.workflow_steps import run_steps, steps

ACTION = CHECKOUT / "action.yml"
JOB = CHECKOUT / "examples" / "github" / "rig.yml"


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """A runner's variables. Its pip installs nothing, its rigproof simulates a rig without one GPU."""
    tools = tmp_path / "temp" / "rigproof" / "bin"
    tools.mkdir(parents=True)
    real = f"PYTHONPATH={CHECKOUT} exec {sys.executable} -m rigproof"
    scripts = {
        "rigproof": f'{real} "$@" --simulate-inline --inject gpu-missing@pc1/gpu0',
        "pip": f'echo "$@" >> {tmp_path}/installed',
        "python3": f'test "$*" = "-m venv {tmp_path}/temp/rigproof"',
    }
    for name, script in scripts.items():
        (tools / name).write_text(f"#!/bin/bash\n{script}\n")
        (tools / name).chmod(0o755)
    (tmp_path / "work").mkdir()
    return {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "GITHUB_ACTIONS": "true",
        "GITHUB_ACTION_PATH": str(CHECKOUT),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "HOME": str(tmp_path),
    }


def test_an_action_rejects_the_rig_and_says_why(runner: dict[str, str], tmp_path: Path) -> None:
    inputs = {"profile": str(SHORT_PCS), "level": "quick", "report-dir": f"{tmp_path}/kept $(reports)"}
    install, accept, summary = (done for _, done in run_steps(ACTION, tmp_path / "work", runner, inputs))
    statuses = [done.returncode for done in (install, accept, summary)]
    assert statuses == [0, EXIT_STATUS[Decision.REJECTED], 0], accept.stdout + accept.stderr
    assert f"-c {CHECKOUT}/constraints.txt {CHECKOUT}" in (tmp_path / "installed").read_text()
    assert "::error title=SIMULATED pc1/gpu0 inventory.gpus_present" in accept.stdout
    assert "inventory.gpus_present" in (tmp_path / "summary").read_text()
    assert (tmp_path / "kept $(reports)" / "latest" / "junit.xml").exists()


def test_an_action_that_is_refused_shows_no_earlier_summary(runner: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "work" / "reports" / "runs" / "earlier").mkdir(parents=True)
    (tmp_path / "work" / "reports" / "runs" / "earlier" / "summary.md").write_text("ACCEPTED")
    (tmp_path / "work" / "reports" / "latest").symlink_to("runs/earlier")
    inputs = {"profile": "./none.toml", "level": "quick", "report-dir": "reports"}
    statuses = [done.returncode for _, done in run_steps(ACTION, tmp_path / "work", runner, inputs)]
    assert statuses == [0, 4, 0]
    assert not (tmp_path / "summary").exists()


def test_an_action_takes_its_defaults_and_names_every_input() -> None:
    text = ACTION.read_text()
    for name in ("profile", "level", "report-dir"):
        assert f"inputs.{name} " in text
    assert all(step.get("shell", "bash") == "bash" for step in steps(ACTION))


@pytest.mark.parametrize("status", [0, 1, 4, 6])
def test_a_job_ends_as_rigproof_does(runner: dict[str, str], tmp_path: Path, status: int) -> None:
    tool = tmp_path / "temp" / "rigproof" / "bin" / "rigproof"
    tool.write_text(
        f"#!/bin/bash\nmkdir -p reports/latest; echo $* > reports/latest/summary.md; exit {status}\n"
    )
    (tmp_path / "work" / ".ci" / "rigproof").mkdir(parents=True)
    (tmp_path / "work" / ".ci" / "rigproof" / "constraints.txt").touch()
    statuses = [done.returncode for _, done in run_steps(JOB, tmp_path / "work", runner)]
    assert statuses == [0, 0, status, 0]
    assert "accept --hwprofile ./lab.toml --require-gpu" in (tmp_path / "summary").read_text()
