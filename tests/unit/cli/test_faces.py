"""What a newcomer types first: versions, helps; and what scripts type."""

import json
import shutil
import subprocess
import sys

import pytest

from rigproof import __version__
from rigproof.cli.main import app
from support.acceptance import CHECKOUT, rigproof
from support.readers import READERS
from support.terminals import COLOUR, Terminal

SIMULATED = ("accept", "--simulate-inline", "--hwprofile", "dual-3090-3070", "--level", "quick")
COMMANDS = [one.callback.__name__ for one in app.registered_commands]


def test_its_version_is_that_of_the_package():
    command = [sys.executable, "-m", "rigproof", "--version"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout) == (0, f"rigproof {__version__}\n"), done.stderr


@pytest.mark.parametrize(
    ("module", "does"),
    [
        *[(one, "raise RuntimeError('half of it is missing')") for one in ("numpy", "pydantic", "typer")],
        *[(one, "raise SystemExit(0)") for one in ("pytest", "typer")],  # somebody's file of that name
    ],
)
def test_an_installation_that_cannot_be_loaded_is_no_verdict(tmp_path, monkeypatch, module, does):
    (tmp_path / f"{module}.py").write_text(does)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = [sys.executable, "-m", "rigproof", *SIMULATED]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 3
    assert done.stderr.endswith("an error of rigproof itself, or of its installation; no verdict\n")
    unheard = ["bash", "-c", '"$@" 2>&-', "bash", *command]
    assert subprocess.run(unheard, cwd=CHECKOUT, capture_output=True, check=False).returncode == 3


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS), ("cluster",), ("cluster", "up")])
def test_h_is_help_everywhere(command):
    brief, full = rigproof(*command, "-h"), rigproof(*command, "--help")
    assert (brief.returncode, full.returncode) == (0, 0)
    assert "usage: rigproof" in brief.stdout.lower()
    assert brief.stdout == full.stdout


def test_a_shell_s_variable_that_is_left_over_ends_no_run_with_0(monkeypatch):
    monkeypatch.setenv("_RIGPROOF_COMPLETE", "complete_bash")
    done = rigproof("accept", "--hwprofile", "nosuch")
    assert (done.returncode, "nosuch" in done.stderr) == (4, True), done.stderr


def test_a_script_gets_the_verdict_alone_on_standard_output(tmp_path):
    done = rigproof(*SIMULATED, "--json", "--inject=overheat@pc2/gpu0", cwd=tmp_path)
    assert done.returncode == 1
    verdict = json.loads(done.stdout)
    assert verdict == json.loads((tmp_path / "reports" / "latest" / "verdict.json").read_text())
    assert verdict["verdict"] == "REJECTED"
    assert "SIMULATED REJECTED: " in done.stderr


@pytest.mark.parametrize(
    ("option", "expected"), [("--plan", "a plan has no verdict"), ("--level=x", "not a level")]
)
def test_a_script_gets_nothing_where_nothing_was_judged(tmp_path, option, expected):
    done = rigproof(*SIMULATED, "--json", option, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert expected in done.stderr


def test_of_a_misspelt_option_it_says_which_was_meant(tmp_path):
    done = rigproof("accept", "--levle", "quick", cwd=tmp_path)
    assert done.returncode == 4
    assert done.stderr.splitlines()[-1] == "rigproof: --levle: did you mean --level?"
    other = rigproof("accept", "--no-such-thing", cwd=tmp_path)
    assert other.returncode == 4
    assert "did you mean" not in other.stderr


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_judge_and_history_have_colours_on_a_terminal(tmp_path, variables, coloured):
    stored = json.loads(READERS["history"].samples()[0])
    folder = tmp_path / "reports" / "history" / "lab"
    folder.mkdir(parents=True)
    (folder / "0001_run.json").write_text(json.dumps(stored))
    program = f"{sys.executable} -m rigproof"
    run = CHECKOUT / "reports" / "samples" / "h200-quick"
    command = ["sh", "-c", f"{program} history && {program} judge {run} | tail -n 1; {program} judge {run}"]
    window = Terminal(tmp_path, 120, 50, command, **variables)
    try:
        lines = window.until("ended with 0", "-e", "-S", "-")
    finally:
        window.end()
    rig = next(line for line in lines if line.lstrip("\x1b[1m").startswith("lab"))
    assert ("\x1b[1mlab" in rig) is coloured
    piped, shown = (line for line in lines if "fit for training" in line or "nothing failed" in line)
    assert not COLOUR.search(piped)
    assert bool(COLOUR.search(shown)) is coloured
