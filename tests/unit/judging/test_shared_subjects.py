"""Criteria of pairs and groups: whom they are promised for, what they see, and why they may see nothing."""

from dataclasses import replace

import pytest

from rigproof.criteria.criterion import Finding, NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.judging.document import _entry
from rigproof.judging.judge import judge, promised
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome
from support.exchange import NAME, done, messages
from support.rig_profile import RIG, loaded_rig

PAIR, WORKER = "pc1/gpu0-pc2/gpu0", "pc1/gpu0#0"
SUBJECTS = {"pair": PAIR, "node_pair": "pc1+pc2", "group": "sku:h200"}
WITH_CPU = [
    *RIG["nodes"],
    {"name": "pc3", "cpus": 8, "ram_gib": 64, "gpus": [{"sku": "unknown", "device": "cpu"}]},
]


def of(scope, **changes):
    """The tests' criterion for another kind of subject; it judges no stage."""
    return replace(messages, scope=scope, stages=(), find=lambda _: Finding(Outcome.PASS), **changes)


def worked(bench, *rounds):
    """Evidence with these rounds of the pair, in a stage that has ended."""
    bench.recording.rounds = [*bench.recording.rounds, *rounds]
    bench.recording.add(replace(bench.recording.stages["gemm"], name=NAME))
    return Evidence(bench.recording, bench.loaded)


@pytest.mark.parametrize("scope", SUBJECTS)
def test_a_shared_subject_is_judged_by_its_members(bench, scope):
    criterion = of(scope)
    assert promised(criterion, bench.loaded) == (SUBJECTS[scope],)
    assert judge(criterion, SUBJECTS[scope], Evidence(bench.recording, bench.loaded)).outcome is Outcome.PASS
    about = Evidence(bench.recording, bench.loaded).shared(scope, SUBJECTS[scope])
    kind = NodeEvidence if scope == "node_pair" else DeviceEvidence
    assert [type(one) for one in about.members] == [kind, kind]


@pytest.mark.parametrize("scope", SUBJECTS)
def test_one_member_that_was_not_found_is_named(bench, scope):
    bench.recording.gpus.pop("pc2/gpu0")
    bench.recording.nodes.pop("pc2")
    verdict = judge(of(scope), SUBJECTS[scope], Evidence(bench.recording, bench.loaded))
    missing = "pc2" if scope == "node_pair" else "pc2/gpu0"
    assert (verdict.outcome, verdict.detail) == (Outcome.NOT_MEASURED, f"{missing} was not found")


@pytest.mark.parametrize(("scope", "all_of_them"), [("pair", 3), ("node_pair", 3), ("group", 1)])
def test_who_does_not_fit_is_in_no_pair(scope, all_of_them):
    loaded = loaded_rig({"nodes": WITH_CPU})
    assert len(promised(of(scope), loaded)) == all_of_them
    assert promised(of(scope, applies_to_cpu=False), loaded) == (SUBJECTS[scope],)


def test_a_pair_sees_its_own_rounds_alone(bench):
    evidence = worked(bench, done(WORKER, PAIR, 40.0, 0.5), done(WORKER, "pc1/gpu0", 41.0, 0.5))
    assert len(evidence.shared("pair", PAIR).rounds(NAME)) == 1
    assert judge(replace(messages, stages=()), PAIR, evidence).outcome is Outcome.PASS


@pytest.mark.parametrize("seconds", [0.0, float("nan"), -1.0])
def test_a_round_that_is_no_measurement_spoils_them_all(bench, seconds):
    evidence = worked(bench, done(WORKER, PAIR, 40.0, 0.5), done(WORKER, PAIR, 41.0, seconds))
    with pytest.raises(NotMeasured, match="which is not a valid measurement"):
        evidence.shared("pair", PAIR).rounds(NAME)


def test_a_crew_that_failed_says_why_nothing_was_measured(bench):
    message = "it lost pc2/gpu0#0; the others were told to stop"
    bench.recording.add(Event(42.0, "crew_failed", PAIR, message, NAME))
    verdict = judge(replace(messages, stages=()), PAIR, worked(bench))
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == f"no round of {NAME} was measured: {message} (at t=42 s)"


def test_else_a_member_does(bench):
    bench.lose("pc2/gpu0#0", "worker_died", "killed by signal 9", 41.0)
    cause = worked(bench).shared("pair", PAIR).cause()
    assert cause == "pc2/gpu0: killed by signal 9 (at t=41 s)"
    assert worked(bench).shared("node_pair", "pc1+pc2").cause() == ""


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("pair", "every pair of promised devices but the CPU"),
        ("node_pair", "every pair of promised nodes that have devices with CUDA GPUs"),
        ("group", "the promised devices of each SKU with several devices but the CPU"),
    ],
)
def test_the_catalogue_says_whom_it_judges(scope, expected):
    assert f"**Judged for:** {expected}; in messages." in _entry(of(scope, applies_to_cpu=False))
