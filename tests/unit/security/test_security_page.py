"""docs/security.md names the test that shows each promise: all of them have to be there."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
CONSTANT = re.compile(r"`(rigproof(?:\.\w+)+)\.([A-Z][A-Z_]+)`")


def promises() -> list[tuple[str, str]]:
    """Each promise with the cell that names its tests."""
    found, header = [], ""
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if len(cells) >= 2 and cells[0] in ("Promise", "File"):
            header = cells[0]
        elif len(cells) == 2 and header == "Promise" and set(cells[0]) != {"-"}:
            found.append((cells[0], cells[1]))
    return found


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_promise_has_a_test():
    assert len(promises()) > 20
    assert [promise for promise, shown_by in promises() if not TEST.search(shown_by)] == []


def test_every_test_that_is_named_is_there():
    for path, name in sorted(set(TEST.findall(PAGE))):
        assert name in functions(path), f"{path} has no {name}"


def test_nothing_but_tests_stands_where_tests_are_named():
    left = [TEST.sub("", shown_by).strip() for _, shown_by in promises()]
    assert left == [""] * len(left)


@pytest.mark.parametrize(("module", "name"), sorted(set(CONSTANT.findall(PAGE))))
def test_every_constant_that_is_named_is_there(module, name):
    assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        ("rigproof.records.limits", "PROFILE_BYTES_MAX", 2**20),
        ("rigproof.records.limits", "RECORDING_BYTES_MAX", 4 * 2**30),
        ("rigproof.records.limits", "RECORDING_LINE_BYTES_MAX", 32 * 2**20),
        ("rigproof.records.disk.table_files", "ROWS_MAX", 100_000_000),
        ("rigproof.records.disk.table_files", "ROWS_FREE", 100_000),
        ("rigproof.records.disk.table_files", "ROWS_PER_BYTE", 1),
        ("rigproof.records.disk.table_files", "PARTS_FREE", 64 * 2**20),
        ("rigproof.records.disk.table_files", "PARTS_PER_BYTE", 128),
        ("rigproof.records.disk.table_files", "LISTED_FREE", 1_000_000),
        ("rigproof.records.disk.table_files", "LISTED_PER_BYTE", 16),
        ("rigproof.records.limits", "HISTORY_BYTES_MAX", 16 * 2**20),
        ("rigproof.records.limits", "CHAMPIONS_BYTES_MAX", 16 * 2**20),
        ("rigproof.records.limits", "VERDICT_BYTES_MAX", 4 * 2**30),
        ("rigproof.cli.rejudge", "HEAD_BYTES", 65536),
    ],
)
def test_the_limits_are_those_of_the_page(module, name, value):
    assert f"`{module}.{name}`" in PAGE
    assert getattr(importlib.import_module(module), name) == value
