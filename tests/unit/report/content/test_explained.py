from pathlib import Path

from rigproof.report.content import explained
from rigproof.report.content.explained import criteria_page


def test_in_a_checkout_it_is_the_page_there(monkeypatch):
    monkeypatch.chdir(explained.ROOT)
    assert criteria_page() == "docs/criteria.md"
    assert Path(criteria_page()).is_file()


def test_where_only_the_wheel_is_installed_it_is_the_page_in_the_wheel(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "rigproof"
    (package / "docs").mkdir(parents=True)
    (package / "docs" / "criteria.md").write_text("# Criteria\n")
    monkeypatch.setattr(explained, "PACKAGE", package)
    monkeypatch.setattr(explained, "ROOT", package.parent)
    assert Path(criteria_page()) == package / "docs" / "criteria.md"


def test_the_wheel_has_that_page():
    project = (explained.ROOT / "pyproject.toml").read_text()
    assert '"docs/criteria.md" = "rigproof/docs/criteria.md"' in project
