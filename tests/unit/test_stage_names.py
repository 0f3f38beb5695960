"""No module outside a stage's folder knows the stage by name: adding one touches nothing but its own."""

import ast
from collections.abc import Iterator
from pathlib import Path

from rigproof.host.package import PACKAGE
from rigproof.stages.registry import KINDS

REGISTRY = PACKAGE / "stages" / "registry.py"  # imports each of them
# Keys and attributes that began with a stage's name when each stage had its keys in shared tables.
ENDINGS = ("_s", "_of", "_share", "_tflops")
OTHERS = {"peer_share"}  # of what a device's or a host's equals reach: older than the stage of that name


def uses(tree: ast.AST, names: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Line and word of each text that is a stage's name, `stages.<name>`, import of its folder, or key of it.

    An attribute, argument or module of the same name is only an English word.
    """
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    keys = {f"{name}{ending}" for name in names for ending in ENDINGS} - OTHERS
    for node in ast.walk(tree):
        words: list[str | None] = []
        known = keys
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            words, known = [node.value], keys | names
        elif isinstance(node, ast.Attribute):
            of = node.value
            whose = of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""
            words, known = [node.attr], keys | names if whose == "stages" else keys
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = [one.name for one in node.names]
            if isinstance(node, ast.ImportFrom):
                modules = [f"{node.module}.{one}" for one in modules]
            words = [one.split(".")[2] for one in modules if one.startswith("rigproof.stages.")]
            known = names
        elif isinstance(node, ast.keyword | ast.arg):
            words = [node.arg]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            words = [node.target.id]
        for word in words:
            if word in known:
                yield getattr(node, "lineno", 0), word


def found_in(path: Path) -> list[tuple[int, str]]:
    """What a module knows of stages whose folder it is not in."""
    inside = path.relative_to(PACKAGE).parts
    own = inside[1] if inside[0] == "stages" and len(inside) > 2 else ""
    return sorted(uses(ast.parse(path.read_text(encoding="utf-8")), frozenset(KINDS.names) - {own}))


MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != REGISTRY]


def test_no_module_outside_its_folder_knows_a_stage_by_name():
    found = [
        f"rigproof/{path.relative_to(PACKAGE)}:{line} names the stage {word}: select stages by their duty, "
        "or let StageFacts say what is needed; if the text means something else there, rename one of the two"
        for path in MODULES
        for line, word in found_in(path)
    ]
    assert not found, "\n".join(found)


def test_the_search_is_not_blind():
    lines = [
        '"""gemm"""',
        'task.stage == "gemm"',
        "loaded.stages.sharing.workers",
        "plan(sustained_s=3)",
        "class A:",
        "    training_s: int",
        "from rigproof.stages.disk.stage import KIND",
        "from rigproof.stages import ram",
        "import rigproof.stages.feeding",
        "self.sharing, stages.registry, Field(pattern=transient)",
        "from rigproof.stages.tables import StageTable",
    ]
    found = uses(ast.parse("\n".join(lines)), frozenset(KINDS.names))
    assert sorted(found) == [
        (2, "gemm"),
        (3, "sharing"),
        (4, "sustained_s"),
        (6, "training_s"),
        (7, "disk"),
        (8, "ram"),
        (9, "feeding"),
    ]
