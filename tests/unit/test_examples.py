"""Each example is valid, as the tool that reads it says, and that tool refuses a broken one."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.acceptance import CHECKOUT

EXAMPLES = CHECKOUT / "examples"
PAGE = (CHECKOUT / "docs" / "ci.md").read_text()
SCHEMAS = {
    ".github/workflows/ci.yml": "vendor.github-workflows",
    ".github/workflows/release.yml": "vendor.github-workflows",
    "examples/github/rig.yml": "vendor.github-workflows",
    "action.yml": "vendor.github-actions",
    "examples/gitlab/rig.gitlab-ci.yml": "vendor.gitlab-ci",
}


def run(*command: str | Path, cwd: Path = EXAMPLES) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_workflow_is_what_its_schema_asks_for(name: str, tmp_path: Path) -> None:
    check = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", SCHEMAS[name])
    text = (CHECKOUT / name).read_text()
    done = run(*check, CHECKOUT / name)
    assert done.returncode == 0, done.stdout + done.stderr
    broken = tmp_path / "broken.yml"
    broken.write_text(text.replace("  steps:", "  stips:").replace("  script:", "  skript:"))
    assert run(*check, broken).returncode == 1, "it accepts anything"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (package prometheus) is not installed")
def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    folder = EXAMPLES / "prometheus"
    for command in (("check", "rules", "rigproof.rules.yml"), ("test", "rules", "rigproof.test.yml")):
        done = run("promtool", *command, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
    shutil.copytree(folder, tmp_path / "broken")
    rules = tmp_path / "broken" / "rigproof.rules.yml"
    rules.write_text(rules.read_text().replace('simulated="false"', 'simulated="true"'))
    assert run("promtool", "test", "rules", "rigproof.test.yml", cwd=rules.parent).returncode != 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_has_nothing_to_say_of_the_timer(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "rigproof"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for path in (EXAMPLES / "systemd").iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/rigproof", str(tmp_path)))
    units = ("rigproof.service", "rigproof.timer")
    done = run("systemd-analyze", "verify", *units, cwd=tmp_path)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    service = tmp_path / "rigproof.service"
    service.write_text(service.read_text().replace("Type=oneshot", "Type=onshot"))
    done = run("systemd-analyze", "verify", *units, cwd=tmp_path)
    assert "onshot" in done.stderr, "it accepts anything"
