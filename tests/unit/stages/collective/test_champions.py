"""What a team is held against that did better before: its own best accepted run, by the same cards."""

from dataclasses import replace

import pytest

from rigproof.history.champion_keeping import champion_run, keep, rig_figures
from rigproof.history.champions import champions_folder, read_champions
from rigproof.records.champions import ChampionRate, team_key
from rigproof.records.verdict import Outcome
from rigproof.stages.collective.stage import ALL_REDUCE, OPERATIONS, STAGE
from support.simulated_bench import SimulatedBench

TEAM, CARDS = "localhost", ("localhost/gpu0", "localhost/gpu1")
PASS, FAIL, NO_LIMIT = Outcome.PASS, Outcome.FAIL, Outcome.NO_LIMIT
WORK = {"mib": 16, "elements": "odd numbers", "nodes": 1}  # of an all-reduce


class TeamBench(SimulatedBench):
    def found(self, operation=ALL_REDUCE):
        return self.verdict(f"collective.{operation}", TEAM)

    def uuids(self):
        return [self.recording.gpus[one].uuid for one in CARDS]

    def champion(self, gbps=300.0, *, operation=ALL_REDUCE, uuids=None, **changes):
        """The team's best of earlier runs."""
        best = replace(ChampionRate(gbps, "GB/s", 700.0, WORK, 2, "run-1"), **changes)
        self.champions = {team_key(uuids or self.uuids()): {f"collective.{operation}": (best,)}}


@pytest.fixture
def bench(simulated):
    return TeamBench(*simulated, STAGE)


@pytest.fixture
def unknown(bench):
    """No SKU file describes the cards, and nothing was copied: all-reduces have no limit either."""
    bench.unknown()
    bench.without("localhost/gpu0-localhost/gpu1")
    bench.of = "peer"
    bench.without("localhost/gpu0-localhost/gpu1")
    bench.of = STAGE
    return bench


@pytest.fixture
def before(unknown, tmp_path):
    """What that team's first accepted run kept."""
    folder = champions_folder(tmp_path, "lab")
    run = champion_run(unknown.recording, "again")
    figures = rig_figures(unknown.recording, [unknown.found(one) for one in OPERATIONS])
    sentences = keep(folder, unknown.recording, run, {}, figures)
    return read_champions(folder).rates(), sentences


def test_the_first_run_has_no_limit_and_becomes_the_champion(unknown, before):
    assert {one: unknown.found(one).outcome for one in OPERATIONS} == dict.fromkeys(OPERATIONS, NO_LIMIT)
    rates, sentences = before
    (team,) = rates
    assert team == team_key(unknown.uuids())
    assert set(rates[team]) == {f"collective.{one}" for one in OPERATIONS}
    work = {(one.labels["mib"], one.labels["elements"]) for one in rates[team]["collective.all_reduce"]}
    sizes = (16, 32, 128, 1024)  # at 1 MiB the hosts set the pace
    assert work == {(mib, f"{elements} numbers") for mib in sizes for elements in ("odd", "even")}
    assert any(
        one.startswith("champion: localhost collective.all_to_all mib 16, odd numbers") for one in sentences
    )


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("share", "outcome"), [(0.95, PASS), (0.8, FAIL)])
def test_a_team_that_lost_a_fifth_of_what_it_did_fails(unknown, before, operation, share, outcome):
    unknown.champions, _ = before
    unknown.slower(TEAM, share, operation=operation)
    found = unknown.found(operation)
    assert found.outcome is outcome
    assert "its champion (run " in found.limit_source
    others = {unknown.found(one).outcome for one in OPERATIONS if one != operation}
    assert others == {PASS}


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, FAIL),
        ({"uuids": ["GPU-other", "GPU-cards"]}, NO_LIMIT),
        ({"operation": "broadcast"}, NO_LIMIT),
        ({"unit": "MB/s"}, NO_LIMIT),
        ({"power_limit_w": 695.0}, FAIL),  # the same, within 1 %
        ({"power_limit_w": 600.0}, NO_LIMIT),
        ({"power_limit_w": None}, NO_LIMIT),
        ({"labels": WORK | {"elements": "even numbers"}}, FAIL),
        ({"labels": WORK | {"elements": "odd and even numbers"}}, NO_LIMIT),  # of an earlier version
        ({"labels": WORK | {"nodes": 2}}, NO_LIMIT),  # when they were in two hosts
        ({"labels": WORK | {"mib": 1}}, NO_LIMIT),
        ({"labels": WORK | {"mib": 1024}}, PASS),  # 300 of 318 GB/s
    ],
)
def test_only_the_same_cards_at_the_same_work_and_power_are_compared(unknown, changes, outcome):
    unknown.champion(**changes)
    assert unknown.found().outcome is outcome


def test_the_slots_of_its_cards_do_not_matter_and_one_lower_power_limit_does(unknown):
    unknown.champion()
    one, other = (unknown.recording.gpus[card] for card in CARDS)
    unknown.gpu(CARDS[0], uuid=other.uuid)
    unknown.gpu(CARDS[1], uuid=one.uuid)
    assert unknown.found().outcome is FAIL
    unknown.gpu(CARDS[1], power_limit_w=500.0)
    assert unknown.found().outcome is NO_LIMIT
    unknown.champion(power_limit_w=500.0)
    assert unknown.found().outcome is FAIL


@pytest.mark.parametrize(
    ("gbps", "limit", "source"), [(300.0, 270.0, "its champion"), (200.0, 187.85, "measured")]
)
def test_the_higher_one_of_champion_and_sku_file_holds(bench, gbps, limit, source):
    bench.champion(gbps)
    sixteen = bench.found()
    assert (sixteen.limit, source in sixteen.limit_source) == (pytest.approx(limit), True)


def test_the_floor_of_the_rig_stands_alone_and_without_the_share_there_is_none(bench):
    bench.champion(1000.0)
    assert bench.found().outcome is FAIL
    bench.settings(STAGE, champion_share=None)
    assert bench.found().outcome is PASS
    bench.settings(STAGE, champion_share=0.9, floor_gbps=100.0)
    assert bench.found().outcome is PASS


@pytest.mark.parametrize(("seconds", "outcome", "sizes"), [(0.0004, NO_LIMIT, [16]), (0.0006, FAIL, [])])
def test_rounds_as_short_as_a_launch_are_the_hosts_and_no_champion(unknown, seconds, outcome, sizes):
    """Four sound H200 did 113 GB/s of all-to-all in rounds of 7 ms, and 90 in rounds of 0.13."""
    unknown.champion()
    unknown.give(
        TEAM,
        {"operation": ALL_REDUCE, "mib": 16},
        work=lambda one: one.work * seconds / one.seconds,
        seconds=seconds,
        repeats=4,
    )
    found = unknown.found()
    assert found.outcome is outcome
    kept = {one.labels["mib"] for one in found.rates}
    assert {16, 32, 128, 1024} - kept == set(sizes)


@pytest.mark.parametrize(("late", "outcome"), [(True, PASS), (None, FAIL)])
def test_operations_that_take_long_are_not_compared_if_hosts_were_late(unknown, before, late, outcome):
    unknown.champions, _ = before
    late_ones = {"operation": ALL_REDUCE, "mib": 1024}
    unknown.give(TEAM, late_ones, work=lambda one: 0.8 * one.work, host_paced=late)
    assert unknown.found().outcome is outcome
    unknown.give(TEAM, {"operation": ALL_REDUCE}, host_paced=late)
    unknown.champions = {}
    said = "hosts were late: not compared" if late else "nothing to compare it with yet"
    assert unknown.found().detail.endswith(said)


@pytest.mark.parametrize(("share", "outcome"), [(0.95, PASS), (0.4, Outcome.NOT_MEASURED)])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_half_that_hosts_kept_from_its_pace_is_not_measured(unknown, before, operation, share, outcome):
    unknown.champions, _ = before
    of_odd = {"operation": operation, "mib": 16}
    (elements,) = {
        one.label("elements")
        for one in unknown.recording.rounds
        if one.stage == STAGE and of_odd.items() <= one.labels.items() and one.label("elements") % 2
    }
    late = {"work": lambda one: share * one.work, "host_paced": True}
    unknown.give(TEAM, of_odd | {"elements": elements}, **late)
    found = unknown.found(operation)
    assert found.outcome is outcome
    assert ("its pace, not the GPUs'" in found.detail) == (outcome is not PASS)


@pytest.mark.parametrize(("from_s", "outcome"), [(-3.0, Outcome.NOT_MEASURED), (30.0, FAIL)])
def test_what_a_stranger_on_a_card_took_rejects_nobody(bench, from_s, outcome):
    """From so long after the stage began."""
    bench.champion(270.0)
    for number in range(16):
        begun_s = bench.recording.stages[STAGE].start_s + from_s + number
        bench.stranger(begun_s, subject=CARDS[1], used_mib=(5000,), sm_percent=(95,), pid=7 + number)
    found = bench.found()
    assert (found.outcome, "computed on this card" in found.detail) == (outcome, outcome is not FAIL)
    bench.give(TEAM, {"operation": ALL_REDUCE}, verified=False)
    assert bench.found().outcome is FAIL
