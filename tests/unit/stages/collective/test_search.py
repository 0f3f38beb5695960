"""In simulated runs the stage finds who is to blame; where all is well it asks for no further turn."""

from collections import Counter
from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.judging.judge import judge
from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.champions import ChampionRate, champions_event, team_key
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.collective.criteria import CRITERIA
from rigproof.stages.collective.rates import figure_rate, speeds
from rigproof.stages.collective.search import further
from rigproof.stages.collective.stage import OPERATIONS
from rigproof.stages.kind import StageWork
from rigproof.stages.registry import KINDS
from support.equal_hosts import NONE
from support.lengths import lengths
from support.sentences import check_sentences

STAGE = "collective"
LEVELS = ("quick", "standard", "extended", "soak")


def rig(nodes: int, gpus: int, sku: str = "h100-sxm") -> LoadedRig:
    """A rig of so many nodes with so many of these cards each, that does little else."""
    of = {"cpus": 64, "ram_gib": 512, "gpus": [{"sku": sku}] * gpus}
    named = [{"name": f"n{one}", "address": f"n{one}.lan", **of} for one in range(nodes)]
    tables = lengths(*LEVELS, settle_s=1, measure_s=1, **(NONE | {"sustained": 2, STAGE: 4}))
    return over_defaults({"name": "lab", **tables, "nodes": named}, "lab.toml", KINDS)


def said(recording: Recording) -> list[tuple[str, str, str]]:
    found = [one for one in recording.events if one.kind in ("blamed", "not_told")]
    return [(one.kind, one.subject, one.message) for one in found]


def turns(recording: Recording) -> int:
    return sum(one.kind == "groups_tested" for one in recording.events)


def test_where_all_is_well_no_group_is_tested_by_itself() -> None:
    recording = simulated_recording(rig(2, 2), "quick")
    assert (turns(recording), said(recording)) == (0, [])
    assert recording.stages[STAGE].status == "finished"


@pytest.mark.parametrize(
    ("nodes", "gpus", "fault", "failing"),
    [
        (1, 8, "collective-hang@n0/gpu5", {"n0"}),
        (3, 4, "collective-wrong@n1/gpu2", {"n1", "rig"}),
        (4, 4, "nvlink-down@n1/gpu2", {"n1"}),  # between nodes the LAN is slower
    ],
)
def test_a_card_that_spoils_its_team_is_found_and_named_in_the_verdict(nodes, gpus, fault, failing) -> None:
    loaded = rig(nodes, gpus)
    recording = simulated_recording(loaded, "quick", (fault,))
    name = fault.partition("@")[2]
    why = f"{name} is to blame: it fails with each partner"
    assert said(recording) == [("blamed", name.partition("/")[0], why)]
    assert 0 < turns(recording) <= 7
    (blamed,) = (one for one in recording.events if one.kind == "blamed")
    assert blamed.data["apart"] == [name]
    evidence = Evidence(recording, loaded)
    found = {one.subject: judge(CRITERIA[0], one.subject, evidence) for one in evidence.teams}
    failed = {subject for subject, verdict in found.items() if verdict.outcome is Outcome.FAIL}
    assert failed == failing
    assert all(why in found[one].detail for one in failed)
    assert max(len(found[one].detail) for one in failed) <= 255


def test_of_several_to_blame_the_verdict_has_all_names_in_one_sentence() -> None:
    loaded = rig(1, 8)
    recording = simulated_recording(loaded, "quick", ("collective-wrong@n0/gpu5", "collective-wrong@n0/gpu2"))
    assert {message for _, _, message in said(recording)} == {
        f"n0/gpu{place} is to blame: it fails with each partner" for place in (2, 5)
    }
    verdict = judge(CRITERIA[0], "n0", Evidence(recording, loaded))
    named = verdict.detail.partition("to blame are ")[2]
    assert set(named.split(", ")) == {"n0/gpu2", "n0/gpu5"}
    check_sentences([verdict])


@pytest.mark.parametrize(
    ("fault", "operation", "mib"),
    [
        ("wrong", "all_reduce", 128),
        *(("wrong", one, 16) for one in OPERATIONS[1:]),
        ("hang", "all_to_all", 16),
    ],
)
def test_groups_do_what_the_team_failed_in(fault, operation, mib) -> None:
    """Where one operation alone is wrong or stuck, or a size, another one in a part would be fine."""
    loaded, keys = rig(1, 6), f"to={mib},field={operation}" if fault == "wrong" else f"field={operation}"
    recording = simulated_recording(loaded, "standard", (f"collective-{fault}@n0/gpu4:{keys}",))
    assert said(recording) == [("blamed", "n0", "n0/gpu4 is to blame: it fails with each partner")]
    asked = next(one for one in recording.events if one.kind == "groups_tested")
    assert asked.data["done"] == {"n0": [(operation, mib)]}
    tested = [one for one in recording.rounds if one.stage == STAGE and one.label("group")]
    done = {(one.label("operation"), one.label("mib")) for one in tested}
    assert done == {(operation, 0), (operation, mib)}
    elements = {(one.label("ranks"), one.label("elements")) for one in tested}
    assert max(Counter(ranks for ranks, _ in elements).values()) == 3  # of 4 B, an odd number, an even one
    criterion = next(one for one in CRITERIA if one.name == f"collective.{operation}")
    verdict = judge(criterion, "n0", Evidence(recording, loaded))
    assert verdict.outcome is Outcome.FAIL
    assert "n0/gpu4 is to blame" in verdict.detail


def test_of_two_cards_alone_it_is_said_that_nobody_can_tell() -> None:
    recording = simulated_recording(rig(1, 2), "quick", ("collective-hang@n0/gpu1",))
    ((kind, subject, message),) = said(recording)
    assert (kind, subject, turns(recording)) == ("not_told", "n0", 0)
    assert message.startswith("who is to blame cannot be told: there is nobody else that is fine")


def test_what_a_signal_did_is_no_reason_to_look_for_a_card() -> None:
    recording = simulated_recording(rig(1, 4), "quick", ("rank-killed@n0/gpu1",))
    assert (turns(recording), said(recording)) == (0, [])


def test_no_part_of_a_team_is_held_against_what_the_team_did_before() -> None:
    """Parts of a sound team are slower than it is: two of four H200 reduce-scatter 151 GB/s, all four 201."""
    loaded = rig(1, 4)
    recording = simulated_recording(loaded, "quick")
    (speed,) = (one for one in speeds("all_reduce", team_of(recording, loaded)) if one.mib == 16)
    best = figure_rate("all_reduce", team_of(recording, loaded), replace(speed, gbps=1.2 * speed.gbps))
    champion = ChampionRate(best.value, best.unit, 700.0, best.labels, 4, "run-1")
    key = team_key(one.uuid for one in recording.gpus.values())
    recording.add(champions_event({key: {best.figure: (champion,)}}, 0.0))
    verdict = judge(CRITERIA[0], "n0", Evidence(recording, loaded))
    assert (verdict.outcome, "its champion (run run-1)" in verdict.limit_source) == (Outcome.FAIL, True)
    plan = make_plan(loaded, "quick")
    nodes = {one.name: 64.0 for one in loaded.rig.nodes}
    assert further(StageWork(loaded, plan, plan.stage(STAGE), nodes), recording) is None


def team_of(recording: Recording, loaded: LoadedRig) -> SharedEvidence:
    return Evidence(recording, loaded).shared("team", "n0")
