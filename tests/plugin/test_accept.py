"""`rigproof accept`: the same run from any folder, whatever the project there makes of pytest."""

import re

import pytest

from rigproof.cli import accept
from rigproof.run.options import OPTIONS
from support.acceptance import Run, rigproof

HOSTILE = {
    "pytest.ini": "[pytest]\naddopts = --no-such-option\ntestpaths = elsewhere\n",
    "conftest.py": "raise RuntimeError('not your conftest')\n",
    "test_mine.py": "def test_mine():\n    assert False\n",
}


def test_accept_runs_the_suite_in_a_project_of_its_own(two_nodes, tmp_path):
    for name, text in HOSTILE.items():
        (tmp_path / name).write_text(text)
    done = rigproof("accept", "-p", "support.canned_rig", f"--hwprofile={two_nodes}", "-q", cwd=tmp_path)
    run = Run(done.returncode, done.stdout + done.stderr, tmp_path / "reports")
    assert run.status == 0, run.output
    assert run.result["verdict"] == "ACCEPTED"
    assert "test_core_temperature[pc1/gpu0]" in run.junit
    assert "not your conftest" not in run.output


def test_accept_refuses_as_pytest_does(tmp_path):
    done = rigproof("accept", "--hwprofile=nobody", cwd=tmp_path)
    assert done.returncode == 4
    assert "dual-3090-3070" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not any(tmp_path.glob("reports/runs/*"))


def test_its_help_lists_every_option_by_its_group_and_short_name_with_examples(tmp_path):
    done = rigproof("accept", "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for title, options in OPTIONS.items():
        assert f"\n{title}:\n" in done.stdout
        for names in options:
            for name in names:
                assert re.search(rf" {name.replace('--hw-', '--')}[, \n]", done.stdout)
    assert "\n  rigproof accept --level quick --require-gpu " in done.stdout
    assert "--hw-" not in done.stdout


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("--hwprofile a.toml --level quick", "--hw-profile=a.toml --hw-level=quick"),
        ("--duration 0.5 --plan --simulate-seed=7", "--hw-duration=0.5 --hw-plan --hw-simulate-seed=7"),
        ("--inject a --inject=b:by=3% --share", "--hw-inject=a --hw-inject=b:by=3% --hw-share"),
        (
            "-k thermal -x --durations 3 -p no:cacheprovider",
            "-k thermal -x --durations 3 -p no:cacheprovider",
        ),
        ("--hw-level quick --junitxml=a.xml", "--hw-level quick --junitxml=a.xml"),
    ],
)
def test_short_names_are_those_of_pytest_and_its_other_options_are_left_as_they_are(
    monkeypatch, typed, given
):
    called = []
    monkeypatch.setattr(accept.pytest, "main", lambda arguments, plugins: called.extend(arguments) or 5)
    assert accept.accept(typed.split()) == 5
    assert sorted(called[-len(given.split()) :]) == sorted(given.split())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--level", "thorough"), "argument --level: 'thorough' is not a level: use one of quick"),
        (("--duration", "-3"), "argument --duration: '-3' is not a length"),
        (("--plan=yes",), "argument --plan: "),
        (("--simulate",), "--simulate: there is no rig to simulate"),
        (("--inject=oom",), "--inject oom: real hardware has its own faults; add --simulate"),
    ],
)
def test_what_it_refuses_it_names_as_it_was_typed(tmp_path, options, expected):
    done = rigproof("accept", "--hwprofile=auto", *options, cwd=tmp_path)
    assert done.returncode == 4, done.stdout
    assert expected in done.stderr
    assert "--hw-" not in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
