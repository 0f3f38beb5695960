"""Why a criterion without a collected test is not measured."""

from dataclasses import replace

import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.plugin.session import without_test


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("memory.ecc", "not selected on the command line"),
        ("memory.new", "tests/hardware/test_memory.py has no test_new"),
        ("new.memory", "tests/hardware/test_new.py has no test_memory"),
    ],
)
def test_a_criterion_that_the_suite_has_no_test_of_says_which_one_is_missing(name, reason):
    assert without_test(replace(CATALOGUE["memory.ecc"], name=name)) == reason
