"""What copies between GPUs fail by beside their floor: other pairs, wrong words; and what is not measured."""

from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.verdict import Outcome
from rigproof.report.terminal.plan_text import plan_lines
from rigproof.stages.peer.criteria import spoiler, tables
from rigproof.stages.peer.stage import ARMS, BACK, BOTH, ENGINE, KERNEL, THERE, PeerLink
from rigproof.stages.registry import KINDS
from support.peer_bench import GPU, OTHER, PAIR, bench_of, pairs_of
from support.sentences import check_sentences

PASS, FAIL, NOT_MEASURED = Outcome.PASS, Outcome.FAIL, Outcome.NOT_MEASURED


# By other pairs


def test_a_pair_below_the_others_fails_although_the_floor_is_met(four):
    four.settings("peer", floor_gbps=100.0)
    four.slower("n1/gpu1-n1/gpu3", 0.75)
    found = four.peer("n1/gpu1-n1/gpu3")
    assert found.outcome is FAIL
    assert found.limit_source.startswith("the median of 5 other pairs × 0.8")
    others = [one for one in pairs_of(four) if one != "n1/gpu1-n1/gpu3"]
    assert {four.peer(one).outcome for one in others} == {PASS}


def test_each_arm_is_compared_with_that_of_other_pairs(four):
    pair = "n1/gpu1-n1/gpu3"
    four.slower(pair, 0.75, by=KERNEL, way=BOTH)  # far above its floor
    found = four.peer(pair)
    assert found.outcome is FAIL
    assert found.detail == "both at once by kernel, over 18 NVLinks"
    assert found.limit == pytest.approx(0.8 * 663, rel=0.01)
    assert {four.peer(one).outcome for one in pairs_of(four) if one != pair} == {PASS}


def test_pairs_that_are_connected_otherwise_are_not_compared(four):
    four.settings("peer", floor_gbps=100.0)
    four.link("n1/gpu1-n1/gpu3", switched=False)
    four.slower("n1/gpu1-n1/gpu3", 0.75)
    assert four.peer("n1/gpu1-n1/gpu3").outcome is PASS


# Wrong words


@pytest.mark.parametrize("phase", ["measure", "warmup"])
def test_a_wrong_word_fails_whatever_the_rate(bench, phase):
    first = next(one for one in bench.recording.rounds if one.subject == PAIR)
    wrong = replace(first, verified=False, phase=phase, t_s=first.t_s - 0.01)
    bench.recording.put(type(first), [*bench.recording.rounds, wrong])
    found = bench.peer()
    assert (found.outcome, found.measured, found.severity) == (FAIL, None, "isolate")
    assert "NCCL_P2P_DISABLE=1" in found.remedy


@pytest.mark.parametrize(("by", "way"), ARMS)
def test_a_wrong_word_in_any_arm_alone_fails(bench, by, way):
    bench.give(PAIR, {"by": by, "way": way}, verified=False)
    found = bench.peer()
    assert (found.outcome, found.measured) == (FAIL, None)
    assert "wrong words in 8 copies" in found.detail


def test_the_event_says_which_word(bench):
    bench.happened("wrong_result", PAIR, "to the second: 3 of 9 words differ, first at 5", way=THERE)
    found = bench.peer()
    assert found.outcome is FAIL
    assert "first at 5" in found.detail
    assert found.from_s == 40.0


def test_wrong_words_without_any_floor_or_link_fail(bench):
    bench.happened("wrong_result", PAIR, "wrong")
    bench.recording.put(PeerLink, [])
    assert bench.peer().outcome is FAIL


def test_strangers_explain_no_wrong_word(bench):
    bench.happened("wrong_result", PAIR, "wrong")
    bench.stranger(30.0, subject=GPU, used_mib=(5000,), sm_percent=(95,))
    assert bench.peer().outcome is FAIL


# Not measured


def test_without_copies_it_is_not_measured_with_where_they_ended(four):
    begun = "n1/gpu0-n1/gpu2"
    for pair in pairs_of(four):
        four.without(pair)
    four.recording.put(PeerLink, [])
    four.recording.events = [one for one in four.recording.events if one.kind != "pair_begun"]
    four.happened("pair_begun", "n1/gpu0-n1/gpu3", t_s=39.0)
    four.happened("pair_begun", begun, t_s=40.0)
    four.happened("peers_ended", "n1", "the copies between GPUs did nothing for 30 s", t_s=70.0)
    for pair in pairs_of(four):
        found = four.peer(pair)
        assert found.outcome is NOT_MEASURED
        assert (
            f"the copies between GPUs did nothing for 30 s, while {begun} copied (at t=70 s)" in found.detail
        )


def test_a_crew_that_lacked_a_gpu_says_so(bench):
    bench.without(PAIR)
    bench.recording.put(PeerLink, [])
    bench.event("crew_failed", "localhost", "it did not begin: there is no process of x", stage="peer")
    assert "it did not begin: there is no process of x" in bench.peer().detail


@pytest.mark.parametrize(("by", "way"), ARMS)
def test_too_few_copies_of_one_arm_are_not_measured(bench, by, way):
    bench.without(PAIR, by=by, way=way)
    assert bench.said("transfer.peer", PAIR)[0] is NOT_MEASURED


def test_a_run_that_was_not_told_to_store_both_ways_at_once_is_judged_without(bench):
    bench.without(PAIR, by=KERNEL, way=BOTH)
    assert bench.peer().outcome is NOT_MEASURED
    stage = bench.recording.stages["peer"]
    specs = {
        name: {key: value for key, value in spec.items() if key != "arms"}
        for name, spec in stage.settings["specs"].items()
    }
    bench.recording.stages["peer"] = replace(stage, settings={**stage.settings, "specs": specs})
    assert bench.peer().outcome is PASS
    bench.without(PAIR, by=KERNEL, way=BACK)
    assert bench.peer().outcome is NOT_MEASURED


def test_copies_without_a_word_on_how_the_two_are_connected_are_not_measured(bench):
    bench.recording.put(PeerLink, [])
    assert bench.peer().outcome is NOT_MEASURED


def test_two_different_connections_are_not_measured(bench):
    links = list(bench.recording.of(PeerLink))
    bench.recording.put(PeerLink, [*links, *links])
    assert bench.peer().outcome is NOT_MEASURED


@pytest.mark.parametrize("links", [-1, 37])
def test_a_number_of_links_that_no_gpu_has_is_not_believed(bench, links):
    bench.link(nvlinks=links)
    assert bench.peer().outcome is NOT_MEASURED


def test_copies_for_which_there_was_hardly_any_memory_are_not_measured(bench):
    share = 1e-3
    bench.give(PAIR, seconds=lambda one: share * one.seconds, work=lambda one: share * one.work / 2)
    bench.link(mib=1)
    outcome, detail = bench.said("transfer.peer", PAIR)
    assert outcome is NOT_MEASURED
    assert detail.startswith("copies of 1 MiB took 0.0")


def test_a_rate_that_nothing_between_the_two_carries_is_a_measurement_error(bench):
    bench.slower(PAIR, 1.5, by=ENGINE, way=THERE)
    found = bench.peer()
    assert found.outcome is NOT_MEASURED
    assert "a measurement error" in found.detail


def test_a_rate_beside_a_stranger_is_not_the_cards(bench):
    (stage,) = [one for one in bench.recording.stages.values() if one.name == "peer"]
    bench.slower(PAIR, 0.5)
    for number in range(4):
        bench.stranger(
            stage.start_s - 3 + number, subject=OTHER, used_mib=(5000,), sm_percent=(95,), pid=7 + number
        )
    found = bench.peer()
    assert found.outcome is NOT_MEASURED
    assert "computed on this card" in found.detail


# What users see


def test_all_sentences_are_short_and_have_a_next_step(bench, geforce):
    found = [bench.peer(), geforce.peer(geforce.pair)]
    bench.slower(PAIR, 0.5)
    geforce.slower(geforce.pair, 0.3)
    found += [bench.peer(), geforce.peer(geforce.pair)]
    wrong = "both at once by kernel: 67108857 of 67108857 words differ, "
    bench.happened("wrong_result", PAIR, f"{wrong}first at 67108856: {16 * '0'}, not {16 * 'f'}")
    check_sentences([*found, bench.peer()])


def test_one_gpu_has_no_pairs_and_its_plan_no_such_stage():
    node = {"name": "n1", "cpus": 24, "ram_gib": 96, "gpus": [{"sku": "h100-sxm"}]}
    loaded = over_defaults({"name": "made", "nodes": [node, {**node, "name": "n2"}]}, "made.toml", KINDS)
    assert promised(CATALOGUE["transfer.peer"], loaded) == ()
    assert "peer" not in make_plan(loaded, "quick").stage_names


@pytest.mark.parametrize(("number", "expected_s"), [(2, 1.1), (4, 1.6), (8, 3.8)])
def test_each_pair_of_the_fullest_host_has_its_time(number, expected_s):
    node = {"cpus": 64, "ram_gib": 2048}
    nodes = [
        {"name": "n1", "gpus": [{"sku": "h100-sxm"} for _ in range(number)]} | node,
        {"name": "n2", "gpus": [{"sku": "h100-sxm"}]} | node,
    ]
    loaded = over_defaults({"name": "made", "nodes": nodes}, "made.toml", KINDS)
    plan = make_plan(loaded, "quick")
    (stage,) = [one for one in plan.stages if one.name == "peer"]
    assert stage.expected_s == pytest.approx(expected_s)
    text = "\n".join(plan_lines(loaded, plan, CATALOGUE, promised))
    assert "after the start of its process, 0.1 s for each pair of GPUs of a host" in text


def test_a_table_has_a_row_for_each_pair(bench):
    (table,) = tables(bench.recording)
    assert [row[:2] for row in table.rows] == [(PAIR, "over 18 NVLinks")]
    assert len(table.rows[0]) == len(table.columns) == 8


def test_a_table_of_many_pairs_shows_the_slowest_and_the_median():
    bench = bench_of(*8 * ["h100-sxm"], cpus=64, ram_gib=2048)
    bench.slower("n1/gpu2-n1/gpu5", 0.9)
    (table,) = tables(bench.recording)
    assert len(table.rows) == 7
    assert table.rows[0][0] == "n1/gpu2-n1/gpu5"
    assert table.rows[-1][0] == "median of 28 pairs"
    assert float(table.rows[-1][2]) == pytest.approx(391, abs=3)


@pytest.mark.parametrize("key", ["nvlink_share", "host_share"])
def test_shares_that_mean_nothing_are_refused(bench, key):
    bench.settings("peer", **{key: 0.01})
    assert any(f"stages.peer.{key}" in one for one in lint_rig(bench.loaded, "quick"))


# Who is to blame


def test_the_gpu_that_is_in_all_failing_pairs_is_named(four):
    its = [pair for pair in pairs_of(four) if "n1/gpu2" in pair]
    for pair in its:
        four.slower(pair, 0.5)
    for pair in its:
        assert four.peer(pair).detail.endswith("; n1/gpu2 is in all pairs that fail")
    for pair in its:
        four.happened("wrong_result", pair, "to the second: 3 of 9 words differ, first at 5: 0, not 1")
    found = [four.peer(pair) for pair in its]
    detail = "to the second: 3 of 9 words differ; n1/gpu2 is in all pairs that fail"
    assert {one.detail for one in found} == {detail}
    assert {one.remedy[:25] for one in found} == {"do not train on n1/gpu2: "}
    check_sentences(found)


@pytest.mark.parametrize("failing", [["n1/gpu0-n1/gpu1"], ["n1/gpu0-n1/gpu1", "n1/gpu2-n1/gpu3"]])
def test_of_one_pair_or_of_pairs_without_a_common_gpu_none_is_named(four, failing):
    for pair in failing:
        four.slower(pair, 0.5)
    assert not any("all pairs that fail" in four.peer(pair).detail for pair in failing)


def test_a_gpu_whose_pairs_all_fail_while_all_others_are_fine_spoils_what_others_exchange(four):
    for pair in of_gpu(four, "n1/gpu2"):
        four.slower(pair, 0.5)
    assert spoiler(evidence_of(four), "n1") == "n1/gpu2"


@pytest.mark.parametrize("excuse", ["another pair", "fewer pairs", "not measured", "by others", "narrow"])
def test_where_who_is_to_blame_is_not_sure_nobody_is(four, excuse):
    its = of_gpu(four, "n1/gpu2")
    for pair in its[1:] if excuse == "fewer pairs" else its:
        four.slower(pair, 0.84 if excuse == "narrow" else 0.5)
    match excuse:
        case "another pair":
            four.slower("n1/gpu0-n1/gpu1", 0.5)
        case "not measured":
            four.without("n1/gpu0-n1/gpu1")
        case "by others":
            begun_s = four.recording.stages["peer"].start_s
            for number in range(4):
                used = {"used_mib": (5000,), "sm_percent": (95,), "pid": 7 + number}
                four.stranger(begun_s - 3 + number, subject="n1/gpu2", **used)
    assert spoiler(evidence_of(four), "n1") is None


def test_of_two_gpus_nobody_can_tell_which(bench):
    bench.happened("wrong_result", PAIR, "there: wrong")
    assert bench.peer().outcome is FAIL
    assert spoiler(evidence_of(bench), "localhost") is None


def of_gpu(bench, gpu):
    return [pair for pair in pairs_of(bench) if gpu in pair]


def evidence_of(bench):
    return Evidence(bench.recording, bench.loaded)
