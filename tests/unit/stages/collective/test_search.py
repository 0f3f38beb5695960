"""In simulated runs the stage finds who is to blame; where all is well it asks for no further turn."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.judging.judge import judge
from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.champions import ChampionRate, champions_event, team_key
from rigproof.records.measurements import Event, Round
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, Verdict
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.collective.arms import SOCKETS, WITHOUT_P2P
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


def rig(nodes: int, gpus: int, *skus: str, others: Mapping[str, int] = {}) -> LoadedRig:
    """A rig of so many nodes with so many cards each, of these models in turn, that does little else.

    `others`: further stages and their lengths.
    """
    models = cycle(skus or ("h100-sxm",))
    of = {"cpus": 64, "ram_gib": 512, "gpus": [{"sku": next(models)} for _ in range(gpus)]}
    named = [{"name": f"n{one}", "address": f"n{one}.lan", **of} for one in range(nodes)]
    tables = lengths(*LEVELS, settle_s=1, measure_s=1, **(NONE | {"sustained": 2, STAGE: 4, **others}))
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
    assert asked.data["done"] == {"n0": [[operation, mib]]}
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


@pytest.mark.parametrize(
    ("nodes", "skus", "slow"),
    [
        (2, ("rtx-3090", "rtx-3090"), {"n0/gpu0"}),
        (2, ("rtx-3090", "rtx-3090"), {"n1/gpu1"}),
        (3, ("rtx-3090", "rtx-3090"), {"n0/gpu0", "n1/gpu1"}),  # both meet the GPUs of the node that is fine
        (1, ("rtx-3090", "rtx-3070", "rtx-4090"), {"n0/gpu2"}),  # no two parts of it are of the same models
        (1, ("rtx-3090", "rtx-3070", "rtx-4090"), {"n0/gpu1"}),
    ],
)
def test_a_slow_card_is_named_by_few_others_and_by_unlike_ones(nodes, skus, slow) -> None:
    faults = tuple(f"collective-slow@{one}" for one in sorted(slow))
    loaded = rig(nodes, len(skus), *skus, others={"peer": 1} | ({"lan": 1} if nodes > 1 else {}))
    recording = simulated_recording(loaded, "quick", faults)
    assert {message for _, _, message in said(recording)} == {
        f"{one} is to blame: it fails with each partner" for one in slow
    }


def test_partners_over_a_lan_say_nothing_of_two_cards_that_are_slow_together() -> None:
    """Either card, or what joins them, is slower than NVLink and faster than the LAN."""
    loaded = rig(2, 2, others={"peer": 1, "lan": 1})
    recording = simulated_recording(loaded, "quick", ("nvlink-down@n1/gpu0",))
    ((kind, subject, message),) = said(recording)
    assert (kind, subject) == ("not_told", "n1")
    assert message.endswith("cannot be told: the way to those who are fine is slower")


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


def test_a_protocol_that_is_faster_alone_warns_of_what_nccl_was_told() -> None:
    loaded = rig(1, 2)
    recording = simulated_recording(loaded, "standard", ("nvlink-down@n0/gpu1",))
    recording.rounds = [
        replace(one, work=2 * one.work) if one.label("arm") == "by Simple alone" else one
        for one in recording.rounds
    ]
    found = path_of(recording, loaded)
    assert found.outcome is Outcome.WARN
    assert re.fullmatch(
        r"16 MiB; `export NCCL_PROTO=Simple` gives 3\d.\d of 1\d.\d GB/s as it is", found.detail
    )
    assert found.remedy.startswith("unset NCCL_PROTO")
    check_sentences([found])


@pytest.mark.parametrize("arm", [WITHOUT_P2P, "by LL alone"])
def test_another_arm_may_be_the_one_that_lies_where_it_is_slow_as_it_is(arm) -> None:
    loaded = rig(1, 2)
    recording = simulated_recording(loaded, "standard", ("nvlink-down@n0/gpu1",))
    data = {"operation": "all_reduce", "mib": 16, "group": "", "rank": 1, "arm": arm}
    tried = next(one for one in recording.events if one.data.get("arm") == arm)
    recording.events.append(Event(tried.t_s + 1, "wrong_result", "n0", "x", STAGE, "n0/gpu1#0", data))
    found = path_of(recording, loaded)
    assert (found.outcome, found.detail) == (Outcome.FAIL, f"{arm}: wrong answers; as it is: right")
    assert found.remedy.startswith("check host memory" if arm == WITHOUT_P2P else "unset NCCL_PROTO")
    check_sentences([found])


ONE_WRONG = "collective-wrong@n0/gpu1:field=all_to_all"
FROM_128 = "collective-wrong@n0/gpu1:to=128"


@pytest.mark.parametrize(
    ("level", "fault", "operation", "mib", "arms"),
    [
        ("standard", ONE_WRONG, "all_to_all", 16, (*ARMS,)),
        ("standard", FROM_128, "all_reduce", 128, (*ARMS,)),
        ("extended", ONE_WRONG, "all_to_all", 1, (*ARMS,)),
        ("extended", FROM_128, "all_reduce", 128, (SOCKETS,)),  # planned, but it only came to 16 MiB
    ],
)
def test_after_a_failure_each_arm_does_what_failed(level, fault, operation, mib, arms) -> None:
    """A GPU that fails alone is wrong in each arm, too: no variable helps."""
    loaded = rig(1, 2, "h200-sxm")
    recording = simulated_recording(loaded, level, (fault,))
    tried = [one for one in recording.events if one.kind == "arm_tried"]
    assert [one.data["arm"] for one in tried] == [*arms]
    assert [operation, mib] in tried[0].data["done"]["n0"]
    rounds = [one for one in recording.rounds if one.stage == STAGE and one.t_s > tried[0].t_s]
    for arm in arms:
        mine = [one for one in rounds if one.label("arm") == arm and one.label("operation") == operation]
        assert {one.label("mib") for one in mine} == {0, 16, mib}
        assert len({one.label("elements") for one in mine if one.label("mib") == mib}) == 2  # odd and even
    found = path_of(recording, loaded)
    assert found.outcome is Outcome.FAIL
    assert "export" not in found.detail
    assert found.detail.endswith("; n0/gpu1 fails alone, so it is none of the ways between them")
    assert found.remedy == f"see whom collective.{operation} names"
    check_sentences([found])


def healed(recording: Recording, *arms: str) -> None:
    """As if P2P alone were wrong: what these arms did is right, and nobody fails alone."""
    recording.rounds = [
        replace(one, verified=True) if one.label("arm") in arms else one for one in recording.rounds
    ]
    recording.events = [
        one
        for one in recording.events
        if one.kind != "blamed" and not (one.kind == "wrong_result" and one.data["arm"] in arms)
    ]


@pytest.mark.parametrize(
    ("arms", "way_out"),
    [
        ((*ARMS,), r"`export NCCL_P2P_DISABLE=1` gives [\d.]+ of [\d.]+ GB/s as it is"),
        ((SOCKETS,), r"`export NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1` gives [\d.]+ of [\d.]+ GB/s as it is"),
    ],
)
@pytest.mark.parametrize("fault", [ONE_WRONG, FROM_128])
def test_the_way_out_is_an_arm_that_did_what_failed(fault, arms, way_out) -> None:
    loaded = rig(1, 2, "h200-sxm")
    recording = simulated_recording(loaded, "standard", (fault,))
    healed(recording, *arms)
    found = path_of(recording, loaded)
    assert re.search(f"; {way_out}$", found.detail), found.detail
    assert ("ACS" in found.remedy) == (WITHOUT_P2P in arms)
    check_sentences([found])


@pytest.mark.parametrize("alone", [True, False])
def test_no_variable_helps_a_gpu_that_fails_alone(alone) -> None:
    """One that fails with each partner may have P2P alone against it."""
    loaded = rig(1, 2, "h200-sxm")
    recording = simulated_recording(loaded, "standard", (FROM_128,))
    (blamed,) = (one for one in recording.events if one.kind == "blamed")
    assert blamed.data["alone"]
    healed(recording, *ARMS)
    recording.events.append(replace(blamed, data={**blamed.data, "alone": alone}))
    found = path_of(recording, loaded)
    assert ("export" in found.detail, "n0/gpu1 fails alone" in found.detail) == (not alone, alone)


@pytest.mark.parametrize("left", ["another operation", "a smaller size", "too few"])
def test_an_arm_that_did_not_do_what_failed_is_no_way_out(left) -> None:
    loaded = rig(1, 2, "h200-sxm")
    recording = simulated_recording(loaded, "standard", (FROM_128,))
    healed(recording, *ARMS)
    assert "export" in path_of(recording, loaded).detail

    def kept(one) -> bool:
        if one.label("arm") not in ARMS:
            return True
        return one.label("mib") != 128 or (left == "too few" and one.worker == "n0/gpu0#0")

    if left == "another operation":
        for one in recording.events:
            if one.kind == "arm_tried":
                one.data["done"]["n0"] = [("all_to_all", 128)]
    else:
        recording.rounds = [one for one in recording.rounds if kept(one)]
    found = path_of(recording, loaded)
    assert (found.outcome, found.detail) == (Outcome.FAIL, "as it is: wrong answers")


@pytest.mark.parametrize(("level", "of"), [("standard", "as it is"), ("quick", "by the SKU file")])
def test_what_a_way_out_costs_is_told_by_right_answers_or_else_by_the_sku_file(level, of) -> None:
    """A short run has too few right answers beside the wrong ones."""
    loaded = rig(1, 2, "h200-sxm")
    recording = simulated_recording(loaded, level, ("collective-wrong@n0/gpu1:to=16",))
    healed(recording, *ARMS)
    assert re.search(rf"gives [\d.]+ of 2\d\d GB/s {of}$", path_of(recording, loaded).detail)


def test_without_either_a_way_out_has_no_cost() -> None:
    loaded = rig(1, 2, "rtx-3090")
    recording = simulated_recording(loaded, "quick", ("collective-wrong@n0/gpu1:to=16",))
    healed(recording, *ARMS)
    assert re.search(r"gives [\d.]+ GB/s$", path_of(recording, loaded).detail)


def test_after_a_hang_in_each_arm_no_protocol_is_tried() -> None:
    loaded = rig(1, 4)
    recording = simulated_recording(loaded, "quick", ("collective-hang@n0/gpu1",))
    assert [one.data["arm"] for one in recording.events if one.kind == "arm_tried"] == [*ARMS]
    found = path_of(recording, loaded)
    assert found.outcome is Outcome.FAIL
    assert found.detail.endswith("; n0/gpu1 fails alone, so it is none of the ways between them")


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
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith("as it is: stuck; without P2P: stuck; n0/gpu1 fails alone")


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
        and one.data.get("arm") not in ARMS
    ]
    early = Event(stage.start_s - 9, "groups_tested", "rig", "x", STAGE, data={"groups": [], "pairs": True})
    recording.events.insert(0, early)
    more = further(work_of(loaded, "quick"), recording)
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
    assert further(work_of(loaded, "quick"), recording) is None


def test_who_is_to_blame_is_looked_for_at_a_size_whose_pace_no_host_set() -> None:
    loaded = rig(1, 4, "h200-sxm")
    recording = simulated_recording(loaded, "standard")

    def slower(one: Round) -> Round:
        share, late = {16: (0.7, True), 128: (0.5, None)}.get(one.labels.get("mib"), (1.0, None))
        own = (one.stage, one.label("operation")) == (STAGE, "all_reduce")
        return replace(one, work=share * one.work, host_paced=late) if own else one

    recording.put(Round, [slower(one) for one in recording.rounds])
    more = further(work_of(loaded, "standard"), recording)
    assert more is not None
    assert [one.data["done"] for one in more.events] == [{"n0": [("all_reduce", 128)]}]


def work_of(loaded: LoadedRig, level: str) -> StageWork:
    plan = make_plan(loaded, level)
    return StageWork(loaded, plan, plan.stage(STAGE), {one.name: 64.0 for one in loaded.rig.nodes})


def team_of(recording: Recording, loaded: LoadedRig) -> SharedEvidence:
    return Evidence(recording, loaded).shared("team", "n0")
