"""Which stages a rate is in doubt in, so that the history does not keep it."""

import pytest

from rigproof.plugin.benchmarks import stages_concerned
from rigproof.stages.registry import KINDS

STAGES = ("gemm", "sustained", "transfer")


@pytest.mark.parametrize(
    ("criterion", "concerned"),
    [
        ("activity.undisturbed", set(STAGES)),  # a stranger uses the link, too
        ("host.responsiveness", {"sustained"}),
        ("transfer.h2d", {"transfer"}),
    ],
)
def test_a_stranger_is_in_doubt_everywhere_and_other_trouble_where_it_is_judged(criterion, concerned):
    assert set(stages_concerned(criterion, STAGES, KINDS)) == concerned
