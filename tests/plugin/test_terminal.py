"""An acceptance run on a real terminal: the live view takes nothing from what pytest writes."""

import re
import shutil
import sys

import pytest

from support.terminals import Terminal

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
PYTESTS = re.compile(
    r"\[ *\d+%\]|test_\w+|pytest|collect(ed|ing)|rootdir|configfile|plugins:|\d+ passed|[-=!]{5}"
)


@pytest.fixture
def terminal(tmp_path):
    """Opens a terminal in which `rigproof accept` runs a simulated rig."""
    opened = []

    def terminal(columns, rows, *options, rig="dual-3090-3070", **variables):
        command = [sys.executable, "-m", "rigproof", "accept", f"--hwprofile={rig}"]
        command += ["--level=quick", *options]
        opened.append(Terminal(tmp_path, columns, rows, command, **variables))
        return opened[-1]

    yield terminal
    for one in opened:
        one.end()


@pytest.mark.parametrize(("columns", "rows", "options"), [(80, 24, ()), (200, 50, ("-v",))])
def test_a_run_shows_its_rig_and_its_verdict_and_nothing_of_pytest(terminal, columns, rows, options):
    window = terminal(columns, rows, "--simulate-inline", *options)
    lines = window.until("ended with 0", "-S", "-")
    assert [line for line in lines if PYTESTS.search(line)] == []
    assert lines[0].startswith("rigproof: SIMULATED")
    assert "report: reports/latest/report.html" in lines
    assert any(line.startswith("plan: level quick: route") for line in lines)
    assert not any("workers" in line and "°C" in line for line in lines)  # the view is gone
    assert any(re.match(r"\d+ more pass", line) for line in lines) != bool(options)  # -v shows their rows
    end = lines.index(next(line for line in lines if "ended with 0" in line))
    assert "SIMULATED ACCEPTED" in "".join(lines[end - 2 : end])


def test_while_ray_starts_it_says_so(terminal, tmp_path):
    rig = tmp_path / "one.toml"  # a node, and so a raylet
    rig.write_text('name = "one"\n[[nodes]]\nname = "pc1"\n[[nodes.gpus]]\nsku = "rtx-3070"\n')
    window = terminal(80, 24, "--simulate", rig=rig)
    window.until("[SIMULATED] 00:00  starting Ray", patience_s=120)
    lines = window.until("ended with 0", "-S", "-", patience_s=240)
    assert not any("starting Ray" in line for line in lines)
