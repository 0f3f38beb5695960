"""In simulated runs the stage finds who is to blame; where all is well it asks for no further turn."""

import re
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
from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, Verdict
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.collective.criteria import CRITERIA
from rigproof.stages.collective.rates import figure_rate, speeds
from rigproof.stages.collective.search import further
from rigproof.stages.collective.stage import ARMS, AS_IT_IS, OPERATIONS, PROTOCOLS
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
        (1, 2, "collective-hang@n0/gpu1", {"n0"}),
        (3, 4, "collective-wrong@n1/gpu2", {"n1", "rig"}),
        (4, 4, "nvlink-down@n1/gpu2", {"n1"}),  # between nodes the LAN is slower
    ],
)
def test_a_card_that_spoils_its_team_is_found_and_named_in_the_verdict(nodes, gpus, fault, failing) -> None:
    loaded = rig(nodes, gpus)
    recording = simulated_recording(loaded, "quick", (fault,))
    name = fault.partition("@")[2]
    how = "with each partner" if fault.startswith("nvlink") else "alone"
    why = f"{name} is to blame: it fails {how}"
    assert said(recording) == [("blamed", name.partition("/")[0], why)]
    assert 0 < turns(recording) <= 8
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
        f"n0/gpu{place} is to blame: it fails alone" for place in (2, 5)
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
    assert said(recording) == [("blamed", "n0", "n0/gpu4 is to blame: it fails alone")]
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


@pytest.mark.parametrize("fault", ["collective-slow@n0/gpu1", "nvlink-down@n0/gpu1"])
def test_of_two_cards_that_are_fine_alone_it_is_said_that_nobody_can_tell(fault) -> None:
    recording = simulated_recording(rig(1, 2), "quick", (fault,))
    ((kind, subject, message),) = said(recording)
    assert (kind, subject, turns(recording)) == ("not_told", "n0", 1)
    assert message.startswith("who is to blame cannot be told: nobody else is fine")


def path_of(recording: Recording, loaded: LoadedRig) -> Verdict:
    return judge(CRITERIA[-1], "n0", Evidence(recording, loaded))


@pytest.mark.parametrize("level", ["quick", "standard"])
def test_a_team_that_is_slow_tries_its_other_arms(level) -> None:
    """NVLink that does not work costs most of the rate; what goes through the host is as fast as ever."""
    loaded = rig(1, 2)
    recording = simulated_recording(loaded, level, ("nvlink-down@n0/gpu1",))
    tried = [one for one in recording.events if one.kind == "arm_tried"]
    assert [one.data["arm"] for one in tried] == [*ARMS, *PROTOCOLS]
    assert {tuple(one.data["teams"]) for one in tried} == {("n0",)}
    found = path_of(recording, loaded)
    assert found.outcome is Outcome.PASS
    assert re.fullmatch(r"16 MiB as it is [\d.]+(, [\w&2 ]+ [\d.]+){5}; P2P is not used.*", found.detail)
    check_sentences([found])


def test_after_a_hang_in_each_arm_no_protocol_is_tried() -> None:
    loaded = rig(1, 4)
    recording = simulated_recording(loaded, "quick", ("collective-hang@n0/gpu1",))
    assert [one.data["arm"] for one in recording.events if one.kind == "arm_tried"] == [*ARMS]
    found = path_of(recording, loaded)
    assert (found.outcome, found.detail.endswith("so it is none of the ways between them")) == (
        Outcome.FAIL,
        True,
    )


def test_a_worker_that_is_lost_in_another_arm_takes_nothing_from_what_came_before() -> None:
    loaded = rig(1, 4)
    recording = simulated_recording(loaded, "quick", ("collective-hang@n0/gpu1",))
    second = [one for one in recording.events if one.kind == "arm_tried"][1]
    late = [one for one in recording.events if one.kind == "rank_stuck" and one.t_s > second.t_s]
    recording.events = [one for one in recording.events if one not in late]
    recording.rounds = [one for one in recording.rounds if one.t_s < second.t_s]
    data = {"workers": ["n0/gpu1#0"], "size": 4}
    recording.events.append(Event(second.t_s + 1, "crew_failed", "n0", "it lost n0/gpu1#0", STAGE, data=data))
    evidence = Evidence(recording, loaded)
    assert judge(CRITERIA[0], "n0", evidence).outcome is Outcome.FAIL
    found = path_of(recording, loaded)
    assert (found.outcome, found.detail) == (Outcome.FAIL, "as it is: stuck; without P2P: stuck")


def test_what_an_earlier_attempt_asked_for_takes_nothing_from_this_one_and_asks_nothing_of_it() -> None:
    loaded = rig(1, 2)
    recording = simulated_recording(loaded, "quick")
    stage = recording.stages[STAGE]
    for data in ({"arm": "without P2P", "teams": ["n0"]}, {"groups": [["n0/gpu0"]]}):
        kind = "arm_tried" if "arm" in data else "groups_tested"
        recording.events.append(Event(stage.start_s - 1, kind, "rig", "x", STAGE, data=data))
    assert path_of(recording, loaded).outcome is Outcome.NOT_APPLICABLE
    for rank in (0, 1):
        data = {"rank": rank, "sequence": 9 - rank, "operation": "all_reduce", "mib": 16, "inside": True}
        own = f"n0/gpu{rank}#0"
        told = {**data, "group": "", "arm": AS_IT_IS}
        recording.events.append(Event(stage.end_s or 0.0, "rank_stuck", "n0", "x", STAGE, own, told))
    found = judge(CRITERIA[0], "n0", Evidence(recording, loaded))
    assert (found.outcome, "rank 1 (n0/gpu1) stood still" in found.detail) == (Outcome.FAIL, True)


def test_a_hang_in_a_later_lap_is_searched_though_pairs_were_tested_in_an_earlier_one() -> None:
    loaded = rig(1, 4)
    recording = simulated_recording(loaded, "quick", ("collective-hang@n0/gpu1",))
    stage = recording.stages[STAGE]
    recording.events = [
        one
        for one in recording.events
        if one.kind not in ("arm_tried", "groups_tested", "blamed", "not_told")
    ]
    early = Event(stage.start_s - 9, "groups_tested", "rig", "x", STAGE, data={"groups": [], "pairs": True})
    recording.events.insert(0, early)
    plan = make_plan(loaded, "quick")
    more = further(StageWork(loaded, plan, plan.stage(STAGE), {"n0": 64.0}), recording)
    assert more is not None
    assert [one.kind for one in more.events] == ["arm_tried"]


def test_an_arm_that_was_asked_for_and_did_nothing_is_no_pass() -> None:
    loaded = rig(1, 2)
    recording = simulated_recording(loaded, "quick", ("collective-slow@n0/gpu1",))
    recording.rounds = [one for one in recording.rounds if one.label("arm") in (None, AS_IT_IS)]
    assert path_of(recording, loaded).outcome is Outcome.NOT_MEASURED


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
