"""A soak tests each two of a team by themselves: what only one pair does shows in no ring of all of them."""

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.judge import judge
from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome, decide, sentence
from rigproof.run.simulated.trial import simulated_recording
from rigproof.simulation.faults.parsing import FaultError
from rigproof.stages.collective import simulated
from rigproof.stages.collective.criteria import CRITERIA
from rigproof.stages.collective.pairs import again, culprits, number_of_pairs, settled, tournament, units_of
from rigproof.stages.registry import KINDS
from support.blamed_teams import of, team
from support.equal_hosts import NONE
from support.fault_matrix import ring_rig
from support.lengths import lengths
from support.sentences import check_sentences

STAGE = "collective"


def rig(nodes, gpus, level, **settings):
    """H100 that do little else than copy to each other, exchange over the LAN and do collectives."""
    card = {"cpus": 64, "ram_gib": 512, "gpus": [{"sku": "h100-sxm"}] * gpus}
    named = [{"name": f"n{one}", "address": f"n{one}.lan", **card} for one in range(nodes)]
    own = {"sustained": 1, "peer": 0.1, "lan": 1, STAGE: 2}
    tables = lengths(level, settle_s=1, measure_s=1, **(NONE | own))
    tables["stages"][STAGE] |= {"arm_s": {level: 0}, **settings}
    tables["levels"]["soak_s"] = 10  # one lap
    tables["sampling"] = {"rate_hz": 1}
    return over_defaults({"name": "lab", **tables, "nodes": named}, "lab.toml", KINDS)


@pytest.fixture
def bad_pair(monkeypatch):
    """Make what joins two devices slow: it shows in a ring in which they follow each other."""

    def make(one, other, share=0.1):
        rate = simulated.Rank.rate_gbps

        def slower(self, case):
            members = self.members
            places = [members.index(each) for each in (one, other) if each in members]
            near = len(places) == 2 and abs(places[0] - places[1]) in (1, len(members) - 1)
            return rate(self, case) * (share if near else 1.0)

        monkeypatch.setattr(simulated.Rank, "rate_gbps", slower)

    return make


def judged(recording, loaded, subject):
    return judge(CRITERIA[0], subject, Evidence(recording, loaded))


def pairs_of(recording, subject):
    return [one.data for one in recording.events if one.kind == "pairs_tested" and one.subject == subject]


def test_a_pair_of_eight_that_no_ring_uses_is_found_in_a_soak_and_the_link_is_named():
    loaded = rig(1, 8, "soak")
    recording = simulated_recording(loaded, "soak", ("pair-slow@n0/gpu5",))
    found = judged(recording, loaded, "n0")
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith("n0/gpu1 and n0/gpu5 alone: ")
    assert "the median of 27 other pairs" in found.detail
    assert found.detail.endswith("; to blame is what joins n0/gpu1 and n0/gpu5")
    turns = [one for one in recording.events if one.kind == "groups_tested"]
    assert [len(one.data["groups"]) for one in turns] == [4] * 7 + [1]  # and once more by themselves


@pytest.mark.parametrize("sku", ["h200-sxm", "unknown"])
def test_a_soak_rejects_a_slow_pair_of_four_by_the_other_pairs_also_of_cards_that_nobody_listed(sku):
    verdicts = judge_all(simulated_recording(ring_rig("soak", sku), "soak", ("pair-slow@n1/gpu1",)))
    assert decide(verdicts).value == "REJECTED"
    (failed,) = (sentence(one) for one in verdicts if one.outcome is Outcome.FAIL)
    assert "n1/gpu1 and n1/gpu3 alone: " in failed
    assert "the median of 5 other pairs" in failed
    check_sentences(verdicts)


@pytest.mark.parametrize("sku", ["h200-sxm", "unknown"])
@pytest.mark.parametrize("level", ["quick", "standard", "extended"])
def test_a_shorter_run_does_not_look_for_it_and_says_so(level, sku):
    recording = simulated_recording(ring_rig(level, sku), level, ("pair-slow",))
    verdicts = judge_all(recording)
    assert decide(verdicts).value == "ACCEPTED"
    (team,) = (one for one in verdicts if one.criterion == "collective.all_reduce" and one.subject == "n1")
    blind = "its ring passes 4 of its 6 pairs; only a soak has the others do all-reduces"
    assert team.detail.endswith(f"; {blind}")
    assert not [one for one in recording.events if one.kind == "groups_tested"]


def test_a_ring_of_three_passes_each_two_and_has_no_such_pair():
    with pytest.raises(FaultError, match="pair-slow on n0/gpu0: the ring of its node passes each two"):
        simulated_recording(rig(1, 3, "soak"), "soak", ("pair-slow",))
    loaded = rig(1, 3, "quick")
    assert "pairs" not in judged(simulated_recording(loaded, "quick"), loaded, "n0").detail


@pytest.mark.parametrize("gpus", range(4, 10))
def test_a_slow_pair_does_not_follow_each_other_in_the_ring(gpus):
    loaded = rig(1, gpus, "quick")
    ring = team(1, gpus)
    for place, one in enumerate(ring):
        apart = (ring.index(simulated.opposite(loaded, one)) - place) % gpus
        assert 2 <= apart <= gpus - 2


def test_of_three_nodes_each_pair_is_in_the_ring_so_that_every_level_finds_it(bad_pair):
    bad_pair("n0/gpu0", "n2/gpu0")
    loaded = rig(3, 1, "quick")
    recording = simulated_recording(loaded, "quick")
    found = judged(recording, loaded, "rig")
    assert found.outcome is Outcome.FAIL
    assert "what joins n2 and n0 is to blame: each is fine with others" in found.detail


def test_all_pairs_of_a_sound_rig_are_tested_inside_nodes_and_between_them():
    loaded = rig(3, 3, "soak")
    recording = simulated_recording(loaded, "soak")
    assert pairs_of(recording, "n2") == [{"pairs": 3, "tested": 3, "failed": [], "unknown": []}]
    assert pairs_of(recording, "rig") == [{"pairs": 3, "tested": 3, "failed": [], "unknown": []}]
    for subject in ("n0", "rig"):
        found = judged(recording, loaded, subject)
        assert found.outcome is Outcome.PASS
        assert found.detail.endswith("pairs did all-reduces by themselves")
    recording.events = [one for one in recording.events if one.kind != "pairs_tested"]
    assert judged(recording, loaded, "rig").outcome is Outcome.NOT_MEASURED


def test_a_larger_team_is_tested_in_part_and_the_next_lap_goes_on():
    members = team(1, 8)
    laps = [tournament([members], 3, lap) for lap in (1, 2, 3)]
    assert [len(turns) for turns in laps] == [3, 3, 3]
    tested = [pair for turns in laps[:2] for turn in turns for pair in turn]
    assert len(set(tested)) == 24 < number_of_pairs(members) == 28
    assert len({pair for turns in laps for turn in turns for pair in turn}) == 28


@pytest.mark.parametrize("nodes", [1, 3, 4])
def test_in_each_turn_no_device_is_twice_and_all_pairs_come(nodes):
    everyone = team(nodes, 5)
    teams = [of(everyone, one) for one in range(nodes)] + ([everyone] if nodes > 1 else [])
    turns = tournament(teams, 16, 1)
    for turn in turns:
        members = [one for pair in turn for one in pair]
        assert len(members) == len(set(members))
    pairs = [pair for turn in turns for pair in turn]
    assert len(pairs) == len(set(pairs)) == sum(map(number_of_pairs, teams))
    assert len(turns) == 5 + (nodes - 1 + nodes % 2 if nodes > 2 else 0)


def test_two_units_are_the_team_itself():
    assert number_of_pairs(team(1, 2)) == number_of_pairs(team(2, 4)) == 0
    assert tournament([team(1, 2), team(2, 4)], 16, 1) == []
    assert units_of(team(2, 2)) == [("n0/gpu0", "n0/gpu1"), ("n1/gpu0", "n1/gpu1")]


def test_doubtful_pairs_are_repeated_alone_on_their_nodes():
    own = [("n0/gpu0", "n0/gpu1"), ("n0/gpu2", "n0/gpu3"), ("n1/gpu0", "n1/gpu1")]
    assert again(own, 16) == [[own[0], own[2]], [own[1]]]
    assert again(own, 1) == [[own[0], own[2]]]


@pytest.mark.parametrize(
    ("results", "says"),
    [
        (["fine"], "fine"),
        (["slow", "fine"], "fine"),
        (["slow", "slow"], "slow"),
        (["slow"], "unknown"),
        (["slow", "unknown"], "unknown"),
        (["unknown", "unknown"], "unknown"),
        (["unknown", "fine"], "fine"),
        (["wrong", "fine"], "wrong"),
        (["stuck", "fine"], "stuck"),
        ([], "unknown"),
    ],
)
def test_slow_is_what_is_slow_twice_and_wrong_or_stuck_what_was_once(results, says):
    assert settled(results) == says


def found_in(members, bad, *, once=(), result="stuck"):
    units = units_of(members)
    pairs = [(*one, *other) for place, one in enumerate(units) for other in units[place + 1 :]]
    found = culprits(members, {pair: result if bad(pair) else "fine" for pair in pairs}, once)
    return [(one.kind, one.subject) for one in found]


def test_who_is_never_fine_is_named_and_else_what_joins_two():
    four = team(1, 4)
    assert found_in(four, lambda pair: "n0/gpu2" in pair) == [("gpu", "n0/gpu2")]
    assert found_in(four, lambda pair: pair == four[:2]) == [("link", "n0/gpu0 and n0/gpu1")]
    assert found_in(team(3, 2), lambda pair: "n1/gpu0" in pair) == [("node", "n1")]
    assert found_in(four, lambda pair: pair == four[:2], once=[four[:2]]) == [("unknown", "n0/gpu0, n0/gpu1")]
    assert found_in(four, lambda _: True)[0][0] == "gpu"


def test_a_pair_that_was_wrong_or_lost_is_no_pass():
    loaded = rig(1, 3, "soak")
    recording = simulated_recording(loaded, "soak")
    assert judged(recording, loaded, "n0").outcome is Outcome.PASS
    (told,) = (one for one in recording.events if one.kind == "pairs_tested")
    told.data["unknown"] = ["n0/gpu0 and n0/gpu1"]
    assert judged(recording, loaded, "n0").detail == "n0/gpu0 and n0/gpu1 were not tested by themselves"
    data = {"operation": "all_reduce", "group": "n0/gpu0 n0/gpu1", "rank": 1, "arm": "as it is"}
    wrong = Event(told.t_s - 1, "wrong_result", "n0", "1 element is wrong", STAGE, "n0/gpu1#0", data)
    recording.events.append(wrong)
    found = judged(recording, loaded, "n0")
    assert (found.outcome, found.detail) == (Outcome.FAIL, "1 element is wrong")
