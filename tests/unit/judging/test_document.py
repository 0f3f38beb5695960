import pytest

from rigproof.host.package import suite_folder
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.document import criteria_page, documents
from rigproof.judging.fault_page import filled


def test_what_is_made_from_the_code_is_committed_as_it_is_made():
    for path, text in documents().items():
        current = path.read_text(encoding="utf-8") == text
        assert current, f"write {path} anew: PYTHONPATH=.:tests python -m support.generated"


def test_a_page_keeps_what_people_wrote_and_must_have_the_marks_of_each_part(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Own words\n\n<!-- made: rows -->\n\nold\n\n<!-- end -->\n\nMore of them.\n")
    new = "# Own words\n\n<!-- made: rows -->\n\n1\n2\n\n<!-- end -->\n\nMore of them.\n"
    assert filled(page, {"rows": ["1", "2"]}) == new
    with pytest.raises(ValueError, match="lacks the marks of its part others"):
        filled(page, {"others": ["1"]})


def test_every_family_has_the_heading_that_failures_point_to():
    headings = [line for line in criteria_page().splitlines() if line.startswith("## ")]
    families = dict.fromkeys(criterion.family for criterion in CATALOGUE.values())
    assert headings == ["## By title", "## Rules for all of them", *(f"## {family}" for family in families)]


def test_a_title_leads_to_its_criterion_and_its_test():
    page = criteria_page()
    for one in CATALOGUE.values():
        family, what = one.name.split(".")
        anchor = f"{family}{what}"
        row = f"| {one.title} | [{one.name}](#{anchor}) | `test_{family}.py::test_{what}` |\n"
        assert page.count(row) == 1
        suite = suite_folder() / f"test_{family}.py"
        own = f'@pytest.mark.criterion("{one.name}")\ndef test_{what}('
        assert own in suite.read_text(), (
            f"add test_{what} to {suite}, so that an acceptance run judges {one.name}"
        )


def test_every_criterion_is_fully_described():
    page = criteria_page()
    for criterion in CATALOGUE.values():
        assert f"### {criterion.name}\n\n{criterion.summary}" in page
        texts = (criterion.summary, criterion.limit, criterion.remedy, criterion.unmeasured)
        assert all(texts), criterion.name
        assert criterion.summary.endswith(".")
        assert not criterion.remedy.endswith("."), criterion.name
