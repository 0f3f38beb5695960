"""The pictures of the documents: terminal, report and monitor, of real runs and of a simulated rig of eight GPUs.

`PYTHONPATH=.:tests python docs/pictures/make.py` writes them all beside this file; names of pictures after it
write only those, and `--output DIR` elsewhere. It needs tmux, Chromium and the packages of the group `test`.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from rigproof.report.files.folders import latest_run
from support.terminals import Terminal

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "reports" / "samples"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LARGEST = 150_000  # bytes of a picture
PATIENCE_MS = 240_000  # for a host that is busy with other work
COLOURS = 96
RIG = "h200-x8"
PROFILE = f'name = "{RIG}"\n[[nodes]]\nname = "node"\ncpus = 128\nram_gib = 1024\n' + '[[nodes.gpus]]\nsku = "h200-sxm"\n' * 8
ACCEPT = f"accept --simulate-inline --level quick --hwprofile ./{RIG}.toml --inject overheat@node/gpu5"
FONT = "DejaVu Sans Mono, Menlo, Consolas, monospace"


class Studio:
    """A folder with runs, and a browser. What is costly is made when the first picture needs it."""

    def __init__(self, folder: Path, browser: Callable[[], Browser]) -> None:
        self.folder = folder
        self._start = browser
        (folder / f"{RIG}.toml").write_text(PROFILE)

    @cached_property
    def browser(self) -> Browser:
        """Chromium."""
        return self._start()

    @cached_property
    def rejected(self) -> list[str]:
        """The screen at 80 columns after a run of eight simulated GPUs, of which one overheats."""
        return self.screen(80, ACCEPT, "ended with 1")

    @cached_property
    def simulated_report(self) -> Path:
        """The report of that run."""
        assert self.rejected
        return self.folder / "reports" / "latest" / "report.html"

    @cached_property
    def real_report(self) -> Path:
        """The report of a standard run on two H200."""
        run = self.folder / "h200-x2-standard"
        shutil.copytree(SAMPLES / run.name, run)
        command = [sys.executable, "-m", "rigproof", "report", str(run)]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
        return run / "report.html"

    def screen(self, columns: int, arguments: str, until: str, *options: str) -> list[str]:
        """What `rigproof ARGUMENTS` has left on a terminal, with its colours, once `until` is on it."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        command = [sys.executable, "-m", "rigproof", *arguments.split()]
        terminal = Terminal(folder, columns, 40, ["sh", "-c", f"cd {self.folder} && {shlex.join(command)}"])
        try:
            terminal.until(until, "-S", "-", patience_s=PATIENCE_MS / 1000)
            return terminal.screen("-e", *options)
        finally:
            terminal.end()


def drawn(name: str, columns: int, command: str, lines: Sequence[str]) -> str:
    """An SVG of a terminal; it asks no other host for a font."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi("\n".join(lines)), no_wrap=True, overflow="crop")
    svg = console.export_svg(title=command, theme=MONOKAI, unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", FONT)


def summary(lines: Sequence[str], folder: Path, first: str) -> list[str]:
    """The lines from the table on, without what the shell said last; the folder of this script's runs is shortened."""
    (start, *_) = [number for number, line in enumerate(lines) if first in line]
    shown = [line.replace(str(folder), "…") for line in lines[start:]]
    return [line for line in shown if not line.startswith("ended with")]
