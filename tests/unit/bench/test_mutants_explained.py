"""bench/mutants_explained.toml explains lines that there are. Needs nothing of what makes mutations."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXPLAINED = tomllib.loads((ROOT / "bench" / "mutants_explained.toml").read_text(encoding="utf-8"))["survivor"]


@pytest.mark.parametrize("one", EXPLAINED, ids=[f"{one['path']}: {one['before']}" for one in EXPLAINED])
def test_a_line_that_is_explained_is_in_its_file(one):
    lines = (ROOT / one["path"]).read_text(encoding="utf-8").splitlines()
    assert one["before"] in [line.strip() for line in lines]
