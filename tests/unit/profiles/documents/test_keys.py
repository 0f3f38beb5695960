"""Every key has a meaning, and docs/profiles.md says what the models say; its examples load."""

import re

import pytest

from rigproof.judging.catalogue import JUDGED_BY
from rigproof.profiles.documents.keys import keys_page
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.files import profile_folder
from rigproof.profiles.loading.load import default_rig
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.tables.base import Table
from rigproof.profiles.tables.levels import LEVELS
from rigproof.stages.gemm.stage import GemmSettings
from rigproof.stages.registry import KINDS
from rigproof.stages.sustained.stage import SustainedSettings

PAGE = (profile_folder().parent / "docs" / "profiles.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)


def test_every_key_of_the_models_has_a_meaning():
    rows = [line for line in keys_page(KINDS, JUDGED_BY).splitlines() if line.startswith("| `")]
    assert len(rows) > 90
    assert [row for row in rows if row.endswith("|  |")] == []


def meanings(table, place):
    """Key, meaning and value of every setting in a table and the tables in it."""
    for name, field in type(table).model_fields.items():
        value = getattr(table, name)
        if isinstance(value, Table):
            yield from meanings(value, f"{place}.{name}")
        else:
            yield f"{place}.{name}", field.description, value


@pytest.mark.parametrize(
    "place", ["limits", "gpu_defaults", "memory", "stages", "cpu", "responsiveness", "sampling", "timeouts"]
)
def test_a_meaning_says_what_holds_without_the_key_exactly_where_the_defaults_have_no_value(place):
    for key, meaning, value in meanings(getattr(default_rig(KINDS).rig, place), place):
        assert ("Left out" in meaning) == (value is None), key


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_every_example_loads_and_is_clean(desk, text):
    loaded = desk.load(text)
    assert lint_rig(loaded) == []
    assert make_plan(loaded, "quick").workers


def test_there_are_examples():
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize(("device", "end"), [("cuda", "about"), ("cpu", "within")])
def test_the_table_of_levels_says_their_lengths(device, end):
    row = rf"^\| (quick|standard|extended|soak) \| (.*?) \| {end} "
    rows = dict(re.findall(row, PAGE, flags=re.MULTILINE))
    defaults = default_rig(KINDS, {"nodes": [{"gpus": [{"device": device}]}]})
    gemm, sustained = defaults.settings(GemmSettings), defaults.settings(SustainedSettings)
    lengths = (gemm.settle_s, gemm.measure_s, sustained.length_s)
    assert rows == {
        name: "{:g} s / {:g} s | {:g} s".format(*(length.at(name) for length in lengths)) for name in LEVELS
    }
