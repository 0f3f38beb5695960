"""Groups that pass, and all the ways in which they do not: slow, wrong, stuck, or not measured."""

import re
from dataclasses import replace

import pytest

from rigproof.profiles.loading.load import over_defaults
from rigproof.records.measurements import Round
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.collective.criteria import tables
from rigproof.stages.collective.stage import ALL_GATHER, ALL_REDUCE, BROADCAST, OPERATIONS, STAGE
from rigproof.stages.registry import KINDS
from support.collective_bench import RANKS, TEAM, CollectiveBench

PASS, FAIL, NOT_MEASURED = Outcome.PASS, Outcome.FAIL, Outcome.NOT_MEASURED
NO_LIMIT, NOT_APPLICABLE, WARN = Outcome.NO_LIMIT, Outcome.NOT_APPLICABLE, Outcome.WARN


def short(name, **profile):
    tables = {"stages": {"sustained": {"length_s": {"standard": 5}}}, **profile}
    return over_defaults({"name": name, **tables}, f"{name}.toml", KINDS)


def nodes(level, count=3):
    gpus = [{"sku": "rtx-3090"}] * 2
    own = [
        {"name": f"n{one}", "address": f"10.0.0.{one}", "cpus": 24, "ram_gib": 96, "gpus": gpus}
        for one in range(1, count + 1)
    ]
    loaded = over_defaults({"name": "nodes", "nodes": own}, "nodes.toml", KINDS)
    return simulated_recording(loaded, level), loaded


@pytest.fixture(scope="module")
def of_six():
    return nodes("quick")


def test_a_healthy_group_passes_by_the_figures_of_its_sku(bench):
    assert bench.outcomes() == dict.fromkeys(OPERATIONS, PASS)
    found = bench.found()
    assert found.limit in (pytest.approx(0.85 * 221), pytest.approx(0.85 * 331))
    assert found.limit_source.endswith("GB/s, measured; hwprofiles/gpus/h200-sxm.toml")
    assert re.search(r"MiB; 4 B take [45]\d\.\d µs$", found.detail)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_has_a_limit_of_its_own(bench, operation):
    bench.one_rank(1, 0.8, operation=operation, mib=16)
    assert bench.outcomes() == dict.fromkeys(OPERATIONS, PASS) | {operation: FAIL}


@pytest.mark.parametrize(("by", "outcome"), [(0.9, PASS), (0.8, FAIL)])
def test_four_are_held_against_figures_of_four(by, outcome):
    node = {"name": TEAM, "cpus": 64, "ram_gib": 1024, "gpus": [{"sku": "h200-sxm"}] * 4}
    loaded = over_defaults({"name": "four", "nodes": [node]}, "four.toml", KINDS)
    bench = CollectiveBench(simulated_recording(loaded, "quick"), loaded, STAGE)
    bench.one_rank(1, by, operation=ALL_REDUCE, mib=16)
    found = bench.found()
    assert (found.outcome, found.limit) == (outcome, pytest.approx(0.85 * 257))


@pytest.mark.parametrize("mib", [16, 1024])
def test_one_slow_rank_at_one_size_fails_the_group(bench, mib):
    bench.one_rank(1, 0.8, operation=ALL_REDUCE, mib=mib)
    found = bench.found()
    assert found.outcome is FAIL
    assert found.detail.startswith(f"{mib} MiB")
    assert bench.found(BROADCAST).outcome is PASS


def test_sizes_without_a_figure_are_not_judged(bench):
    bench.one_rank(1, 0.1, operation=ALL_REDUCE, mib=1)
    assert bench.found().outcome is PASS


def test_sizes_that_there_was_no_time_for_are_said(bench):
    for mib in (32, 128):
        bench.without(TEAM, operation=BROADCAST, mib=mib)
        bench.happened("size_left_out", TEAM, "no time", operation=BROADCAST, mib=mib)
    bench.happened("size_left_out", TEAM, "no time", operation=BROADCAST, mib=16)  # its even number
    found = bench.found(BROADCAST)
    assert found.outcome is PASS
    assert found.detail == "16 MiB; no time for 32, 128 MiB"
    assert "no time" not in bench.found().detail


@pytest.mark.parametrize("said", [True, False])
def test_without_the_size_that_is_always_due_nothing_is_measured(bench, said):
    for mib in (16, 32, 128, 1024):
        bench.without(TEAM, operation=BROADCAST, mib=mib)
    if said:
        message = "broadcast of 16 MiB was left out: each would take 12 s"
        bench.happened("size_left_out", TEAM, message, operation=BROADCAST, mib=16)
    found = bench.found(BROADCAST)
    assert found.outcome is NOT_MEASURED
    assert found.detail.startswith("too few verified rounds of broadcast")
    assert ("each would take 12 s" in found.detail) is said


@pytest.mark.parametrize(
    ("operation", "mib", "odd"),
    [
        (ALL_REDUCE, 0, None),
        *((ALL_REDUCE, mib, odd) for mib in (1, 16, 32, 1024) for odd in (True, False)),
        *((ALL_REDUCE, mib, None) for mib in (1, 32, 1024)),
        *((one, 16, odd) for one in OPERATIONS[1:] for odd in (True, False)),
    ],
)
def test_a_size_that_was_planned_and_is_not_there_is_no_pass(bench, operation, mib, odd):
    """Unless the team said that it left it out: with an even or an odd number of elements, or with either."""

    def hit(one):
        return odd is None or one.label("elements") % 2 == odd

    bench.change(lambda one: None if hit(one) else one, TEAM, operation=operation, mib=mib)
    found = bench.found(operation)
    name = "4 B" if not mib else f"{mib} MiB"
    parity = "even" if odd is False else "odd"
    assert (found.outcome, found.detail) == (
        NOT_MEASURED,
        f"too few verified rounds of {operation} of {name} ({parity} numbers)",
    )
    also = {} if odd is None else {"odd": odd}
    bench.happened("size_left_out", TEAM, "no time", operation=operation, mib=mib, **also)
    assert bench.found(operation).outcome is PASS


def test_of_a_size_that_was_done_with_odd_numbers_alone_the_others_are_said(bench):
    bench.change(lambda one: one if one.label("elements") % 2 else None, TEAM, operation=ALL_REDUCE, mib=1024)
    bench.happened("size_left_out", TEAM, "no time", operation=ALL_REDUCE, mib=1024, odd=False)
    assert bench.found().detail.endswith("; no time for 1024 (even numbers) MiB")


@pytest.mark.parametrize("left", [0, 2])
def test_one_rank_with_too_few_rounds_of_a_size_is_no_pass(bench, left):
    seen = []

    def few(one):
        if one.worker != RANKS[1]:
            return one
        seen.append(one)
        return one if len(seen) <= left else None

    bench.change(few, TEAM, operation=ALL_REDUCE, mib=128)
    found = bench.found()
    assert found.outcome is NOT_MEASURED
    assert "of 128 MiB" in found.detail


def test_rounds_of_another_kind_of_device_are_none(bench):
    bench.change(lambda one: replace(one, device="cpu"), TEAM)
    assert bench.found().outcome is NOT_MEASURED


@pytest.mark.parametrize("elsewhere", [{"arm": "without P2P"}, {"group": "localhost/gpu0"}])
def test_what_another_arm_or_a_part_left_out_is_not_the_teams(bench, elsewhere):
    bench.without(TEAM, operation=BROADCAST, mib=32)
    bench.happened("size_left_out", TEAM, "no time", operation=BROADCAST, mib=32, **elsewhere)
    assert bench.found(BROADCAST).detail == "16 MiB"
    bench.happened("size_left_out", TEAM, "no time", operation=BROADCAST, mib=32, arm="as it is", group="")
    assert bench.found(BROADCAST).detail == "16 MiB; no time for 32 MiB"


def test_a_network_may_be_too_slow_for_any_size(of_six):
    bench = CollectiveBench(*of_six, STAGE)
    for subject in ("n1", "rig"):
        bench.without(subject, operation=ALL_REDUCE, mib=16)
        message = "all_reduce of 16 MiB was left out: each would take 12 s"
        bench.happened("size_left_out", subject, message, operation=ALL_REDUCE, mib=16)
    assert bench.found(subject="n1").outcome is NOT_MEASURED
    found = bench.found(subject="rig")
    assert found.outcome in (PASS, NO_LIMIT)
    assert found.detail.startswith("1 MiB; 4 B take")
    assert "; no time for 16 MiB" in found.detail
    bench.slower("rig", 0.3, mib=1)  # a network's latency, not what it carries
    assert bench.found(subject="rig").outcome is NO_LIMIT


def test_the_rigs_own_floor_stands_alone(bench):
    bench.settings(STAGE, floor_gbps=400.0)
    found = bench.found()
    assert (found.outcome, found.limit) == (FAIL, 400.0)
    bench.settings(STAGE, floor_gbps=100.0)
    assert bench.found().outcome is PASS


def test_an_unknown_card_is_held_against_what_its_gpus_copy_to_each_other(bench):
    bench.unknown()
    found = bench.found()
    assert found.outcome is PASS
    assert "what its slowest two GPUs copy" in found.limit_source
    bench.one_rank(1, 0.1, operation=ALL_REDUCE, mib=1024)
    assert bench.found().outcome is FAIL


def test_without_copies_an_unknown_card_has_no_limit_and_passes_nothing(bench):
    bench.unknown()
    bench.recording.put(Round, [one for one in bench.recording.rounds if one.stage != "peer"])
    found = bench.found()
    assert found.outcome is NO_LIMIT
    assert re.fullmatch(r"1024 MiB; 4 B take [45]\d\.\d µs; nothing to compare it with yet", found.detail)


def test_a_group_is_held_against_the_other_groups(of_six):
    bench = CollectiveBench(*of_six, STAGE)
    found = bench.found(subject="n1")
    assert found.outcome is PASS
    assert "the median of 2 other groups" in found.limit_source
    bench.slower("n1", 0.7)
    assert [bench.found(subject=one).outcome for one in ("n1", "n2", "n3", "rig")] == [
        FAIL,
        PASS,
        PASS,
        PASS,
    ]


@pytest.mark.parametrize(("mib", "outcome"), [(1, PASS), (16, FAIL)])
def test_sizes_at_which_hosts_set_the_pace_are_not_held_against_other_groups(of_six, mib, outcome):
    """One pair of H200 did 18 to 34 GB/s of 1 MiB in three runs of half an hour."""
    bench = CollectiveBench(*of_six, STAGE)
    bench.slower("n1", 0.5, mib=mib)
    assert bench.found(subject="n1").outcome is outcome


def test_groups_that_are_all_slow_alike_fail_by_what_their_gpus_copy(of_six):
    """As with NCCL_P2P_DISABLE=1 in the image of all nodes."""
    bench = CollectiveBench(*of_six, STAGE)
    for node in ("n1", "n2", "n3"):
        bench.slower(node, 0.1)
    found = bench.found(subject="n1")
    assert (found.outcome, "what its slowest two GPUs copy" in found.limit_source) == (FAIL, True)


@pytest.mark.parametrize(
    ("count", "late", "share", "own", "limit"),
    [
        (3, ("n2", "n3"), 1.0, 0.5, 0.8),  # hosts that are late lower no rate of theirs
        (3, ("n2", "n3"), 0.9, 0.5, 0.8 * 0.9),  # what they did all the same
        (5, ("n2", "n3"), 0.3, 0.7, 0.8),
        (5, ("n2", "n3", "n4"), 0.9, 0.5, 0.8 * 0.9),
    ],
)
def test_groups_whose_hosts_were_late_lower_no_limit_of_others(count, late, share, own, limit):
    bench = CollectiveBench(*nodes("quick", count), STAGE)
    sound = bench.found(subject="n1").measured
    for node in late:
        bench.give(node, work=lambda one: share * one.work, host_paced=True)
    bench.slower("n1", own)
    found = bench.found(subject="n1")
    assert found.outcome is FAIL
    assert "other groups" in found.limit_source
    assert found.limit == pytest.approx(limit * sound, rel=0.02)


def test_a_verdict_says_which_numbers_are_too_slow_if_the_others_are_not(bench):
    bench.slower(TEAM, 0.5, operation=ALL_REDUCE, mib=16)
    assert bench.found().detail.startswith("16 MiB;")
    bench.change(
        lambda one: one if one.label("elements") % 2 else replace(one, work=2 * one.work),
        TEAM,
        operation=ALL_REDUCE,
        mib=16,
    )
    assert bench.found().detail.startswith("16 MiB, odd numbers;")


@pytest.mark.parametrize(("share", "outcome"), [(0.9, PASS), (0.6, FAIL)])
def test_a_group_is_held_against_others_by_odd_numbers_though_hosts_were_late_with_theirs(share, outcome):
    """Of three nodes two; even numbers are gathered 1.6 times as fast."""
    bench = CollectiveBench(*nodes("standard"), STAGE)

    def faster(one):
        late = one.subject != "n1" or None
        return one if one.label("elements") % 2 else replace(one, work=1.6 * one.work, host_paced=late)

    for node in ("n1", "n2", "n3"):
        bench.change(faster, node, operation=ALL_GATHER)
    bench.slower("n1", share, operation=ALL_GATHER)
    found = bench.found(ALL_GATHER, "n1")
    assert found.outcome is outcome
    assert "the median of 2 other groups" in found.limit_source


def test_a_quick_run_does_one_all_reduce_alone(of_six):
    bench = CollectiveBench(*of_six, STAGE)
    for operation in OPERATIONS[1:]:
        assert bench.found(operation, "rig").outcome is NOT_APPLICABLE


@pytest.mark.parametrize("where", [{}, {"mib": 16}])
def test_a_rank_without_rounds_is_named(bench, where):
    bench.change(lambda one: None if one.worker == RANKS[1] else one, TEAM, **where)
    found = bench.found()
    assert found.outcome is NOT_MEASURED
    assert found.detail.endswith("on localhost/gpu1")


def test_too_few_rounds_are_no_rate(bench):
    kept = set()

    def one_each(one):
        key = (one.worker, one.label("operation"), one.label("mib"))
        return kept.add(key) or one if key not in kept else None

    bench.change(one_each, TEAM)
    assert set(bench.outcomes().values()) == {NOT_MEASURED}


def test_between_nodes_there_are_no_arms(of_six):
    bench = CollectiveBench(*of_six, STAGE)
    assert bench.found("path", "rig").detail == "between nodes there is neither P2P nor shared memory"


def test_the_table_has_each_operation_and_size_by_its_slowest_rank(bench):
    bench.one_rank(1, 0.5, operation=BROADCAST)
    (table,) = tables(bench.recording)
    assert table.columns[2:] == ("Size", "Numbers", "By", "bus bandwidth, GB/s", "one takes, µs")
    assert [row[:5] for row in table.rows[:3]] == [
        ("localhost", "all-reduce", "4 B", "odd", "nccl, 2 ranks"),
        ("localhost", "all-reduce", "1 MiB", "odd", "nccl, 2 ranks"),
        ("localhost", "all-reduce", "1 MiB", "even", "nccl, 2 ranks"),
    ]
    assert table.rows[0][5] == "–"
    assert {row[1] for row in table.rows} == {one.replace("_", "-") for one in OPERATIONS}


def test_an_operation_that_nobody_knows_comes_last_in_the_table(bench):
    def renamed(one):
        return replace(one, labels={**one.labels, "operation": "send_recv"})

    bench.change(renamed, TEAM, operation=BROADCAST)
    (table,) = tables(bench.recording)
    assert table.rows[-1][1] == "send_recv"


def wait_for_hosts(bench, share, rounds, *, paced=True):
    """So many of the first all-reduces of 16 MiB were slower on both, while rank 1's waited for its host."""
    left = dict.fromkeys(RANKS, rounds)

    def slower(one):
        left[one.worker] -= 1
        if left[one.worker] < 0:
            return one
        labels = {**one.labels, "repeats": max(1, int(share * one.label("repeats")))}
        waited = (paced and one.worker == RANKS[1]) or None
        return replace(one, work=share * one.work, labels=labels, host_paced=waited)

    bench.change(slower, TEAM, operation=ALL_REDUCE, mib=16)


@pytest.mark.parametrize(
    ("share", "paced", "outcome"),
    [(0.7, True, NOT_MEASURED), (0.7, False, FAIL), (0.97, True, PASS), (0.1, True, FAIL)],
)
def test_a_rate_at_the_pace_of_a_host_does_not_blame_the_gpus_unless_the_host_is_too_slow(
    bench, share, paced, outcome
):
    wait_for_hosts(bench, share, 100, paced=paced)
    found = bench.found()
    assert found.outcome is outcome
    if outcome is NOT_MEASURED:
        text = r"15\d GB/s, limit ≥ 1\d\d GB/s: 16 MiB, while a host took 0\.11 ms to queue each"
        assert re.match(text, found.detail)


def test_what_is_slow_at_another_size_fails_beside_a_rate_at_the_pace_of_a_host(bench):
    wait_for_hosts(bench, 0.7, 100)
    bench.slower(TEAM, 0.5, operation=ALL_REDUCE, mib=128)
    found = bench.found()
    assert (found.outcome, found.detail.split(";")[0]) == (FAIL, "128 MiB")
