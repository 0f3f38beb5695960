import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.document import PAGE, markdown


def test_the_committed_page_is_what_the_code_says():
    if not PAGE.exists():
        pytest.fail(f"{PAGE} is not there; write it with `python -m rigproof.judging.document`")
    assert PAGE.read_text(encoding="utf-8") == markdown()


def test_every_family_has_the_heading_that_failures_point_to():
    headings = [line for line in markdown().splitlines() if line.startswith("## ")]
    assert headings == [f"## {family}" for family in dict.fromkeys(c.family for c in CATALOGUE.values())]


@pytest.mark.parametrize("criterion", CATALOGUE.values(), ids=CATALOGUE)
def test_every_criterion_is_fully_described(criterion):
    assert f"### {criterion.name}\n\n{criterion.summary}" in markdown()
    for text in (criterion.summary, criterion.limit, criterion.remedy, criterion.unmeasured):
        assert text
    assert criterion.summary.endswith(".")
    assert not criterion.remedy.endswith(".")
