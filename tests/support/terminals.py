"""Real terminals: a tmux of its own holds one, as an ssh connection does."""

import os
import re
import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60
COLOUR = re.compile(r"\x1b\[(?:[0-9]+;)*[349][0-7][;m]")  # SGR of a colour; 39 and 49 take it back
CALM = ("NO_COLOR", "TMUX", "CI", "COLUMNS", "LINES")  # variables that would change what is drawn


class Terminal:
    """A window in which a command runs; once that has ended, `ended with STATUS` is below its output."""

    def __init__(
        self, folder: Path, columns: int, rows: int, command: Sequence[str | Path], **variables: str
    ) -> None:
        self._tmux = ["tmux", "-f", os.devnull, "-S", str(folder / "tmux")]
        script = folder / "script.sh"
        typed = shlex.join(map(str, command))
        script.write_text(f"trap : INT\ncd {folder}\n{typed}\necho ended with $?\nsleep 600\n")
        environment = {key: value for key, value in os.environ.items() if key not in CALM}
        path = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))
        subprocess.run(
            [*self._tmux, "new-session", "-d", "-x", str(columns), "-y", str(rows), f"sh {script}"],
            env=environment | {"PYTHONPATH": path, "TERM": "xterm-256color"} | variables,
            check=True,
        )

    def _tmux_output(self, *command: str) -> str:
        return subprocess.run([*self._tmux, *command], capture_output=True, text=True, check=True).stdout

    def screen(self, *options: str) -> list[str]:
        """What is on it now; with `-S -` also what was scrolled out of sight, with `-e` its colours."""
        return self._tmux_output("capture-pane", "-p", *options).rstrip("\n").split("\n")

    def until(self, text: str, *options: str, patience_s: float = PATIENCE_S) -> list[str]:
        """The screen that shows `text`. Where that is a frame's last line, the whole frame is on it.

        A look a moment later may find the next frame half drawn: it is taken from this one.
        """
        end_s = time.monotonic() + patience_s
        lines = self.screen(*options)
        while not any(text in line for line in lines):
            assert time.monotonic() < end_s, lines
            time.sleep(0.1)
            lines = self.screen(*options)
        return lines

    def keys(self, *keys: str) -> None:
        """Type these."""
        self._tmux_output("send-keys", *keys)

    def end(self) -> None:
        """Close the window, and end what runs in it."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)
