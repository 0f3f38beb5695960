"""How far what a card counts went up during the run."""

import pytest

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.counters import growth
from rigproof.records.measurements import GpuCounters


def counted(moment, pcie_replays):
    return GpuCounters(1.0, "pc1/gpu0", moment, pcie_replays=pcie_replays)


def test_growth_is_the_difference_of_its_ends():
    assert growth(counted("before", 3), counted("after", 7), "pcie_replays", "replays") == 4
    assert growth(counted("before", 3), counted("after", 3), "pcie_replays", "replays") == 0


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, counted("after", 7), "replays were not counted before the load"),
        (counted("before", 3), None, "replays were not counted after the load"),
        (counted("before", None), counted("after", 7), "replays were not counted before the load"),
        (counted("before", 7), counted("after", 3), "the counter of replays went back from 7 to 3"),
    ],
)
def test_without_both_ends_or_after_a_reset_nothing_was_measured(before, after, expected):
    with pytest.raises(NotMeasured, match=expected):
        growth(before, after, "pcie_replays", "replays")
