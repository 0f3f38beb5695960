"""NVIDIA's Xid catalogue as it is shipped, and what is wrong with one that is not."""

import pytest

from rigproof.profiles.lint.rig import lint_all
from rigproof.profiles.loading.xids import XidCatalogue, catalogue_problems, xid_catalogue
from rigproof.stages.registry import KINDS

ENTRY = {"meaning": "x", "outcome": "warn", "action": "a", "sources": ["s"]}
SOUND = {
    "sources": {"s": "somebody"},
    "actions": {"a": {"severity": "warn", "step": "do"}},
    "recovery": {"1": {"wants": "a reset", "action": "a"}},
    "xids": {"13": ENTRY},
}


def test_every_number_of_nvidias_catalogue_is_there():
    assert sorted(xid_catalogue().xids) == list(range(1, 173))


def test_what_fails_is_what_takes_more_than_a_restart_of_the_program():
    fails = {code for code, one in xid_catalogue().xids.items() if one.outcome == "fail"}
    assert fails == {
        46, 48, 54, 57, 58, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, *range(144, 152),
        155, 156, 158, 167, 168, 169, 171, 172,
    }  # fmt: skip


def test_what_is_mostly_the_programs_own():
    own = {code for code, one in xid_catalogue().xids.items() if one.outcome == "program"}
    assert own == {11, 13, 25, 31, 43, 45, 69, 137}


def test_nothing_that_fails_has_nothing_to_be_done_about_it():
    catalogue = xid_catalogue()
    idle = [catalogue.actions[name] for name in ("none", "program", "corrected")]
    assert [
        code for code in catalogue.xids
        if catalogue.outcome(code) == "fail" and catalogue.action(code) in idle
    ] == []  # fmt: skip


def test_every_recovery_action_of_nvml_is_named_but_none():
    assert sorted(xid_catalogue().recovery) == [1, 2, 3, 4, 5, 6, 7]


def test_a_number_without_an_entry_has_no_step_and_warns():
    catalogue = xid_catalogue()
    assert (catalogue.meaning(999), catalogue.action(999)) == ("in no catalogue known to rigproof", None)
    assert catalogue.outcome(999) == catalogue.outcome(None) == "warn"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        (
            {"actions": SOUND["actions"] | {"b": {"severity": "warn", "step": "rest"}}},
            ['actions.b = "rest": nothing refers to it; remove it'],
        ),
        ({"sources": {"s": "x", "t": "y"}}, ['sources.t = "y": nothing refers to it; remove it']),
        (
            {"xids": {"13": ENTRY, "14": ENTRY | {"action": "aa"}}},
            ['xids.14.action = "aa": no such action; did you mean "a"?'],
        ),
        (
            {"recovery": {"1": {"wants": "a reset", "action": "reset"}}},
            ['recovery.1.action = "reset": no such action; known: a'],
        ),
        (
            {"xids": {"13": ENTRY | {"sources": ["s", "who"]}}},
            ['xids.13.sources = "who": no such source; known: s'],
        ),
    ],
)
def test_names_have_to_lead_somewhere(changes, expected):
    catalogue = XidCatalogue.model_validate(SOUND | changes)
    assert list(catalogue_problems(catalogue)) == [f"hwprofiles/xids.toml: {line}" for line in expected]


def test_a_broken_catalogue_is_reported_by_lint(monkeypatch, tmp_path):
    folder = tmp_path / "hwprofiles"
    folder.mkdir()
    (folder / "xids.toml").write_text("[sources]\n")
    monkeypatch.setattr("rigproof.profiles.loading.xids.profile_folder", lambda: folder)
    xid_catalogue.cache_clear()
    try:
        assert any("actions: missing" in line for line in lint_all(KINDS))
    finally:
        xid_catalogue.cache_clear()
