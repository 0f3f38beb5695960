"""On a real terminal: tmux holds one of 80 × 24, as an ssh connection does."""

import re
import shlex
import shutil
import sys
import time

import pytest

from support import on_simulated_gpus
from support.terminals import COLOUR, Terminal

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def terminal(tmp_path):
    """Opens terminals in which the monitor runs."""
    opened = []

    def terminal(columns, rows, scenario, *arguments, **variables):
        program = [sys.executable, on_simulated_gpus.__file__, scenario, "monitor", "--interval=0.3"]
        opened.append(Terminal(tmp_path, columns, rows, [*program, *arguments], **variables))
        return opened[-1]

    yield terminal
    for one in opened:
        one.end()


def test_at_80_columns_it_is_drawn_over_itself_and_stays_when_it_ends(terminal):
    window = terminal(80, 24, "hot")
    window.until("gpu1 RTX 3070")
    time.sleep(1.0)  # some more frames
    lines = window.until("gpu1 RTX 3070", "-S", "-")  # with what was scrolled out of sight
    assert sum(line.startswith("rigproof monitor") for line in lines) == 1
    assert max(map(len, lines)) <= 80
    assert any(re.search(r"^! gpu0 RTX 3090 +99% .* 96/93 ", line) for line in lines)
    assert any(line.startswith("! ") and "core at 96 °C, limit ≤ 93 °C" in line for line in lines)
    assert any(COLOUR.search(line) for line in window.until("gpu1 RTX 3070", "-e"))
    window.keys("C-c")
    lines = window.until("ended with 0")
    assert any("gpu1 RTX 3070" in line for line in lines)
    assert "^C" not in lines[0]


@pytest.mark.parametrize(("arguments", "variables"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"})])
def test_without_colour_the_marks_are_left(terminal, arguments, variables):
    window = terminal(80, 24, "hot", *arguments, **variables)
    lines = window.until("gpu1 RTX 3070", "-e")
    assert not any(COLOUR.search(line) for line in lines)
    assert any("! " in line and "core at 96 °C" in line for line in lines)


def test_a_terminal_that_is_too_small_shows_what_fits(terminal):
    window = terminal(40, 8, "hot")
    lines = window.until("...")
    assert max(map(len, lines)) <= 40
    assert lines[0].startswith("rigproof monitor")
    assert lines[7] == "q: quit"
    window.keys("C-c")
    window.until("ended with 0")


def test_q_quits_as_the_last_line_says_and_leaves_the_terminal_as_it_was(terminal):
    window = terminal(80, 24, "hot")
    lines = window.until("gpu1 RTX 3070")
    assert [line for line in lines if line][-1] == "q: quit"
    window.keys("x")  # of no meaning, and not echoed
    window.keys("q")
    lines = window.until("ended with 0")
    assert not any(line.strip() == "x" for line in lines)
    assert sum(line.startswith("rigproof monitor") for line in lines) == 1


def test_without_a_keyboard_it_promises_no_key(tmp_path):
    program = shlex.join([sys.executable, on_simulated_gpus.__file__, "hot", "monitor", "--interval=0.3"])
    window = Terminal(tmp_path, 80, 24, ["sh", "-c", f"exec {program} < /dev/null"])
    try:
        window.until("gpu1 RTX 3070")
        assert not any("q: quit" in line for line in window.screen())
        window.keys("C-c")
        window.until("ended with 0")
    finally:
        window.end()


EIGHT = 'name = "eight"\n[[nodes]]\nname = "pc1"\n' + 8 * '[[nodes.gpus]]\nsku = "h200-sxm"\n'


@pytest.fixture
def simulated(tmp_path):
    """Opens a terminal in which the monitor shows a simulated rig of eight GPUs."""
    (tmp_path / "eight.toml").write_text(EIGHT)
    opened = []

    def simulated(columns, rows, *arguments):
        program = [sys.executable, "-m", "rigproof", "monitor", "--simulate", "--interval=0.3"]
        opened.append(Terminal(tmp_path, columns, rows, [*program, "--hwprofile=./eight.toml", *arguments]))
        return opened[-1]

    yield simulated
    for one in opened:
        one.end()


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 50)])
def test_eight_gpus_fit_with_their_processes_and_are_drawn_over_themselves(simulated, columns, rows):
    window = simulated(columns, rows)
    window.until("4194313")  # the process on the last card
    time.sleep(1.0)  # some more frames
    lines = window.until("4194313", "-S", "-")
    assert sum(line.startswith("rigproof monitor") for line in lines) == 1
    assert len(lines) <= rows
    assert max(map(len, lines)) <= columns
    cards = [line for line in lines if re.match(r"  gpu\d H200 ", line)]
    assert [line.split()[0] for line in cards] == [f"gpu{number}" for number in range(8)]
    assert all(("█" in line or "░" in line) == (columns == 200) for line in cards)
    assert "SIMULATED rig" in lines[0]


def test_a_simulated_fault_is_shown(simulated):
    window = simulated(120, 40, "--inject=gpu-missing@pc1/gpu3")
    lines = window.until("! gpu7 missing")
    assert sum(bool(re.match(r"  gpu\d H200 ", line)) for line in lines) == 7
