"""Each example is valid, as the tool that reads it says, and that tool refuses a broken one."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rigproof.records.verdict import Decision
from support.acceptance import CHECKOUT
from support.left_verdicts import leave_verdict

EXAMPLES = CHECKOUT / "examples"
KUBERNETES = EXAMPLES / "kubernetes"
OWN_SCHEMAS = CHECKOUT / "tests" / "support" / "schemas"
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


KINDS = {
    "node-readiness-rule.yaml": (
        "node-readiness-rule.json",
        'requiredStatus: "False"',
        "requiredStatus: false",
    ),
    "node-problem-detector.json": ("node-problem-detector.json", '"path"', '"program"'),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_readies_a_node_of_kubernetes_is_what_its_schema_asks_for(name: str, tmp_path: Path) -> None:
    schema, right, wrong = KINDS[name]
    check = (sys.executable, "-m", "check_jsonschema", "--schemafile", OWN_SCHEMAS / schema)
    done = run(*check, KUBERNETES / name)
    assert done.returncode == 0, done.stdout + done.stderr
    broken = tmp_path / name
    broken.write_text((KUBERNETES / name).read_text().replace(right, wrong))
    assert run(*check, broken).returncode == 1, "it accepts anything"


@pytest.mark.skipif(importlib.util.find_spec("kubernetes_validate") is None, reason="no kubernetes-validate")
def test_kubernetes_takes_the_job(tmp_path: Path) -> None:
    check = (sys.executable, "-m", "kubernetes_validate", "--strict", "--kubernetes-version", "1.37")
    done = run(*check, KUBERNETES / "accept-job.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    for right, wrong in (("backoffLimit: 0", "backoffLimit: none"), ("tolerations:", "toleratons:")):
        broken = tmp_path / "broken.yaml"
        broken.write_text((KUBERNETES / "accept-job.yaml").read_text().replace(right, wrong))
        assert run(*check, broken).returncode != 0, "it accepts anything"


def test_the_links_of_the_chain_in_kubernetes_fit() -> None:
    def read(name: str) -> dict[str, Any]:
        return YAML(typ="safe").load((KUBERNETES / name).read_text())

    detector, rule = read("node-problem-detector.json"), read("node-readiness-rule.yaml")["spec"]
    pod = read("accept-job.yaml")["spec"]["template"]["spec"]
    (condition,) = rule["conditions"]
    assert condition == {"type": detector["rules"][0]["condition"], "requiredStatus": "False"}
    assert detector["conditions"][0]["type"] == condition["type"]
    assert detector["pluginConfig"]["skip_initial_status"], "it would say False before it has asked"
    assert [one["key"] for one in pod["tolerations"]] == [rule["taint"]["key"]]


class TestPlugin:
    """What node-problem-detector gets to read of each verdict."""

    @pytest.fixture
    def asked(self, tmp_path: Path):
        tool = tmp_path / "bin" / "rigproof"
        tool.parent.mkdir()
        tool.write_text(f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {sys.executable} -m rigproof "$@"\n')
        tool.chmod(0o755)
        text = (KUBERNETES / "verdict.sh").read_text().replace("timeout 4 ", "timeout ${LIMIT:-60} ")
        text = text.replace("/opt/rigproof", str(tmp_path)).replace("/var/lib/rigproof", str(tmp_path))

        def ask(program: str = "") -> tuple[int, str]:
            if program:
                tool.write_text(f"#!/bin/sh\n{program}\n")
            done = run("sh", "-c", text, cwd=tmp_path)
            assert len(done.stdout.rstrip().encode()) <= 80
            assert "\n" not in done.stdout.rstrip()
            # However long it took to ask.
            return done.returncode, re.sub(r"\d+ s ago", "0 s ago", done.stdout.rstrip())

        return ask

    def test_an_accepting_verdict_is_no_problem(self, asked, tmp_path: Path) -> None:
        leave_verdict(tmp_path / "reports")
        assert asked() == (0, "ACCEPTED lab standard 0 s ago")

    @pytest.mark.parametrize(
        ("decision", "changes", "status", "line"),
        [
            (Decision.REJECTED, {}, 1, "REJECTED lab standard 0 s ago: 2 failed"),
            (Decision.INCOMPLETE, {}, 2, "INCOMPLETE lab standard 0 s ago: the driver hangs"),
            (Decision.ACCEPTED, {"simulated": True}, 2, "none of this machine in "),
            (Decision.ACCEPTED, {"exit_status": 1}, 2, "ACCEPTED lab standard 0 s ago: "),
            (Decision.ACCEPTED, {"started_at": "2026-01-01T00:00:00Z"}, 2, "none within 26h: the last is "),
        ],
    )
    def test_what_is_not_accepted_is_one(
        self, asked, tmp_path: Path, decision: Decision, changes: dict[str, Any], status: int, line: str
    ) -> None:
        leave_verdict(tmp_path / "reports", decision, **changes)
        found, said = asked()
        assert (found, said[: len(line)]) == (status, line)

    @pytest.mark.parametrize(
        ("program", "line"),
        [
            ("exit 1", "rigproof verdict did not answer, exit status 1"),
            ("echo Traceback; exit 1", "Traceback"),
            ("exit 0", "rigproof verdict did not answer, exit status 0"),
            ("exec sleep 60", "rigproof verdict did not answer, exit status 124"),
        ],
    )
    def test_a_program_that_does_not_answer_is_unknown(
        self, asked, monkeypatch, program: str, line: str
    ) -> None:
        monkeypatch.setenv("LIMIT", "0.5")
        assert asked(program) == (2, line)
