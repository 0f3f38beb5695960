"""Stages report what they declare: the kinds of their events, and the labels of their rounds."""

import ast
from functools import cache
from pathlib import Path

import pytest

import rigproof
from rigproof.profiles.tables.levels import LEVELS
from rigproof.records.measurements import EVENT_KINDS, TFLOP, Event, Round
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from support.rig_profile import CANNED, RIG, loaded_rig, stage_changes

PACKAGE = Path(rigproof.__file__).parent
EMITTING = {"Event": 1, "event": 0}  # the place of the kind among the arguments, at least


@cache
def kinds_in(path):
    """Texts that stand where an event's kind does."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name not in EMITTING:
            continue
        given = [*node.args[:2], *(one.value for one in node.keywords if one.arg == "kind")]
        texts = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        found += texts[:1]
    return found


def test_every_kind_of_event_that_is_reported_is_declared():
    found = {(kind, path) for path in PACKAGE.rglob("*.py") for kind in kinds_in(path)}
    assert len(found) > 30
    assert {(kind, str(path)) for kind, path in found if kind not in KINDS.events} == set()


def test_a_stage_declares_the_kinds_that_it_alone_reports():
    own = [kind for stage in KINDS for kind in stage.events]
    assert len(set(own)) == len(own)
    assert not set(own) & set(EVENT_KINDS)
    path_of = {kind: path for path in PACKAGE.rglob("*.py") for kind in kinds_in(path)}
    for stage in KINDS:
        for kind in stage.events:
            assert (PACKAGE / "stages" / stage.name) in path_of[kind].parents


def test_a_label_means_the_same_in_every_stage():
    kinds = {}
    for stage in KINDS:
        for label in stage.labels:
            assert kinds.setdefault(label.name, label.kind) is label.kind


@pytest.fixture(scope="module")
def recording():
    """All stages: the canned rig's, and those that it leaves out, also for want of two cards in a node."""
    left_out = {
        kind.name: stage_changes(
            kind.name, length_s=dict.fromkeys(LEVELS, 10 if kind.name == "transient" else 3)
        )["stages"][kind.name]
        for kind in KINDS
        if kind.name not in CANNED
    }
    first, second = RIG["nodes"]
    nodes = [first, second | {"gpus": 2 * second["gpus"]}]
    return simulated_recording(loaded_rig({"stages": RIG["stages"] | left_out, "nodes": nodes}), "standard")


def test_rounds_have_the_labels_that_their_stage_declares(recording):
    declared = {stage.name: {label.name: label.kind for label in stage.labels} for stage in KINDS}
    assert {one.stage for one in recording.rounds} == declared.keys()
    for one in recording.rounds:
        assert isinstance(one, Round)
        labels = {name: type(value) for name, value in one.labels.items()}
        assert labels.items() <= declared[one.stage].items()
        assert (
            {"precision", "size"} if one.unit == TFLOP else {"size"} & set(declared[one.stage])
        ) <= labels.keys()


def test_a_stage_without_tables_of_its_own_shows_the_rates_of_its_figures(recording, monkeypatch):
    assert not list(KINDS["gemm"].tables(recording))  # by its own choice
    monkeypatch.delattr("rigproof.stages.gemm.criteria.tables")
    (table,) = KINDS["gemm"].tables(recording)
    assert table.columns[:3] == ("Device", "fp32, TFLOP/s", "tf32, TFLOP/s")
    assert [row[0] for row in table.rows] == list(recording.gpus)
    assert all(float(rate) > 1 for rate in table.rows[0][1:4])


def test_events_of_a_simulated_run_are_declared(recording):
    assert all(isinstance(one, Event) and one.kind in KINDS.events for one in recording.events)
