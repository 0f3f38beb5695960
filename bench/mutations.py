"""Which mutations there are of a file, and which of them a seed picks: cosmic-ray's operators and two more.

Left out are places where a mutation says nothing about a test: annotations, `@dataclass` and caches,
`assert`, `strict=True`, `frozen=True`, and operators between strings, which only raise.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.ast.ast_query import ASTQuery
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from parso.python.tree import Keyword

# Mistakes that people make. `x < y` for `x ** y` and the like only raise, and would flatter the score.
COMPARISONS = "Lt_LtE LtE_Lt Gt_GtE GtE_Gt Lt_GtE LtE_Gt Gt_LtE GtE_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
ARITHMETIC = "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_FloorDiv BitAnd_BitOr BitOr_BitAnd"
FROM_COSMIC_RAY = (
    *(f"ReplaceComparisonOperator_{one}" for one in COMPARISONS.split()),
    *(f"ReplaceBinaryOperator_{one}" for one in ARITHMETIC.split()),
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_Delete_USub",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "AddNot",
    "NumberReplacer",
    "ZeroIterationForLoop",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
)
SWAPPED = {
    "median": "max",
    "max": "min",
    "min": "max",
    "maximum": "minimum",
    "minimum": "maximum",
    "sum": "max",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "ceil": "floor",
    "sorted": "list",
}
UNCHANGED = ("@dataclass", "@lru_cache", "@cache")


class SwapAggregate(Operator):
    """`max(` for `min(` or `median(`, `all(` for `any(`, and so on."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Where such a name is called."""
        if node.type == "name" and node.value in SWAPPED:
            after = node.get_next_leaf()
            if after is not None and after.value == "(" and node.parent.type not in ("funcdef", "classdef"):
                yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ARG002 - as cosmic-ray calls it
        """The other name."""
        node.value = SWAPPED[node.value]
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """None: cosmic-ray's own tests ask for them."""
        return ()


class DropStatement(Operator):
    """`pass` for a `raise`, a call, `x += 1`, `self.x = 1`, or a `return` that ends a function early."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Where one stands."""
        # An object that its constructor leaves unfinished only raises.
        if node.type == "simple_stmt" and _droppable(node) and _definition(node) != "__init__":
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ARG002 - as cosmic-ray calls it
        """The statement without what it does."""
        prefix = node.get_first_leaf().prefix
        node.children[0] = Keyword("pass", node.start_pos, prefix)
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """None, as above."""
        return ()


def _droppable(node: Any) -> bool:
    statement = node.children[0]
    if statement.type == "return_stmt":
        block = node.parent
        return block.type == "suite" and block.parent.type in ("if_stmt", "try_stmt", "for_stmt")
    if statement.type == "expr_stmt":
        target, operator = statement.children[0], statement.children[1]
        changes = operator.type == "operator" and operator.value != "="  # x += 1
        return changes or (target.type in ("atom_expr", "power") and operator.type != "annassign")
    return statement.type in ("raise_stmt", "atom_expr", "power")


@dataclass(frozen=True)
class Mutation:
    """One. `number` tells it from its like in the same line of the same definition."""

    path: str
    definition: str
    operator: str
    before: str
    number: int
    line: int = field(compare=False)
    occurrence: int = field(compare=False)

    def rank(self, seed: int) -> str:
        """Its place in the order of a seed: changes elsewhere in the file do not move it."""
        parts = (seed, self.path, self.definition, self.operator, self.before, self.number)
        return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()

    def applied_to(self, source: str) -> str:
        """The file with this mutation in it."""
        mutated: str | None = mutate_code(source, OPERATORS[self.operator](), self.occurrence)
        assert mutated is not None
        return mutated


OPERATORS: dict[str, type[Operator]] = {
    **{name: plugins.get_operator(f"core/{name}") for name in FROM_COSMIC_RAY},
    "SwapAggregate": SwapAggregate,
    "DropStatement": DropStatement,
}


def mutations_of(path: str, source: str) -> Iterator[Mutation]:
    """All of a file."""
    nodes = list(ast_nodes(get_ast(source)))
    lines = source.splitlines()
    seen: Counter[tuple[str, str, str]] = Counter()
    for name, operator in OPERATORS.items():
        places = ((node, start) for node in nodes for start, _ in operator().mutation_positions(node))
        for occurrence, (node, start) in enumerate(places):
            if _says_nothing(node, lines[start[0] - 1].strip()):
                continue
            before = lines[start[0] - 1].strip()
            definition = _definition(node)
            seen[definition, name, before] += 1
            number = seen[definition, name, before]
            yield Mutation(path, definition, name, before, number, start[0], occurrence)


def _definition(node: Any) -> str:
    return ASTQuery(node).get_definition_name() or ""


def _says_nothing(node: Any, line: str) -> bool:
    if line.startswith((*UNCHANGED, "assert ")) or _no_arithmetic(node):
        return True
    while node.parent is not None:
        parent = node.parent
        if parent.type in ("tfpdef", "assert_stmt") or (
            parent.type == "param" and node is not parent.default
        ):
            return True
        if parent.type == "annassign" and node is parent.children[1]:
            return True
        if parent.type == "funcdef" and node is parent.annotation:
            return True
        if parent.type == "argument" and parent.children[0].get_code().strip() in ("strict", "frozen"):
            return True
        node = parent
    return False


def _no_arithmetic(node: Any) -> bool:
    if node.type != "operator":
        return False
    if node.parent.type == "parameters" or (node.value == "|" and not _definition(node)):
        return True  # `*` before keywords alone; a type
    beside = (node.get_previous_sibling(), node.get_next_sibling())
    return any(one is not None and one.type in ("string", "fstring", "strings") for one in beside)


def picked(mutations: Iterable[Mutation], seed: int, number: int) -> Sequence[Mutation]:
    """The first so many in the order of the seed, one a line at most; 0: all there are."""
    if not number:
        return sorted(mutations, key=lambda one: (one.path, one.line, one.operator, one.number))
    chosen: dict[tuple[str, int], Mutation] = {}
    for one in sorted(mutations, key=lambda one: one.rank(seed)):
        chosen.setdefault((one.path, one.line), one)
        if len(chosen) == number:
            break
    return sorted(chosen.values(), key=lambda one: (one.path, one.line))


def all_of(root: Path, patterns: Sequence[str]) -> list[Mutation]:
    """All mutations of the files that match one of the patterns."""
    paths = sorted({path for pattern in patterns for path in root.glob(pattern)})
    return [
        one
        for path in paths
        for one in mutations_of(str(path.relative_to(root)), path.read_text(encoding="utf-8"))
    ]
