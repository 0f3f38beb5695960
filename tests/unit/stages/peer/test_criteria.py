"""How fast GPUs must copy to each other: by what connects them, by other pairs, by the rig."""

from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig, over_defaults
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.verdict import Outcome
from rigproof.report.terminal.plan_text import plan_lines
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.peer.criteria import spoiler, tables
from rigproof.stages.peer.stage import ARMS, BACK, BOTH, ENGINE, KERNEL, THERE, PeerLink
from rigproof.stages.registry import KINDS
from rigproof.telemetry.nvml.peers import REASONS
from rigproof.telemetry.nvml.protocol import P2pStatus
from support.sentences import check_sentences
from support.simulated_bench import SimulatedBench

GPU, OTHER = "localhost/gpu0", "localhost/gpu1"
PAIR = f"{GPU}-{OTHER}"
PASS, FAIL, NO_LIMIT, NOT_MEASURED = Outcome.PASS, Outcome.FAIL, Outcome.NO_LIMIT, Outcome.NOT_MEASURED
TOWARDS = {THERE: "to the second", BACK: "to the first"}
H200_FLOOR = 0.74 * 18 * 25


class PeerBench(SimulatedBench):
    def peer(self, subject=PAIR):
        return self.verdict("transfer.peer", subject)

    def link(self, subject=PAIR, **changes):
        """Another connection of the pair, or of all if the subject is empty."""
        links = self.recording.of(PeerLink)
        self.recording.put(
            PeerLink, [replace(one, **changes) if subject in {one.subject, ""} else one for one in links]
        )

    def no_counters(self):
        self.recording.counters = [replace(one, nvlinks=None) for one in self.recording.counters]


def bench_of(*gpus, level="quick", limits=None, **node):
    """A node of these GPUs, just simulated."""
    node = {"name": "n1", "cpus": 24, "ram_gib": 96, "gpus": [{"sku": sku} for sku in gpus]} | node
    tables = {"name": "made", "nodes": [node]} | ({"limits": limits} if limits else {})
    loaded = over_defaults(tables, "made.toml", KINDS)
    return PeerBench(simulated_recording(loaded, level), loaded, "peer")


def pairs_of(bench):
    return promised(CATALOGUE["transfer.peer"], bench.loaded)


@pytest.fixture(scope="module")
def simulated():
    loaded = load_rig("h200-x2", KINDS)
    return simulated_recording(loaded, "quick"), loaded


@pytest.fixture
def bench(simulated):
    return PeerBench(*simulated, "peer")


@pytest.fixture(scope="module")
def four_made():
    made = bench_of(*4 * ["h100-sxm"])
    return made.recording, made.loaded


@pytest.fixture
def four(four_made):
    return PeerBench(*four_made, "peer")


@pytest.fixture(scope="module")
def geforce_made():
    made = bench_of("rtx-3090", "rtx-3090")
    return made.recording, made.loaded


@pytest.fixture
def geforce(geforce_made):
    bench = PeerBench(*geforce_made, "peer")
    bench.pair = "n1/gpu0-n1/gpu1"
    return bench


# By NVLink


def test_two_cards_pass_by_the_links_between_them(bench):
    found = bench.peer()
    assert (found.outcome, found.limit) == (PASS, pytest.approx(H200_FLOOR))
    assert found.measured == pytest.approx(391, abs=4)
    assert found.limit_source == "25 GB/s of each link, hwprofiles/defaults.toml × 18 NVLinks × 0.74"
    assert found.detail.startswith("over 18 NVLinks; ")
    assert "both at once 70" in found.detail


@pytest.mark.parametrize(("by", "way"), [(ENGINE, THERE), (ENGINE, BACK)])
def test_the_slower_way_is_judged(bench, by, way):
    bench.slower(PAIR, 0.8, by=by, way=way)
    found = bench.peer()
    assert (found.outcome, found.measured) == (FAIL, pytest.approx(313, abs=4))
    assert found.detail == f"{TOWARDS[way]}, over 18 NVLinks"
    assert "`nvidia-smi nvlink -s` on localhost" in found.remedy


def test_both_ways_at_once_have_a_limit_of_their_own(bench):
    bench.slower(PAIR, 0.5, by=ENGINE, way=BOTH)
    found = bench.peer()
    assert (found.outcome, found.limit) == (FAIL, pytest.approx(2 * 0.6 * H200_FLOOR))
    assert found.measured == pytest.approx(351, abs=4)
    assert found.detail == "both at once, over 18 NVLinks"


@pytest.mark.parametrize("way", [THERE, BACK])
def test_a_kernels_stores_have_a_limit_of_their_own(bench, way):
    bench.slower(PAIR, 0.4, by=KERNEL, way=way)
    found = bench.peer()
    assert (found.outcome, found.limit) == (FAIL, pytest.approx(0.5 * H200_FLOOR))
    assert found.detail == f"{TOWARDS[way]} by kernel, over 18 NVLinks"


@pytest.mark.parametrize(("share", "outcome"), [(0.25, FAIL), (0.35, PASS)])
def test_a_kernels_stores_both_ways_at_once_are_held_against_both_shares(bench, share, outcome):
    bench.slower(PAIR, share, by=KERNEL, way=BOTH)
    found = bench.peer()
    assert found.outcome is outcome
    if outcome is FAIL:
        assert found.limit == pytest.approx(2 * 0.6 * 0.5 * H200_FLOOR)
        assert found.detail == "both at once by kernel, over 18 NVLinks"
        assert found.limit_source.startswith("0.6 of twice 0.5 of 25 GB/s of each link")


def test_links_that_are_down_lower_no_floor_over_a_switch(bench):
    bench.link(nvlinks=9)
    bench.slower(PAIR, 0.5)
    found = bench.peer()
    assert (found.outcome, found.limit) == (FAIL, pytest.approx(H200_FLOOR))
    assert "over 9 NVLinks" in found.detail


def test_cards_whose_links_are_all_down_fail_by_those_promised(bench):
    bench.link(nvlinks=0, switched=False, there=False, back=False, why="no way")
    bench.no_counters()
    bench.without(PAIR, by=KERNEL)
    bench.slower(PAIR, 0.1)
    found = bench.peer()
    assert (found.outcome, found.limit) == (FAIL, pytest.approx(H200_FLOOR))


@pytest.mark.parametrize(("links", "share", "floor"), [(0, 0.1, 0.30 * 63.0), (9, 0.5, 0.74 * 9 * 25)])
def test_fewer_links_are_right_where_the_rig_says_so(bench, links, share, floor):
    bench.limits(nvlinks=links)
    bench.link(nvlinks=links)
    bench.slower(PAIR, share)
    assert bench.peer().limit == pytest.approx(floor, rel=0.01)


def test_of_four_cards_without_a_switch_each_two_have_a_third_of_the_links(four):
    four.link("", nvlinks=6, switched=False)
    for pair in pairs_of(four):
        four.slower(pair, 1 / 3)
    for pair in pairs_of(four):
        found = four.peer(pair)
        assert (found.outcome, found.limit) == (PASS, pytest.approx(0.74 * 6 * 25))


def test_a_link_that_both_cards_lack_was_between_them(four):
    four.link("", nvlinks=6, switched=False)
    four.link("n1/gpu0-n1/gpu1", nvlinks=5, switched=False)
    for pair in pairs_of(four):
        four.slower(pair, 0.31)
    for subject in ("n1/gpu0", "n1/gpu1"):
        for moment in ("before", "after"):
            four.counters(subject, moment, nvlinks=(False, *17 * [True]))
    assert four.peer("n1/gpu0-n1/gpu1").limit == pytest.approx(0.74 * 6 * 25)
    assert four.peer("n1/gpu0-n1/gpu2").limit == pytest.approx(0.74 * 6 * 25)


def test_links_that_two_cards_lack_to_a_third_one_are_not_asked_of_them(four):
    """All of one card's are down."""
    four.link("", nvlinks=6, switched=False)
    for subject, active in (("n1/gpu0", 0), ("n1/gpu1", 12), ("n1/gpu2", 12), ("n1/gpu3", 12)):
        for moment in ("before", "after"):
            four.counters(subject, moment, nvlinks=(*active * [True], *(18 - active) * [False]))
    for pair in pairs_of(four):
        own = "n1/gpu0" in pair
        four.link(pair, nvlinks=0 if own else 6, switched=False)
        four.slower(pair, 0.1 if own else 1 / 3)
    for pair in pairs_of(four):
        found = four.peer(pair)
        assert (found.outcome, found.limit) == (
            FAIL if "n1/gpu0" in pair else PASS,
            pytest.approx(0.74 * 6 * 25),
        )


def test_where_nvml_does_not_say_where_links_lead_the_floor_is_the_least_that_a_board_has(bench):
    bench.link(nvlinks=None, switched=False)
    found = bench.peer()
    assert (found.outcome, found.limit) == (PASS, pytest.approx(0.74 * 6 * 25))


def test_links_of_an_architecture_without_a_stated_rate_have_no_floor(bench):
    for subject in (GPU, OTHER):
        bench.gpu(subject, compute_capability=(99, 0))
    found = bench.peer()
    assert found.outcome is NO_LIMIT
    assert found.measured == pytest.approx(391, abs=4)
    assert found.detail.endswith("; no floor: what connects the two is not known")


# By PCIe, and through the host


def test_direct_copies_over_pcie_have_a_floor_by_the_slower_link(geforce):
    geforce.link(geforce.pair, there=True, back=True, why="", path="one PCIe switch")
    geforce.samples("n1/gpu1", pcie_width=8)
    rounds = [one for one in geforce.recording.rounds if one.stage == "peer"]
    made = [replace(one, labels={**one.labels, "by": KERNEL}) for one in rounds]
    geforce.recording.put(type(made[0]), [*geforce.recording.rounds, *_later(made)])
    found = geforce.peer(geforce.pair)
    assert (found.outcome, found.limit) == (PASS, pytest.approx(0.30 * 15.75, rel=0.01))
    assert found.limit_source.startswith("Gen4 x8 × 0.3; ")
    assert found.detail.startswith("directly over one PCIe switch; ")


def _later(rounds):
    return [replace(one, t_s=one.t_s + 0.2) for one in rounds]


def test_consumer_cards_copy_through_the_host_and_are_told_so(geforce):
    found = geforce.peer(geforce.pair)
    assert found.outcome is PASS
    assert found.limit == pytest.approx(0.30 * 0.879 * 31.5, rel=0.02)
    assert "d2h of n1/gpu" in found.limit_source or "h2d of n1/gpu" in found.limit_source
    assert "no direct access (its driver does not offer it for these GPUs; `nvidia-smi" in found.detail


def test_through_the_host_without_transfers_the_floor_is_that_of_the_link(geforce):
    rounds = [one for one in geforce.recording.rounds if one.stage != "transfer"]
    geforce.recording.put(type(rounds[0]), rounds)
    assert geforce.peer(geforce.pair).limit == pytest.approx(0.30 * 31.5, rel=0.01)


def test_a_slow_way_through_the_host_fails(geforce):
    geforce.slower(geforce.pair, 0.3)
    found = geforce.peer(geforce.pair)
    assert found.outcome is FAIL
    assert "transfer.h2d" in found.remedy
    assert "on n1" in found.remedy


@pytest.mark.parametrize("status", set(REASONS) - {P2pStatus.GPU})
def test_what_else_can_prevent_direct_access_is_named_beside_nvmls_reason(geforce, status):
    geforce.link(geforce.pair, why=REASONS[status])
    found = geforce.peer(geforce.pair)
    check_sentences([found])
    assert found.outcome is PASS
    assert "; maybe IOMMU, ACS, a small BAR1; `nvidia-smi topo -p2p r`)" in found.detail


def test_a_slow_way_through_the_host_with_a_culprit_is_one_short_sentence():
    bench = bench_of(*3 * ["rtx-3090"], name="localhost")
    bench.link("", why=REASONS[P2pStatus.DISABLED])
    its = [pair for pair in pairs_of(bench) if f"{GPU}-" in pair]
    for pair in its:
        bench.slower(pair, 0.2, by=ENGINE, way=BOTH)
    found = [bench.peer(pair) for pair in its]
    check_sentences([bench.peer(pair) for pair in pairs_of(bench)])
    for one in found:
        assert one.detail == f"both at once, through the host's memory; {GPU} is in all pairs that fail"
        assert all(word in one.remedy for word in ("`nvidia-smi topo -p2p r`", "IOMMU", "ACS", "BAR1"))


def test_access_one_way_only_is_no_direct_access(geforce):
    geforce.link(geforce.pair, there=True)
    assert "no direct access" in geforce.peer(geforce.pair).detail


def test_without_nvmls_reason_the_likely_ones_are_named(geforce):
    geforce.link(geforce.pair, why="")
    assert "(IOMMU, ACS, a small BAR1, or a consumer card's driver; " in geforce.peer(geforce.pair).detail


def test_a_bridge_counts_by_its_links():
    bench = bench_of("rtx-3090", "rtx-3090", limits={"nvlinks": 4})
    found = bench.peer("n1/gpu0-n1/gpu1")
    assert (found.outcome, found.limit) == (PASS, pytest.approx(0.74 * 4 * 14.0625))
    assert found.detail.startswith("over 4 NVLinks; ")


def test_unlike_cards_are_a_pair_too():
    bench = bench_of("rtx-3090", "rtx-3070")
    assert bench.peer("n1/gpu0-n1/gpu1").outcome is PASS


def test_an_unlisted_card_without_a_known_link_has_no_floor(geforce):
    geforce.unknown()
    for subject in ("n1/gpu0", "n1/gpu1"):
        geforce.samples(subject, pcie_generation=None, pcie_width=None)
    rounds = [one for one in geforce.recording.rounds if one.stage != "transfer"]
    geforce.recording.put(type(rounds[0]), rounds)
    found = geforce.peer(geforce.pair)
    assert found.outcome is NO_LIMIT


# By the rig, and by other pairs


def test_the_rigs_own_floor_stands_alone(bench):
    bench.settings("peer", floor_gbps=100.0)
    bench.slower(PAIR, 0.3)
    assert bench.peer().limit == 100.0
    assert bench.peer().outcome is PASS
    bench.settings("peer", floor_gbps=200.0)
    assert bench.peer().outcome is FAIL


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
