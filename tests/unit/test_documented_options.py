"""Commands of the documents are typed as they are: each option in them exists under that name."""

import re
from collections.abc import Iterator

import pytest

from rigproof.run.options import OPTIONS, short
from support.acceptance import CHECKOUT

OURS = {name for group in OPTIONS.values() for names in group for name in names}
ACCEPT = {"--help", "--json", *map(short, OURS)}
PYTEST = OURS | {"--benchmark-compare", "--benchmark-verbose"}
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "tox.ini",
    ".ci/run",
    *("bench/README.md", "reports/samples/README.md"),
]
COMMANDS = {r"(?:pytest -m hardware|tox -e hardware --) ": PYTEST, r"rigproof accept ": ACCEPT}


def documents() -> Iterator[str]:
    yield from DOCUMENTS
    for folder in ("docs", "rigproof"):
        for path in sorted((CHECKOUT / folder).rglob("*")):
            if path.suffix in (".md", ".py"):
                yield str(path.relative_to(CHECKOUT))


@pytest.mark.parametrize("command", COMMANDS)
def test_options_of_a_command_are_its_own(command):
    wrong, found = [], 0
    for name in documents():
        for line in re.findall(rf"{command}([^`\n]*)", (CHECKOUT / name).read_text()):
            typed = re.findall(r"(?<![\w-])--[a-z][a-z-]+", line)
            found += len(typed)
            wrong += [f"{name}: {option}" for option in typed if option not in COMMANDS[command]]
    assert found > 5, "the pattern finds nothing"
    assert wrong == []


def test_every_option_is_documented():
    page = (CHECKOUT / "docs" / "running.md").read_text()
    assert [name for name in OURS if f"`{name}" not in page] == []
