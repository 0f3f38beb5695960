"""The shell steps of the CI examples, run as runners do; the rig is simulated, and nothing is installed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from rigproof.records.verdict import EXIT_STATUS, Decision
from support.acceptance import CHECKOUT, SHORT_PCS
from support.workflow_steps import run_steps, steps

ACTION = CHECKOUT / "action.yml"
JOB = CHECKOUT / "examples" / "github" / "rig.yml"
GITLAB = CHECKOUT / "examples" / "gitlab" / "rig.gitlab-ci.yml"
JENKINS = (CHECKOUT / "examples" / "jenkins" / "Jenkinsfile").read_text()
SHELL = re.compile(r"\bsh ('{3}|')(.*?)\1", re.DOTALL)


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """A runner's variables. Its pip installs nothing, its rigproof simulates a rig without one GPU."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tmp_path / "temp").mkdir()
    real = f"PYTHONPATH={CHECKOUT} exec {sys.executable} -m rigproof"
    scripts = {
        "rigproof": f'{real} "$@" --simulate-inline --inject gpu-missing@pc1/gpu0',
        "pip": f'echo "$@" >> {tmp_path}/installed',
        "python3": f'test "$1 $2" = "-m venv" && mkdir -p "$3/bin" && ln -s {tools}/* "$3/bin"',
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


def ends(folder: Path, status: int) -> None:
    """From now on rigproof leaves its arguments in its reports, and ends so."""
    text = f"""#!/bin/bash
said="$*" reports=reports
while [ "$1" ]; do
    case $1 in
    --report-dir) reports=$2 ;;
    --junit-xml) touch "$2" ;;
    esac
    shift
done
mkdir -p "$reports/latest" && echo "$said" > "$reports/latest/summary.md"
exit {status}
"""
    (folder / "tools" / "rigproof").write_text(text)


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
    ends(tmp_path, status)
    statuses = [done.returncode for _, done in run_steps(JOB, tmp_path / "work", runner)]
    assert statuses == [0, 0, status, 0]
    assert "accept --hwprofile ./lab.toml --require-gpu" in (tmp_path / "summary").read_text()


def shell(script: str, folder: Path, environment: dict[str, str]) -> int:
    command = ("sh", "-e", "-c", script)
    return subprocess.run(command, cwd=folder, env=environment, timeout=60, check=False).returncode


@pytest.mark.parametrize("status", [0, 1, 4, 6])
def test_gitlab_ends_as_rigproof_does(runner: dict[str, str], tmp_path: Path, status: int) -> None:
    ends(tmp_path, status)
    job = YAML(typ="safe").load(GITLAB.read_text())["rig"]
    assert shell("\n".join(job["script"]), tmp_path / "work", {**runner, "CI_RUNNER_ID": "7"}) == status
    assert (tmp_path / "work" / job["artifacts"]["reports"]["junit"].replace("$CI_RUNNER_ID", "7")).exists()


@pytest.mark.parametrize("status", [0, 1, 4, 6])
def test_jenkins_ends_as_rigproof_does(runner: dict[str, str], tmp_path: Path, status: int) -> None:
    ends(tmp_path, status)
    folder, environment = tmp_path / "work", {**runner, "REPORTS": f"{tmp_path}/kept"}
    install, accept, keep = (script for _, script in SHELL.findall(JENKINS))
    statuses = [shell(one, folder, environment) for one in (install, accept, keep)]
    assert statuses == [0, status, 0]
    assert {name for name in ("rigproof.xml", "run") if (folder / name).exists()} == {"rigproof.xml", "run"}
    assert "--hwprofile ./lab.toml --require-gpu" in (folder / "run" / "summary.md").read_text()
    (tmp_path / "kept" / "latest" / "summary.md").unlink()
    (tmp_path / "kept" / "latest").rmdir()
    assert shell(keep, folder, environment) == 0, "there is none if the run was refused"
    assert not (folder / "run").exists(), "an earlier run's"


def test_groovy_reads_the_pipeline() -> None:
    parser = pytest.importorskip("groovy_parser.parser", reason="groovy-parser is not installed")
    parser.parse_groovy_content(JENKINS)
    with pytest.raises(Exception, match="Unexpected"):
        parser.parse_groovy_content(JENKINS.partition("options")[0])  # braces that nothing closes
