"""The pictures of the documents: terminal, report and monitor, of real runs and of eight simulated GPUs.

`PYTHONPATH=.:tests python docs/pictures/make.py` writes them all beside this file; names of pictures after it
write only those, and `--output DIR` elsewhere. It needs tmux, Chromium, pdftoppm (Debian's poppler-utils) and
the packages of the group `test`.
"""

import argparse
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from support.terminals import Terminal

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "reports" / "samples"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LARGEST = 150_000  # bytes of a picture
PATIENCE_MS = 240_000  # for a host that is busy with other work
COLOURS = 96
RIG = "h200-x8"
PROFILE = (
    f'name = "{RIG}"\n[[nodes]]\nname = "n1"\ncpus = 128\nram_gib = 1024\n'
    + '[[nodes.gpus]]\nsku = "h200-sxm"\n' * 8
)
ACCEPT = f"accept --simulate-inline --level quick --hwprofile ./{RIG}.toml --inject overheat@n1/gpu5"
NIGHT = "accept --simulate-inline --level soak --duration 480 --hwprofile dual-3090-3070"
HOT = ("--inject", "overheat@pc2/gpu0")
KEPT = "accept --simulate-inline --level quick --hwprofile dual-3090-3070 --keep-history --report-dir kept"
CAPPED = (*[""] * 5, *["--inject power-capped@pc1/gpu0:to=300"] * 4)  # a run each
LISTED = "history --simulated --report-dir kept"
COMPARED = (
    f"{LISTED.replace('history', 'history compare', 1)} power=350,card=pc1/gpu0 power=300,card=pc1/gpu0"
)
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
        return self.screen(80, ACCEPT, "ended with 1", "-S", "-")

    @cached_property
    def simulated_report(self) -> Path:
        """The report of that run."""
        assert self.rejected
        return self.folder / "reports" / "latest" / "report.html"

    @cached_property
    def real_report(self) -> Path:
        """The report of an extended run on two H200."""
        run = self.folder / "h200-x2-together-extended"
        shutil.copytree(SAMPLES / run.name, run)
        command = [sys.executable, "-m", "rigproof", "report", str(run)]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
        return run / "report.html"

    @cached_property
    def night_report(self) -> Path:
        """The report of eight hours of two simulated PCs, of which one card overheats. It takes minutes."""
        command = [
            sys.executable,
            "-m",
            "rigproof",
            *NIGHT.split(),
            *HOT,
            "--report-dir",
            str(self.folder / "night"),
        ]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "TZ": "Europe/Berlin"}
        subprocess.run(command, check=False, capture_output=True, cwd=self.folder, env=environment)
        return self.folder / "night" / "latest" / "report.html"

    @cached_property
    def history_page(self) -> Path:
        """The page of nine simulated runs, after five of which somebody lowered a card's power limit."""
        page = self.folder / "history.html"
        accepts = [f"{KEPT} --simulate-seed {seed} {fault}" for seed, fault in enumerate(CAPPED)]
        for arguments in (*accepts, f"{LISTED} --html {page}"):
            command = [sys.executable, "-m", "rigproof", *arguments.split()]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            subprocess.run(command, check=True, capture_output=True, cwd=self.folder, env=environment)
        return page

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


def drawn(name: str, columns: int, command: str, lines: Sequence[str]) -> bytes:
    """An SVG of a terminal, with what was typed; it asks no other host for a font."""
    console = Console(
        record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text(f"$ rigproof {command}"))
    console.print(Text.from_ansi("\n".join(lines)), no_wrap=True, overflow="crop")
    svg = console.export_svg(title="", theme=MONOKAI, unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", FONT).encode()


def summary(lines: Sequence[str], folder: Path, first: str) -> list[str]:
    """The lines from the table on, without the shell's last one; folders of this machine are left out."""
    (start, *_) = [number for number, line in enumerate(lines) if first in Text.from_ansi(line).plain]
    shown = [line.replace(str(folder), "…").replace(f"{ROOT}/", "") for line in lines[start:]]
    return [line for line in shown if not Text.from_ansi(line).plain.startswith("ended with")]


def accepted(studio: Studio) -> bytes:
    """A real run on two H200, judged as the run itself did at its end."""
    command = "judge reports/samples/h200-x2-together-extended"
    lines = studio.screen(80, command.replace("reports", str(SAMPLES.parent)), "ended with 0")
    return drawn("accepted", 80, command, summary(lines, studio.folder, "ACCEPTED"))


def rejected(studio: Studio) -> bytes:
    """The end of a run of eight simulated H200, of which one overheats, at 80 columns."""
    lines = summary(studio.rejected, studio.folder, "SIMULATED REJECTED")
    return drawn("rejected", 80, ACCEPT, lines)


def rejected_wide(studio: Studio) -> bytes:
    """The same run at 200 columns."""
    assert studio.simulated_report
    lines = studio.screen(200, "judge reports/latest", "ended with 1")
    return drawn("wide", 200, "judge reports/latest", summary(lines, studio.folder, "SIMULATED REJECTED"))


def monitor(studio: Studio) -> bytes:
    """The live view of eight simulated H200 under load."""
    command = f"monitor --simulate --hwprofile ./{RIG}.toml --inject overheat@n1/gpu5:stage=gemm"
    return drawn("monitor", 80, command, studio.screen(80, command, "gpu5: core at"))


def desktop(studio: Studio) -> bytes:
    """The report of the two real H200."""
    return page_png(studio, studio.real_report, 1280, 1400)


def dark(studio: Studio) -> bytes:
    """The report of the eight simulated ones, for a reader who prefers dark pages."""
    return page_png(studio, studio.simulated_report, 1280, 1000, color_scheme="dark")


def phone(studio: Studio) -> bytes:
    """The same report on a telephone."""
    return page_png(studio, studio.simulated_report, 390, 1400)


def night(studio: Studio) -> bytes:
    """The report of eight hours."""
    return page_png(studio, studio.night_report, 1280, 1400)


def night_phone(studio: Studio) -> bytes:
    """Its charts on a telephone."""
    return page_png(studio, studio.night_report, 390, 1000, at="#findings")


def history(studio: Studio) -> bytes:
    """What `rigproof history` says of those nine runs."""
    assert studio.history_page
    command = LISTED.replace(" --report-dir kept", "")
    return drawn("history", 80, command, studio.screen(80, LISTED, "ended with 0")[:-1])


def comparison(studio: Studio) -> bytes:
    """The runs under the two power limits compared."""
    assert studio.history_page
    command = COMPARED.replace(" --report-dir kept", "")
    return drawn("comparison", 80, command, studio.screen(80, COMPARED, "ended with 0")[:-1])


def history_desktop(studio: Studio) -> bytes:
    """The page of those runs."""
    return page_png(studio, studio.history_page, 1280, 1400)


def history_phone(studio: Studio) -> bytes:
    """Its charts on a telephone, for a reader who prefers dark pages."""
    return page_png(studio, studio.history_page, 390, 1000, at="#card-0-2", color_scheme="dark")


def printed(studio: Studio) -> bytes:
    """The first two pages of the real report on A4."""
    with opened(studio, studio.real_report, 794, 1123) as page:
        page.pdf(
            path=studio.folder / "printed.pdf",
            format="A4",
            margin=dict.fromkeys(("top", "right", "bottom", "left"), "1cm"),
        )
    command = ["pdftoppm", "-r", "60", "-l", "2", "-png", "printed.pdf", "page"]
    subprocess.run(command, cwd=studio.folder, check=True)
    sheets = [Image.open(path).convert("RGB") for path in sorted(studio.folder.glob("page-*.png"))]
    gap = 12
    both = Image.new(
        "RGB", (sum(one.width + gap for one in sheets) + gap, sheets[0].height + 2 * gap), "#888888"
    )
    for number, one in enumerate(sheets):
        both.paste(one, (gap + number * (one.width + gap), gap))
    return small(both)


@contextmanager
def opened(studio: Studio, report: Path, width: int, height: int, **options: Any) -> Iterator[Page]:
    """The report in a window of this size, once its charts are drawn."""
    page = studio.browser.new_page(viewport={"width": width, "height": height}, **options)
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-painted=yes]", state="attached", timeout=PATIENCE_MS)
    yield page
    page.close()


def page_png(
    studio: Studio, report: Path, width: int, height: int, at: str = "html", **options: Any
) -> bytes:
    """What the window shows first, or once it is scrolled to where `at` begins."""
    with opened(studio, report, width, height, **options) as page:
        page.locator(at).evaluate("one => one.scrollIntoView()")
        return small(Image.open(io.BytesIO(page.screenshot(timeout=PATIENCE_MS))).convert("RGB"))


def small(image: Image.Image) -> bytes:
    """A PNG of few colours, which a page of text and lines shows as well as many."""
    file = io.BytesIO()
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


PICTURES: dict[str, Callable[[Studio], bytes]] = {
    "terminal-80-h200-x2.svg": accepted,
    "terminal-80-rejected.svg": rejected,
    "terminal-200-rejected.svg": rejected_wide,
    "monitor-80.svg": monitor,
    "report-desktop.png": desktop,
    "report-dark.png": dark,
    "report-phone.png": phone,
    "report-night.png": night,
    "report-night-phone.png": night_phone,
    "report-printed.png": printed,
    "history-80.svg": history,
    "compare-80.svg": comparison,
    "history-desktop.png": history_desktop,
    "history-phone.png": history_phone,
}


def main() -> None:
    """Write the pictures, and say how large each is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PICTURES)}; default: all")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, metavar="DIR")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="") as folder, sync_playwright() as playwright:

        def browser() -> Browser:
            return playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

        studio = Studio(Path(folder), browser)
        for name in options.names or PICTURES:
            content = PICTURES[name](studio)
            if len(content) > LARGEST:
                raise SystemExit(f"{name}: {len(content)} bytes, more than {LARGEST}")
            options.output.mkdir(exist_ok=True)
            (options.output / name).write_bytes(content)
            print(f"{name}: {len(content) / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
