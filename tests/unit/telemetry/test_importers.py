"""Each vendor library has its one importer."""

import ast
from pathlib import Path

import pytest

import rigproof

PACKAGE = Path(rigproof.__file__).parent


def importers(library: str) -> set[str]:
    found = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [node.module]
            if any(name.partition(".")[0] == library for name in names):
                found.add(str(file.relative_to(PACKAGE)))
    return found


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        # The simulation puts itself in the place of the library that pynvml loads.
        ("pynvml", {"telemetry/nvml/library.py", "simulation/nvml/library.py"}),
        ("psutil", {"telemetry/host.py"}),
    ],
)
def test_one_importer(library: str, expected: set[str]) -> None:
    assert importers(library) == expected
