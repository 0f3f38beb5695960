"""Parts of a team that is slow are held against parts of their size, in runs and by rates alone."""

from collections.abc import Mapping
from math import inf, sqrt

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.recording import Recording
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.collective.blame import next_step
from rigproof.stages.collective.rates import bounds_of_part
from rigproof.stages.collective.results import Culprit, Members, Trial
from rigproof.stages.collective.stage import ALL_REDUCE, OPERATIONS, STAGE
from rigproof.stages.registry import KINDS
from support.equal_hosts import NONE
from support.lengths import lengths

H200, RTX = "h200-sxm", "rtx-3090"
SOUND = {  # GB/s of two and of four H200, 16 MiB: hwprofiles/gpus/h200-sxm.toml
    "all_reduce": (221, 257),
    "all_gather": (110, 125),
    "reduce_scatter": (150, 201),
    "broadcast": (282, 246),
    "all_to_all": (97, 90),
}
GROUP_SHARE = 0.8


def rig(nodes: int, gpus: int, sku: str = H200, peer_s: float = 0, **tables) -> LoadedRig:
    of = {"cpus": 64, "ram_gib": 512, "gpus": [{"sku": sku}] * gpus}
    named = [{"name": f"n{one}", "address": f"n{one}.lan", **of} for one in range(nodes)]
    stages = NONE | {"sustained": 2, "peer": peer_s, STAGE: 4}
    own = lengths("quick", "standard", settle_s=1, measure_s=1, **stages)
    own["stages"][STAGE] |= tables
    return over_defaults({"name": "lab", **own, "nodes": named}, "lab.toml", KINDS)


def blamed(recording: Recording) -> list[tuple[str, str]]:
    return [(one.kind, one.data["named"]) for one in recording.events if one.kind in ("blamed", "not_told")]


@pytest.mark.parametrize(
    ("nodes", "gpus", "by"), [(1, 4, "30%"), (3, 6, "40%")], ids=["four of one node", "six of three nodes"]
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_card_that_is_slow_in_one_operation_is_named_in_a_run(operation, nodes, gpus, by):
    name = f"n0/gpu{gpus - 2}"
    fault = f"collective-slow@{name}:by={by},field={operation}"
    assert blamed(simulated_recording(rig(nodes, gpus), "standard", (fault,))) == [("blamed", name)]


@pytest.mark.parametrize("place", [2, 4])
def test_a_card_that_is_slow_in_each_operation_is_named_and_no_other(place):
    fault = f"collective-slow@n1/gpu{place}:by=40%"
    recording = simulated_recording(rig(3, 6), "standard", (fault,))
    assert blamed(recording) == [("blamed", f"n1/gpu{place}")]


def test_one_of_six_cards_without_another_node_is_named():
    """Their limit is a share of what two of them copy."""
    recording = simulated_recording(rig(1, 6, peer_s=0.3), "quick", ("collective-slow@n0/gpu2",))
    assert blamed(recording) == [("blamed", "n0/gpu2")]


def sound(operation: str, number: int) -> float:
    """Of so many, GB/s: the line through two and four, and through four and eight, which have 1.3 of it."""
    two, four = SOUND[operation]
    return two + (four - two) * (number - 2) / 2 if number < 4 else four * (1 + 0.3 * (number - 4) / 4)


def searched(evidence: Evidence, operation: str, bad: set[str], by: float) -> tuple[tuple[Culprit, ...], int]:
    """Who is named of n0 and the turns, where each group's rate is that of its size, less with a bad card."""
    team = evidence.shared("team", "n0")
    devices = tuple(one.subject for one in team.members)
    limit = GROUP_SHARE * sound(operation, len(devices))
    toward = sqrt((1 - by) * sound(operation, len(devices)) / limit)
    rates: dict[Members, float] = {}
    tested: list[Members] = []

    def trial(part: Members) -> Trial:
        if len(part) < 2:
            return Trial(part, "fine")
        least, enough = bounds_of_part(operation, 16, team, part, of_team=limit, rates=rates)
        told = rates[part] < toward * least, rates[part] >= toward * enough
        return Trial(part, "slow" if told[0] else "fine" if told[1] else "unknown")

    turns = 0
    while (step := next_step(devices, [Trial(devices, "slow"), *map(trial, tested)])).groups:
        turns += 1
        tested += step.groups
        for part in step.groups:
            rates[part] = sound(operation, len(part)) * (1 if bad.isdisjoint(part) else 1 - by)
    return step.culprits, turns


@pytest.fixture(scope="module", params=[(sku, gpus) for sku in (H200, RTX) for gpus in (4, 6, 8)], ids=str)
def evidence(request) -> Evidence:
    sku, gpus = request.param
    return Evidence(simulated_recording(rig(1, 2), "quick"), rig(3, gpus, sku))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_slow_card_is_named_though_parts_are_not_as_fast_as_their_team(evidence, operation):
    for one in evidence.shared("team", "n0").members:
        culprits, turns = searched(evidence, operation, {one.subject}, 0.3)
        assert [(it.kind, it.subject) for it in culprits] == [("gpu", one.subject)]
        assert turns <= 30  # of the 48 that a search may take; unlisted cards learn what is usual as they go


@pytest.mark.parametrize("operation", OPERATIONS)
def test_of_two_slow_cards_no_other_is_named(evidence, operation):
    devices = [one.subject for one in evidence.shared("team", "n0").members]
    for other in (devices[1], devices[len(devices) // 2], devices[-1]):
        culprits, _ = searched(evidence, operation, {devices[0], other}, 0.4)
        named = {it for one in culprits if one.kind != "unknown" for it in one.one}
        assert named <= {devices[0], other}


PART, OTHER = ("n0/gpu0", "n0/gpu1", "n0/gpu2"), ("n0/gpu3", "n0/gpu4", "n0/gpu5")


def bounds(
    operation: str, part: Members, rates: Mapping[Members, float], team: str = "n0", **tables
) -> tuple[float, float]:
    evidence = Evidence(simulated_recording(rig(1, 2), "quick"), rig(2, 6, **tables))
    return bounds_of_part(operation, 16, evidence.shared("team", team), part, of_team=90.0, rates=rates)


def test_a_part_is_held_against_the_figure_of_its_size():
    assert bounds("all_to_all", PART[:2], {OTHER[:2]: 900.0}) == pytest.approx((0.85 * 97,) * 2)


def test_without_a_figure_it_is_held_against_the_best_of_its_size():
    assert bounds("all_to_all", PART, {PART: 100.0, OTHER: 60.0, OTHER[:2]: 900.0}) == pytest.approx((80, 80))
    assert bounds("all_to_all", PART, {PART: 100.0, OTHER[:2]: 900.0}) == (0.0, inf)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({PART: 100.0, OTHER: 85.0}, (80.0, 90.0)),
        ({PART: 100.0, OTHER: 60.0}, (80.0, 80.0)),
        ({PART: 200.0, OTHER: 95.0}, (90.0, 90.0)),
        ({}, (0.0, 90.0)),
    ],
)
def test_an_all_reduce_is_fine_by_its_teams_limit_or_where_another_of_its_size_is_slow(rates, expected):
    assert bounds(ALL_REDUCE, PART, rates) == pytest.approx(expected)


def test_a_floor_for_every_group_and_the_limit_between_nodes_hold_for_each_part():
    assert bounds(ALL_REDUCE, PART[:2], {}, floor_gbps=90.0) == (90.0, 90.0)
    assert bounds("all_to_all", ("n0/gpu0", "n1/gpu0"), {}, team="rig") == (90.0, 90.0)
