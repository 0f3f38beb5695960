"""docs/origin/seeds.md: every name in it has to be there."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from pydantic import BaseModel

from rigproof.cli.main import app
from rigproof.judging.catalogue import CATALOGUE
from rigproof.run.options import OPTIONS, short
from rigproof.stages.registry import KINDS
from support.rig_profile import MODELS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "origin" / "seeds.md"
CLAIMS = ROOT / "docs" / "origin" / "claims.md"
QUOTED = re.compile(r"`([^`]+)`")
NOT_TAKEN = "not taken: "


class Row(NamedTuple):
    document: str
    item: str
    where: str
    shown_by: str


def rows() -> list[Row]:
    found, document = [], ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            document = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith("| Item |"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            found.append(Row(document, *cells))
    return found


ROWS = rows()


def test_every_document_has_its_rows():
    documents = [row.document for row in ROWS]
    assert sorted(set(documents)) == [
        "1. Project status",
        "2. RTX 3070 guide",
        "3. VRAM distribution summary",
        "4. GPU optimization summary",
        "5. RTX 3090 guide",
    ]
    assert min(documents.count(one) for one in set(documents)) >= 15
    assert len({(row.document, row.item) for row in ROWS}) == len(ROWS)


def test_all_ten_techniques_of_the_3070_guide_are_there():
    named = {int(found[1]) for row in ROWS if (found := re.match(r"Technique (\d+),", row.item))}
    assert named == set(range(1, 11))


def test_where_it_lives_is_there():
    for row in ROWS:
        names = QUOTED.findall(row.where)
        taken = not row.where.startswith(NOT_TAKEN)
        assert names or not taken, row
        assert [name for name in names if taken and not _is_there(name)] == [], row


def test_what_shows_it_is_there():
    for row in ROWS:
        names = QUOTED.findall(row.shown_by)
        assert names or row.where.startswith(NOT_TAKEN), row
        assert [name for name in names if not _is_shown(name)] == [], row
        assert not row.shown_by or QUOTED.sub("", row.shown_by).strip(" ,") == "", row


def test_what_shows_a_claim_is_there():
    text = CLAIMS.read_text(encoding="utf-8")
    names = set(re.findall(r"`([a-z]+\.[a-z0-9_]+)`", text)) - {"cudnn.benchmark"}
    assert len(names) > 30
    assert [name for name in sorted(names) if not _is_there(name)] == []
    rigs = set(re.findall(r"`-([a-z][a-z-]+)`", text))
    assert rigs
    assert [name for name in rigs if not _is_there(f"hwprofiles/rigs/dual-3090-3070-{name}.toml")] == []


@pytest.mark.parametrize(
    "name",
    [
        "memory.nothing",
        "nodes.gpus.nothing",
        "stages.nothing.length_s",
        "throughput.nothing",
        "sku.nothing",
        "event:nothing",
        "event:memory_policy/nothing",
        "rigproof/nothing.py",
        "rigproof nothing",
        "--nothing",
        "nothing",
    ],
)
def test_what_is_not_there_is_noticed(name):
    assert not _is_there(name)


@pytest.mark.parametrize(
    "name", ["tests/unit/test_seeds_table.py::test_nothing", "tests/nothing.py::test_x", "bench/nothing.py"]
)
def test_a_test_that_is_not_there_is_noticed(name):
    assert not _is_shown(name)


def _is_there(name: str) -> bool:
    """Whether a name of the second column means something."""
    if name.startswith("event:"):
        return _is_event(name.removeprefix("event:"))
    if name.startswith("--"):
        return name in {short(option) for group in OPTIONS.values() for names in group for option in names}
    if name.startswith("rigproof "):
        return name.removeprefix("rigproof ") in _commands()
    if "/" in name:
        return (ROOT / name).is_file()
    return name in CATALOGUE or name in _keys()


def _is_event(name: str) -> bool:
    kind, _, technique = name.partition("/")
    return kind in KINDS.events and (not technique or f'"{technique}"' in _workloads())


def _is_shown(name: str) -> bool:
    """Whether a name of the third column is a test, or a benchmark."""
    path, _, function = name.partition("::")
    if path.startswith("bench/") and not function:
        return (ROOT / path).is_file()
    return function in _tests_in(path)


@cache
def _tests_in(path: str) -> frozenset[str]:
    file = ROOT / path
    if not path.startswith("tests/") or not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@cache
def _keys() -> frozenset[str]:
    return frozenset([*_keys_of(MODELS.rig, ""), *_keys_of(MODELS.sku, "sku.")])


def _keys_of(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield prefix + name
        for table in _tables_in(field.annotation):
            yield from _keys_of(table, f"{prefix}{name}.")


def _tables_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _tables_in(inner)


@cache
def _commands() -> set[str]:
    groups = {one.name for one in app.registered_groups if one.name}
    return groups | {one.name or one.callback.__name__ for one in app.registered_commands if one.callback}


@cache
def _workloads() -> str:
    files = (path for room in ("devices", "stages") for path in (ROOT / "rigproof" / room).rglob("*.py"))
    return "".join(path.read_text(encoding="utf-8") for path in files)
