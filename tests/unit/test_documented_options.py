"""Commands of the documents are typed as they are: each option in them exists under that name."""

import re
from collections.abc import Iterator

import pytest
import typer

from rigproof.cli import calibrate
from rigproof.cli.main import app
from rigproof.cli.verdict import parser
from rigproof.run.options import OPTIONS, short
from support.acceptance import CHECKOUT

OURS = {name for group in OPTIONS.values() for names in group for name in names}
BENCHMARK = "--benchmark-compare"
ACCEPT = {"--help", "--json", *map(short, OURS), BENCHMARK, "--junit-xml"}  # the last two are others'
PYTEST = OURS | {BENCHMARK}
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "tox.ini",
    ".ci/run",
    *("bench/README.md", "reports/samples/README.md"),
    *("examples/github/rig.yml", "examples/gitlab/rig.gitlab-ci.yml", "examples/systemd/rigproof.service"),
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
    assert [name for name in OURS if f"`{short(name)}" not in page] == []


def test_the_documents_have_one_spelling_and_a_line_that_translates_it():
    """`rigproof accept --level`: pytest's `--hw-level` is named where pytest itself is the subject."""
    pages = [CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md")]
    spelled = [
        (path.name, line)
        for path in pages
        for line in path.read_text().splitlines()
        if re.search(r"--hw-[a-z]|pytest -m hardware", line)
    ]
    assert {name for name, _ in spelled} <= {"running.md"}
    assert any(
        "`rigproof accept --level quick` is `pytest -m hardware --hw-level quick`" in line
        for _, line in spelled
    )


def options_of_commands() -> dict[str, set[str]]:
    """The options of each `rigproof …` but `accept`, which has those of pytest."""
    group = typer.main.get_command(app)
    commands = {name: one for name, one in group.commands.items() if name != "accept"}
    for group_name in ("cluster", "history"):
        inner = group.commands[group_name].commands
        commands |= {f"{group_name} {name}": one for name, one in inner.items()}
    commands["history"] = commands["history list"]
    return {
        name: {"--help", *(option for parameter in one.params for option in parameter.opts)}
        for name, one in commands.items()
    } | {
        name: set(re.findall(r"--[a-z-]+", of_command().format_help()))
        for name, of_command in (("verdict", parser), ("calibrate", calibrate.parser))
    }


def test_every_command_in_the_text_and_its_options_exist():
    known, wrong, found = options_of_commands(), [], 0
    for name in documents():
        for line in re.findall(r"`rigproof ((?!accept|--)[a-z][^`\n]*)", (CHECKOUT / name).read_text()):
            command = re.match(r"cluster \w+|history compare|\w+", line)[0]
            found += 1
            typed = re.findall(r"(?<![\w-])--[a-z][a-z-]+", line)
            wrong += [f"{name}: {line}"] if command not in known else []
            wrong += [
                f"{name}: {command} {option}" for option in typed if option not in known.get(command, ())
            ]
    assert found > 50, "the pattern finds nothing"
    assert wrong == []
