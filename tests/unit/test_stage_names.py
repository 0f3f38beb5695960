"""No module outside a stage's folder knows the stage by name: adding one touches nothing but its own."""

import ast
from collections.abc import Iterator
from pathlib import Path

from rigproof.host.package import PACKAGE
from rigproof.stages.registry import KINDS

REGISTRY = PACKAGE / "stages" / "registry.py"  # imports each of them
# Keys and attributes that began with a stage's name when each stage had its keys in shared tables.
ENDINGS = ("_s", "_of", "_share", "_tflops")

# What still knows one, by module: the names, and why.
LEFT: dict[str, tuple[set[str], str]] = {
    "report/terminal/live.py": ({"transient"}, "rich's own word for a display that leaves nothing behind"),
    "history/listing.py": ({"pattern"}, "a regular expression's"),
    "profiles/tables/base.py": ({"pattern"}, "pydantic's keyword for one"),
    "profiles/tables/steady.py": ({"pattern"}, "pydantic's keyword for one"),
    "devices/cuda.py": ({"replay"}, "torch's word for launching a CUDA graph"),
}


def uses(tree: ast.AST, names: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Line and word of each text, attribute or keyword that is a stage's name, or a key made of one."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    keys = names | {f"{name}{ending}" for name in names for ending in ENDINGS}
    for node in ast.walk(tree):
        words: list[str | None] = []
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            words = [node.value]
        elif isinstance(node, ast.Attribute):
            words = [node.attr]
        elif isinstance(node, ast.keyword | ast.arg):
            words = [node.arg]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            words = [node.target.id]
        for word in words:
            if word in keys:
                yield getattr(node, "lineno", 0), word


def found_in(path: Path) -> list[tuple[int, str]]:
    """What a module knows of stages whose folder it is not in."""
    inside = path.relative_to(PACKAGE).parts
    own = inside[1] if inside[0] == "stages" and len(inside) > 2 else ""
    return sorted(uses(ast.parse(path.read_text(encoding="utf-8")), frozenset(KINDS.names) - {own}))


MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != REGISTRY]


def test_no_module_outside_its_folder_knows_a_stage_by_name():
    found = {str(path.relative_to(PACKAGE)): found_in(path) for path in MODULES}
    known = {module: words for module, (words, _) in LEFT.items()}
    assert {module: {word for _, word in uses} for module, uses in found.items() if uses} == known, found


def test_the_search_is_not_blind():
    text = '"""gemm"""\ntask.stage == "gemm"\nrig.sharing.workers\nplan(sustained_s=3)\n'
    text += "class A:\n    training_s: int\n"
    names = frozenset(KINDS.names)
    assert [word for _, word in sorted(uses(ast.parse(text), names))] == [
        "gemm",
        "sharing",
        "sustained_s",
        "training_s",
    ]
