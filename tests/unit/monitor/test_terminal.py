"""On a real terminal: tmux holds one of 80 × 24, as an ssh connection does."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PATIENCE_S = 60
COLOUR = re.compile(r"\x1b\[(?:[0-9]+;)*[349][0-7][;m]")  # SGR of a colour; 39 and 49 take it back

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Terminal:
    """One window of a tmux of its own."""

    def __init__(self, folder, columns, rows, scenario, *arguments, **variables):
        self._tmux = ["tmux", "-f", os.devnull, "-S", str(folder / "tmux")]
        command = [sys.executable, str(HERE / "on_simulated_gpus.py"), scenario, "monitor", "--interval=0.3"]
        script = folder / "script.sh"
        script.write_text(
            f"trap : INT\ncd {folder}\n{' '.join([*command, *arguments])}\necho ended with $?\nsleep 600\n"
        )
        environment = {
            key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TMUX", "CI")
        }
        subprocess.run(
            [*self._tmux, "new-session", "-d", "-x", str(columns), "-y", str(rows), f"sh {script}"],
            env=environment | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color"} | variables,
            check=True,
        )

    def _tmux_output(self, *command):
        return subprocess.run([*self._tmux, *command], capture_output=True, text=True, check=True).stdout

    def screen(self, *options):
        return self._tmux_output("capture-pane", "-p", *options).rstrip("\n").split("\n")

    def until(self, text, *options):
        """The screen that shows `text`. Where that is a frame's last line, the whole frame is on it.

        A look a moment later may find the next frame half drawn: it is taken from this one.
        """
        end_s = time.monotonic() + PATIENCE_S
        lines = self.screen(*options)
        while not any(text in line for line in lines):
            assert time.monotonic() < end_s, lines
            time.sleep(0.1)
            lines = self.screen(*options)
        return lines

    def keys(self, *keys):
        self._tmux_output("send-keys", *keys)

    def end(self):
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def terminal(tmp_path):
    """Opens terminals in which the monitor runs."""
    opened = []

    def terminal(columns, rows, *arguments, **variables):
        opened.append(Terminal(tmp_path, columns, rows, *arguments, **variables))
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
