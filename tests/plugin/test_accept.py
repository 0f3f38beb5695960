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


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("quick", "did you mean --level quick?"),
        ("soak", "did you mean --level soak?"),
        ("extendet", "did you mean --level extended?"),
        ("dual-3090-3070", "did you mean --hwprofile dual-3090-3070?"),
        ("./lab.toml", "did you mean --hwprofile ./lab.toml?"),
        ("simulate", "did you mean --simulate?"),
        ("plan", "did you mean --plan?"),
        ("overheat@pc1/gpu0:after=3", "did you mean --simulate --inject overheat@pc1/gpu0:after=3?"),
        ("thermal", "did you mean -k thermal?"),
        ("192.168.1.10:6379", "did you mean --ray-address 192.168.1.10:6379?"),
        ("frobnicate", "neither an option nor a file; `rigproof accept --help` lists the options"),
    ],
)
def test_a_word_without_its_option_is_refused_with_what_may_have_been_meant(tmp_path, word, meant):
    (tmp_path / "lab.toml").touch()
    done = rigproof("accept", word, cwd=tmp_path)
    assert done.returncode == 4
    assert done.stderr == f"ERROR: {word}: {meant}\n\n"
    assert done.stdout == ""
    assert not (tmp_path / "reports").exists()


def test_an_unknown_option_is_refused_without_the_usage_of_pytest(tmp_path):
    done = rigproof("accept", "--levl=quick", cwd=tmp_path)
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr.split("\n") == [
        "ERROR: unrecognized arguments: --levl=quick",
        "",
        "rigproof: --levl: did you mean --level?",
        "",
    ]


def test_a_run_is_shown_without_anything_of_pytest(two_nodes, tmp_path):
    done = rigproof("accept", "-p", "support.canned_rig", f"--hwprofile={two_nodes}", "-v", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rig, rest = done.stdout.split("\n", 1)
    assert rig.startswith("rig: two-nodes ")  # with its file's path
    assert rest.startswith("devices: pc1/gpu0")
    assert re.findall(r"pytest|collect|rootdir|configfile|test_\w+|xml|\[ *\d+%\]|[=-]{5}", rest) == []
    assert "\nreport: reports/latest/report.html\n" in rest
    assert done.stdout.splitlines()[-1].startswith("ACCEPTED")


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
        ("--inject a --inject=b:by=3% --require-gpu", "--hw-inject=a --hw-inject=b:by=3% --hw-require-gpu"),
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
        (("--tag", "new,paste"), "argument --tag: 'new,paste' is no tag: write up to 40 letters, digits"),
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
