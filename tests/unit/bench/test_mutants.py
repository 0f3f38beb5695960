"""bench/mutants.py: which mutations there are, which of them a seed picks, and what the score counts."""

import ast
import sys
import textwrap
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"

with pytest.MonkeyPatch.context() as patch:
    patch.setattr(sys, "path", [str(BENCH), *sys.path])
    import mutants
    import mutations

SOURCE = textwrap.dedent(
    '''
    """A module."""
    LEAST = 100
    Path = int | None

    @dataclass(frozen=True)
    class Found:
        value: float | None = 0.5

    def worst(rates: list[float], *, width: int | None = None) -> float | None:
        """The slowest."""
        assert width is None or width > 0
        total = 0.0
        for rate, _ in zip(rates, rates, strict=True):
            if rate <= 0 or not rate:
                raise ValueError("no rate" + str(rate))
            total += rate
        rates.sort()
        return max(rates) / total
    '''
)


def all_of(source=SOURCE, path="m.py"):
    return list(mutations.mutations_of(path, source))


def mutated(operator):
    """The lines that this operator makes, of all its mutations."""
    made = [(one, one.applied_to(SOURCE).splitlines()) for one in all_of() if one.operator == operator]
    return sorted(" ".join(lines[one.line - 1].split()) for one, lines in made)


def test_every_mutation_is_another_program():
    trees = {ast.dump(ast.parse(one.applied_to(SOURCE))) for one in all_of()}
    assert ast.dump(ast.parse(SOURCE)) not in trees
    assert len(trees) == len(all_of())


def test_aggregates_are_swapped_and_statements_dropped():
    assert mutated("SwapAggregate") == ["return min(rates) / total"]
    assert mutated("DropStatement") == ["pass"] * 3  # raise, total += rate, rates.sort(); no docstring
    assert mutated("NumberReplacer") == [
        "LEAST = 101",
        "LEAST = 99",
        "if rate <= -1 or not rate:",
        "if rate <= 1 or not rate:",
        "total = -1.0",
        "total = 1.0",
        "value: float | None = -0.5",
        "value: float | None = 1.5",
    ]


def test_annotations_asserts_dataclasses_and_strings_are_left_alone():
    operators = {one.operator for one in all_of()}
    assert not {one for one in operators if "BitOr" in one}
    assert "ReplaceTrueWithFalse" not in operators
    assert {one.definition for one in all_of() if one.operator == "AddNot"} == {"worst"}
    assert not [one for one in all_of() if one.operator.startswith("ReplaceBinaryOperator_Add")]


def test_a_sample_is_the_same_whatever_changes_elsewhere():
    one = mutations.picked(all_of(), 1, 5)
    longer = mutations.picked(all_of("\n\n" + SOURCE + "\n\ndef other():\n    pass\n"), 1, 5)
    assert one == longer  # only lines moved
    assert one != mutations.picked(all_of(), 2, 5)
    assert len({mutation.line for mutation in one}) == 5
    assert len(mutations.picked(all_of(), 1, 0)) == len(all_of())


def outcome(ring, one):
    return mutants.Outcome(one, "after", ring, "a test", 1.0)


def test_what_survived_is_counted_and_its_explanation_printed(capsys):
    first, second, *_ = all_of()
    known = mutants.Explained(first.path, first.definition, first.operator, first.before, "the same program")
    assert known.covers(first)
    outcomes = [outcome("", first), *(outcome("nearest", second) for _ in range(19))]
    assert mutants.reported(outcomes, [known], 0.95)
    assert "explained: the same program" in capsys.readouterr().out
    assert not mutants.reported([*outcomes, outcome("", second)], [known], 0.95)
    output = capsys.readouterr().out
    assert "NOT EXPLAINED" in output
    assert "19 of 21 killed, 90.5 %: 19 by the nearest tests" in output


def test_the_nearest_tests_have_the_files_name_or_import_it():
    nearest, folders = mutants.tests_of(mutants.ROOT, "rigproof/criteria/checks/host.py")
    assert nearest == ["tests/unit/criteria/checks/test_host.py"]
    assert folders == ["tests/unit/criteria", "tests/unit/judging", "tests/unit/stages"]
    nearest, _ = mutants.tests_of(mutants.ROOT, "rigproof/cluster/driver/ground.py")
    assert "tests/unit/cluster/driver/test_refused_creation.py" in nearest


def test_what_whole_simulated_runs_show_is_near_too():
    nearest, folders = mutants.tests_of(mutants.ROOT, "rigproof/judging/expected_outcomes.py")
    assert nearest == ["tests/unit/judging/test_blame.py"]
    assert folders[-1] == "tests/simulation/test_expected_outcomes.py"
    _, folders = mutants.tests_of(mutants.ROOT, "rigproof/stages/gemm/simulated.py")
    assert folders[-1] == "tests/simulation/test_expected_outcomes.py"
    _, folders = mutants.tests_of(mutants.ROOT, "rigproof/stages/gemm/stage.py")
    assert folders[-1] == "tests/unit/profiles"


def test_every_explanation_is_of_a_mutation_that_there_is():
    known = mutants.explanations(BENCH / "mutants_explained.toml")
    every = mutations.all_of(mutants.ROOT, sorted({one.path for one in known}))
    assert [one for one in known if not any(one.covers(mutation) for mutation in every)] == []
