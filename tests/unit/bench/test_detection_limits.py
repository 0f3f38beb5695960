"""docs/detection.md is what the bench found, and the bench finds what is there to be found."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

with pytest.MonkeyPatch.context() as patch:
    patch.setattr(sys, "path", [str(ROOT / "bench"), *sys.path])
    import detection_limits as limits

FOUND = ROOT / "reports" / "samples" / "bench" / "detection.json"


def test_the_page_is_current():
    """Write it anew: python3 bench/detection_limits.py --page --out reports/samples/bench/detection.json."""
    assert limits.PAGE.read_text(encoding="utf-8") == limits.page(limits.rows_of(FOUND))


@pytest.fixture
def few_seeds(monkeypatch):
    """A search takes the same steps with fewer runs."""
    monkeypatch.setattr(limits, "SEEDS", 6)
    monkeypatch.setattr(limits, "ENOUGH", 5)


def _least(fault, key):
    return limits.least_of(("quick", "unknown-card", fault, key), limits.healthy("quick", "unknown-card"))


@pytest.mark.usefixtures("few_seeds")
def test_a_slower_link_is_found_by_its_least_step():
    row = _least("pcie-degraded", "to")
    assert (row.least, row.noticed, row.weaker, row.criterion) == (
        "to=3",
        limits.SEEDS,
        "to=4",
        "transfer.link",
    )
    assert row.decision == "REJECTED"


@pytest.mark.usefixtures("few_seeds")
def test_what_is_refused_says_so():
    row = _least("straggler", "by")
    assert (row.least, row.noticed) == (None, 0)
    assert "the rig has no other GPU of that SKU" in row.refused


def test_a_sag_that_begins_before_the_load_has_settled_is_noticed_on_a_lone_card_of_an_unknown_model():
    verdicts = limits.verdicts_of(
        "unknown-card", "quick", 0, "throughput-sag:stage=sustained,after=30%,by=12%"
    )
    assert {one.criterion for one in verdicts if one.outcome == "fail"} == {"throughput.stability"}
