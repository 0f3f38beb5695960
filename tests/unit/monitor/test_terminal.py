"""On a real terminal: tmux holds one of 80 × 24, as an ssh connection does."""

import re
import shutil
import sys
import time
from pathlib import Path

import pytest

from support.terminals import COLOUR, Terminal

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def terminal(tmp_path):
    """Opens terminals in which the monitor runs."""
    opened = []

    def terminal(columns, rows, scenario, *arguments, **variables):
        program = [sys.executable, HERE / "on_simulated_gpus.py", scenario, "monitor", "--interval=0.3"]
        opened.append(Terminal(tmp_path, columns, rows, [*program, *arguments], **variables))
        return opened[-1]

    yield terminal
    for one in opened:
        one.end()


def test_at_80_columns_it_is_drawn_over_itself_and_stays_when_it_ends(terminal):
    window = terminal(80, 24, "hot")
    window.until("RTX 3070  ECC")
    time.sleep(1.0)  # some more frames
    lines = window.until("RTX 3070  ECC", "-S", "-")  # with what was scrolled out of sight
    assert sum(line.startswith("rigproof monitor") for line in lines) == 1
    assert max(map(len, lines)) <= 80
    assert any(re.search(r"^! gpu0 +99% .* 96/93 ", line) for line in lines)
    assert any(line.startswith("! ") and "core at 96 °C, limit ≤ 93 °C" in line for line in lines)
    assert any(COLOUR.search(line) for line in window.until("RTX 3070  ECC", "-e"))
    window.keys("C-c")
    lines = window.until("ended with 0")
    assert any("RTX 3070  ECC" in line for line in lines)
    assert "^C" not in lines[0]


@pytest.mark.parametrize(("arguments", "variables"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"})])
def test_without_colour_the_marks_are_left(terminal, arguments, variables):
    window = terminal(80, 24, "hot", *arguments, **variables)
    lines = window.until("RTX 3070  ECC", "-e")
    assert not any(COLOUR.search(line) for line in lines)
    assert any("! " in line and "core at 96 °C" in line for line in lines)


def test_a_terminal_that_is_too_small_shows_what_fits(terminal):
    window = terminal(40, 8, "hot")
    lines = window.until("...")
    assert max(map(len, lines)) <= 40
    assert lines[0].startswith("rigproof monitor")
    window.keys("C-c")
    window.until("ended with 0")
