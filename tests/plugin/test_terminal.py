"""An acceptance run on a real terminal: the live view takes nothing from what pytest writes."""

import re
import shutil
import sys

import pytest

from support.terminals import Terminal

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
FILE = re.compile(r"^(test_\w+\.py) ([.aFnwbs]+) +\[ *(\d+)%\]$")


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


def ended(lines):
    """How many tests pytest's last line counts."""
    (last,) = [line for line in lines if re.match(r"=+ \d+ passed", line)]
    return sum(int(number) for number in re.findall(r"(\d+) [a-z]", last))


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 50)])
def test_every_line_of_pytest_is_still_there_at_the_end(terminal, columns, rows):
    window = terminal(columns, rows, "--simulate-inline")
    lines = window.until("ended with 0", "-S", "-")
    files = [match for line in lines if (match := FILE.match(line))]
    shown = sum(len(match[2]) for match in files)
    assert shown == ended(lines)
    assert [int(match[3]) for match in files] == sorted(int(match[3]) for match in files)
    assert files[-1][3] == "100"
    assert any(line.startswith(". pass, F FAIL, w WARN, n not measured") for line in lines)
    assert not any("workers" in line and "°C" in line for line in lines)  # the view is gone
    assert "" not in lines[lines.index(files[0][0]) : lines.index(files[-1][0])]


def test_with_words_instead_of_letters_too(terminal):
    window = terminal(120, 24, "--simulate-inline", "-v")
    lines = window.until("ended with 0", "-S", "-")
    tests = [line for line in lines if re.match(r"test_\w+\.py::test_\w+\[.*\] [A-Z].*\[ *\d+%\]$", line)]
    assert len(tests) == ended(lines)
    assert not any("b baseline" in line for line in lines)


def test_while_ray_starts_it_says_so(terminal, tmp_path):
    rig = tmp_path / "one.toml"  # a node, and so a raylet
    rig.write_text('name = "one"\n[[nodes]]\nname = "pc1"\n[[nodes.gpus]]\nsku = "rtx-3070"\n')
    window = terminal(80, 24, "--simulate", rig=rig)
    window.until("[SIMULATED] 00:00  starting Ray", patience_s=120)
    lines = window.until("ended with 0", "-S", "-", patience_s=240)
    assert not any("starting Ray" in line for line in lines)
