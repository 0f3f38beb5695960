"""The committed schemas are those of the models, and every shipped file is valid by them."""

import json
import re
import tomllib
from functools import cache

import jsonschema
import pytest

from rigproof.judging.catalogue import JUDGED_BY
from rigproof.profiles.documents.keys import rig_schema, sku_schema, xids_schema
from rigproof.profiles.loading.files import profile_folder
from rigproof.stages.registry import KINDS

FOLDER = profile_folder()
RIGS = sorted((FOLDER / "rigs").glob("*.toml"))
SKUS = sorted((FOLDER / "gpus").glob("*.toml"))
VARIANTS = ("balanced", "distribution", "vram-safe", "max-stability", "ultimate", "fallback")
DUAL_RIGS = ("dual-3090-3070", *(f"dual-3090-3070-{variant}" for variant in VARIANTS))


@pytest.fixture(scope="module")
def of_rigs():
    return rig_schema(KINDS, JUDGED_BY)


def test_each_schema_is_one(of_rigs):
    for schema in (of_rigs, sku_schema(KINDS), xids_schema()):
        jsonschema.Draft202012Validator.check_schema(schema)


@cache
def validator_of(path):
    return jsonschema.Draft202012Validator(json.loads(path.read_text()))


@pytest.mark.parametrize(
    "path",
    [*RIGS, *SKUS, FOLDER / "defaults.toml", FOLDER / "defaults-cpu.toml", FOLDER / "xids.toml"],
    ids=lambda path: path.stem,
)
def test_every_shipped_file_is_valid_and_names_its_schema(path):
    text = path.read_text(encoding="utf-8")
    first = text.splitlines()[0]
    assert first.startswith("#:schema ")
    validator_of(path.parent / first.removeprefix("#:schema ")).validate(tomllib.loads(text))


def test_shipped_files_are_there():
    assert {path.stem for path in RIGS} == {"single-gpu", "h200-x2", *DUAL_RIGS}
    assert len(SKUS) >= 58


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {"name": "x", "typo": 1},
        {"name": "x", "nodes": [{"name": "a b"}]},
        {"name": "x", "cpu": {"enabled": 1}},
    ],
)
def test_the_schema_refuses_what_is_wrong(of_rigs, tables):
    assert not jsonschema.Draft202012Validator(of_rigs).is_valid(tables)


def test_the_documented_models_are_the_shipped_ones():
    page = (FOLDER.parent / "docs" / "profiles.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"\| Cards \| SKU files \|\n\|---\|---\|\n((?:\|.*\n)+)", page)
    assert sorted(re.findall(r"`([a-z0-9-]+)`", table)) == sorted(path.stem for path in SKUS)


@pytest.mark.parametrize("path", SKUS, ids=lambda path: path.stem)
def test_every_value_of_a_sku_names_its_source(path):
    """A comment on the line itself, or above the list that it is in."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        key, equals, value = line.partition(" = ")
        if equals and not key.startswith(("#", " ")) and key != "name":
            above = lines[number - 1].startswith("#")
            assert "#" in value or (value.startswith("[") and above), f"{path.stem}: {line}"
