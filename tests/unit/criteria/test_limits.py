"""A criterion reads the limits that it declares, and its rule names them."""

from functools import cached_property, partial
from types import CodeType, FunctionType

import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.profiles.tables.base import LimitKey

EVIDENCE = "rigproof.criteria.evidence."  # what all criteria share has limits of its own, such as coverage
OWN = ("rigproof.stages.", "rigproof.criteria.checks.")  # whose classes are followed, too


def limits_read(criterion, *, shared):
    """The limits to which its code refers, with all functions of rigproof that it calls by their names."""
    todo, seen, found = [criterion.find, criterion.caused_by_others, criterion.planned], [], set()
    while todo:
        match one := todo.pop():
            case LimitKey():
                found.add(one)
            case tuple():
                todo += one
            case dict():
                todo += one.values()
            case partial():
                todo += (one.func, *one.args)
            case property():
                todo.append(one.fget)
            case cached_property():
                todo.append(one.func)
            case type() if one.__module__.startswith(OWN) and one not in seen:
                seen.append(one)
                todo += vars(one).values()
            case FunctionType() if one.__module__.startswith("rigproof.") and one not in seen:
                seen.append(one)
                if shared or not one.__module__.startswith(EVIDENCE):
                    todo += [one.__globals__[name] for name in names_in(one.__code__) & {*one.__globals__}]
                    todo += [cell.cell_contents for cell in one.__closure__ or ()]
    return found


def judged_by(criterion):
    """The function that judges it; criteria of a direction or precision share one."""
    return criterion.find.func if isinstance(criterion.find, partial) else criterion.find.__code__


def names_in(code):
    inner = (names_in(const) for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*inner)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_criterion_declares_the_limits_that_it_reads_and_no_others(name):
    criterion = CATALOGUE[name]
    own, every = (limits_read(criterion, shared=shared) for shared in (False, True))
    alike = [one for one in CATALOGUE.values() if judged_by(one) is judged_by(criterion)]
    declared = set(criterion.limits)
    assert own <= declared.union(*(one.limits for one in alike)), "reads a limit that it does not declare"
    assert declared <= every, "declares a limit that it never reads"


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_rule_names_the_limits_that_are_declared(name):
    criterion = CATALOGUE[name]
    text = f"{criterion.limit} {criterion.unmeasured} {criterion.summary}"
    assert [key for key in criterion.limits if f"`{key}`" not in text] == []
