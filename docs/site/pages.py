"""Lays out the documents for the site: each where it is in the project, with all that it links to.

    python docs/site/pages.py && zensical build --strict    # or tox -e site; build/site/index.html

The pages are those of docs/, README.md and whatever they lead to; zensical.toml has their order.
"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHIM = Path(__file__).with_name("iframe-worker.js")
LINK = re.compile(r"\]\(((?!\w+:)[^)#\s]+)")


def linked(page: Path) -> list[Path]:
    """What a page links to, as far as it is in the project."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [path for name in LINK.findall(text) if (path := (page.parent / name).resolve()).is_file()]


def main(pages: Path) -> None:
    """Write the folder anew."""
    shutil.rmtree(pages, ignore_errors=True)
    waiting = [ROOT / "README.md", SHIM, *sorted((ROOT / "docs").glob("*.md"))]
    found = set(waiting)
    while waiting:
        path = waiting.pop()
        place = pages / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":  # what is folded in a summary is Markdown, too
            place.write_text(path.read_text(encoding="utf-8").replace("<details>", '<details markdown="1">'))
        else:
            shutil.copy2(path, place)
        new = set(linked(path)) - found if path.suffix == ".md" else set()
        found |= new
        waiting += new


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]) if sys.argv[1:] else ROOT / "build" / "pages")
