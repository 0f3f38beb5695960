"""Links of the documents lead to files and headings that exist."""

import re

import pytest

from support.acceptance import CHECKOUT

DOCUMENTS = [
    *(CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(CHECKOUT / name for name in ("bench/README.md", "reports/samples/README.md")),
    *sorted((CHECKOUT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\(((?!https?:)[^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
NAMED = re.compile(r'<a (?:id|name)="([^"]+)"')


def anchors(text):
    """The names that GitHub gives headings, and those that are written."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {one.strip().replace(" ", "-") for one in plain} | set(NAMED.findall(text))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_each_link_leads_somewhere(path):
    broken = []
    for link in LINK.findall(path.read_text()):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            broken.append(link)
    assert broken == []


def test_the_search_finds_what_it_is_for():
    assert {"the-history-of-rates", "metricsprom", "in-ci--jobs"} <= anchors(
        "# The history of rates\n## metrics.prom\n### In CI: (& jobs\n"
    )
    assert LINK.findall("[a](b.md#c), [d](https://x.y)") == ["b.md#c"]
