"""How fast transfers have to be: by the link that they cross, by the card's own best, by the rig's floor."""

from dataclasses import replace

import numpy as np
import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.history.champion_keeping import gpu_figures
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.judging.laps import judge_all
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.verdict import Outcome
from rigproof.report.terminal.plan_text import plan_lines
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from rigproof.stages.transfer.criteria import measured, tables
from rigproof.stages.transfer.stage import ALONE, BOTH, D2H, H2D, MEANINGS, TOGETHER
from support.simulated_bench import SimulatedBench, two_h200

GPU, OTHER = "localhost/gpu0", "localhost/gpu1"
DIRECTIONS = tuple(MEANINGS)
PASS, FAIL, WARN, NOT_MEASURED = Outcome.PASS, Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED


class TransferBench(SimulatedBench):
    def verdict_of(self, direction="h2d", subject=GPU):
        return self.verdict(f"transfer.{direction}", subject)


@pytest.fixture(scope="module")
def simulated():
    return two_h200("quick")


@pytest.fixture
def bench(simulated):
    return TransferBench(*simulated, "transfer")


def bench_of(*gpus, **node):
    """A node of these GPUs, just simulated."""
    node = {"name": "n1", "cpus": 24, "ram_gib": 96, "gpus": [{"sku": sku} for sku in gpus]} | node
    loaded = over_defaults({"name": "made", "nodes": [node]}, "made.toml", KINDS)
    return TransferBench(simulated_recording(loaded, "quick"), loaded, "transfer")


@pytest.mark.parametrize(("direction", "floor"), [("h2d", 48.0), ("d2h", 48.0), ("both", 57.6)])
def test_a_healthy_card_passes_by_the_floor_of_its_link(bench, direction, floor):
    found = bench.verdict_of(direction)
    assert (found.outcome, found.limit) == (PASS, pytest.approx(floor))
    assert found.limit_source.endswith("the floor of Gen5 x16; hwprofiles/defaults.toml")
    assert found.detail.startswith("Gen5 x16, ")
    assert found.detail.endswith(" GB/s (0.97 of it) with both GPUs of the host at once")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_slow_card_among_others_fails_and_they_do_not(bench, direction):
    bench.slower(GPU, 0.5, direction=direction)
    found = {one: bench.verdict_of(one).outcome for one in DIRECTIONS}
    assert found == dict.fromkeys(DIRECTIONS, PASS) | {direction: FAIL}
    assert bench.verdict_of(direction, OTHER).outcome is PASS


@pytest.mark.parametrize(
    ("generation", "width", "floor"),
    [(5, 16, 48), (4, 16, 21), (3, 16, 10), (3, 8, 5), (1, 4, 0.625), (2, 16, 5), (6, 16, 80), (5, 15, 45)],
)
def test_the_floor_is_by_generation_and_width(bench, generation, width, floor):
    bench.samples(GPU, pcie_generation=generation, pcie_width=width)
    found = bench.verdict_of()
    assert found.limit == pytest.approx(floor)
    assert f"Gen{generation} x{width}" in found.limit_source


def test_a_link_that_went_down_passes_by_its_own_floor_and_is_the_links_failure(bench):
    bench.samples(GPU, pcie_generation=1)
    bench.slower(GPU, 3.5 / 55.5)
    assert bench.verdict_of().outcome is PASS
    assert bench.verdict_of("link").outcome is FAIL


def test_a_link_that_is_down_under_its_own_transfers_alone_is_named(bench):
    bench.samples(GPU, bench.recording.stages["transfer"].start_s, pcie_generation=1)
    bench.slower(GPU, 0.06)
    found = bench.verdict_of()
    assert found.outcome is FAIL
    assert found.detail.startswith("Gen1 x16 under its own transfers, Gen5 x16")
    assert found.detail.endswith("in other stages")
    assert found.remedy.startswith("the link goes down between loads and does not come up for transfers")


def test_a_reading_from_before_the_stage_when_the_link_rested_lowers_no_floor(bench):
    for subject in (GPU, OTHER):
        bench.samples(subject, bench.recording.stages["transfer"].start_s, pcie_generation=1)
    bench.slower(GPU, 0.5)
    found = bench.verdict_of()
    assert (found.outcome, found.limit) == (FAIL, 48.0)


def test_a_slot_with_fewer_lanes_that_the_owner_states_is_the_measure(bench):
    bench.limits(pcie_width=8)
    bench.slower(GPU, 0.5)
    found = bench.verdict_of()
    assert (found.outcome, found.limit) == (PASS, 24.0)


def test_a_link_that_cannot_be_read_gives_no_floor(bench):
    bench.samples(GPU, pcie_generation=None)
    found = bench.verdict_of()
    assert found.outcome is Outcome.NO_LIMIT
    assert found.detail.endswith("no floor: the generation and width of its link are not known")


def test_a_card_whose_data_takes_another_link_may_be_faster_than_pcie(bench):
    """A GH200: NVML reports a PCIe link of one lane, and NVLink-C2C carries 300 GB/s."""
    for subject in (GPU, OTHER):
        bench.gpu(subject, pcie_generation_max=4, pcie_width_max=1)
    bench.samples(GPU, pcie_generation=4, pcie_width=1)
    bench.slower(GPU, 6.0)
    assert bench.verdict_of().outcome is NOT_MEASURED
    skus = bench.loaded.skus.items()
    without = {stem: sku.model_copy(update={"unsupported_sensors": ("pcie",)}) for stem, sku in skus}
    bench.loaded = replace(bench.loaded, skus=without)
    found = bench.verdict_of()
    assert (found.outcome, found.measured) == (Outcome.NO_LIMIT, pytest.approx(330, abs=15))


def test_a_link_of_a_generation_that_nobody_knows_a_floor_of_has_none(bench):
    bench.samples(GPU, pcie_generation=7)
    assert bench.verdict_of().outcome is Outcome.NO_LIMIT


def test_a_card_that_no_file_describes_is_judged_by_its_link(bench):
    bench.unknown()
    assert bench.verdict_of().limit == 48.0
    bench.slower(GPU, 0.5)
    assert bench.verdict_of().outcome is FAIL


def test_a_rigs_own_floor_stands_alone(bench):
    bench.floors(transfer_h2d_gbps=60.0)
    found = bench.verdict_of()
    assert (found.outcome, found.limit) == (FAIL, 60.0)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("company", [ALONE, TOGETHER])
def test_a_rate_may_be_a_quarter_over_what_its_link_carries_and_no_more(bench, direction, company):
    """63 GB/s are nominal for Gen5 x16, twice as many both ways."""
    nominal, usual = 63.0 * (2 if direction == "both" else 1), bench.verdict_of(direction).measured
    bench.slower(GPU, 1.15 * nominal / usual, direction=direction, company=company)
    # What is alone so fast both ways keeps too little of it in company.
    assert bench.verdict_of(direction).outcome is (WARN if (direction, company) == ("both", ALONE) else PASS)
    bench.slower(GPU, 1.35 / 1.15, direction=direction, company=company)
    found = bench.verdict_of(direction)
    assert found.outcome is NOT_MEASURED
    assert "a measurement error" in found.detail


# What was not measured


@pytest.mark.parametrize("company", [ALONE, TOGETHER])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_transfers_that_never_ran_are_not_measured(bench, direction, company):
    bench.without(GPU, direction=direction, company=company)
    found = bench.verdict_of(direction)
    assert found.outcome is NOT_MEASURED
    assert found.detail.startswith(f"0 verified rounds of {direction} ")


def test_one_round_that_was_not_verified_is_left_out(bench):
    places = iter([True, *[False] * 1000])
    bench.give(GPU, {"direction": "h2d", "company": ALONE}, verified=lambda _: not next(places))
    assert bench.verdict_of().outcome is PASS


def test_a_stage_that_did_not_run_is_not_measured(bench):
    bench.without(GPU)
    del bench.recording.stages["transfer"]
    assert bench.verdict_of().detail == "the transfer stage did not run"


def test_of_several_missed_turns_and_wrong_copies_the_first_is_told(bench):
    bench.without(GPU, company=ALONE)
    for t_s, message in ((40.0, "was ready late"), (44.0, "was ready later")):
        bench.happened("turn_missed", GPU, message, t_s)
    assert bench.verdict_of().detail == "0 verified rounds of h2d alone: it was ready late"
    for t_s, message in ((41.0, "one word differs"), (42.0, "two words differ")):
        bench.happened("wrong_result", GPU, message, t_s, direction="h2d")
    found = bench.verdict_of()
    assert (found.outcome, found.detail, found.from_s) == (FAIL, "one word differs", 41.0)


@pytest.mark.parametrize("company", [ALONE, TOGETHER])
@pytest.mark.parametrize(("number", "outcome"), [(2, NOT_MEASURED), (3, PASS)])
def test_three_verified_rounds_of_a_direction_are_a_measurement(bench, company, number, outcome):
    places = iter(range(1000))
    few = {"direction": "h2d", "company": company}
    bench.give(GPU, few, verified=lambda one: one.phase == "measure" and next(places) < number)
    assert bench.verdict_of().outcome is outcome


@pytest.mark.parametrize(("early_s", "outcome"), [(0.0, PASS), (2**-10, NOT_MEASURED)])
def test_a_round_that_begins_as_another_ends_is_not_beside_it(bench, early_s, outcome):
    alone = [one for one in bench.recording.rounds.of(GPU) if one.label("company") == ALONE]
    ends_s = [one.t_s for one in alone if one.label("direction") == "h2d" and one.phase == "measure"][:3]
    end_s = round(ends_s[-1] * 1024) / 1024  # no digit is lost
    bench.give(
        GPU,
        {"direction": "h2d", "company": ALONE},
        verified=lambda one: one.t_s in ends_s,
        t_s=lambda one: end_s if one.t_s == ends_s[-1] else one.t_s,
    )
    first_s = next(one.t_s for one in bench.recording.rounds.of(OTHER) if one.label("company") == ALONE)
    bench.give(
        OTHER,
        {"company": ALONE},
        t_s=lambda one: end_s + 2**-7 - early_s if one.t_s == first_s else one.t_s,
        seconds=2**-7,
    )
    assert bench.verdict_of().outcome is outcome


def test_rounds_during_which_another_card_transferred_are_not_alone(bench):
    own, theirs = (
        [one.t_s for one in bench.recording.rounds.of(subject) if one.label("company") == ALONE]
        for subject in (GPU, OTHER)
    )
    shift_s = min(theirs) - min(own)
    bench.give(OTHER, {"company": ALONE}, t_s=lambda one: one.t_s - shift_s)
    for subject in (GPU, OTHER):
        found = bench.verdict_of(subject=subject)
        assert (found.outcome, found.detail) == (NOT_MEASURED, "0 verified rounds of h2d alone")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_what_arrived_changed_fails_whatever_its_rate(bench, direction):
    message = f"{direction}: 1 of 8 words differ, the first at 3: 1, not 2"
    bench.happened("wrong_result", GPU, message, direction=direction)
    found = bench.verdict_of(direction)
    assert (found.outcome, found.measured, found.detail) == (FAIL, None, message)
    assert {bench.verdict_of(one).outcome for one in DIRECTIONS if one != direction} == {PASS}


# All at once


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_link_that_carries_enough_in_company_was_only_disturbed_alone(bench, direction):
    """Seen on an H100 of a shared host: 20 to 50 GB/s alone, and 55 in each of the 18 rounds after that."""
    bench.slower(GPU, 0.4, direction=direction, company=ALONE)
    found = bench.verdict_of(direction)
    assert found.outcome is PASS
    assert "alone, so something else was busy then" in found.detail
    bench.slower(GPU, 0.4, direction=direction, company=TOGETHER)
    assert bench.verdict_of(direction).outcome is FAIL


def test_less_in_company_fails_where_the_rig_states_a_limit(bench):
    bench.settings("transfer", together_share=0.9)
    assert bench.verdict_of().outcome is PASS
    bench.slower(GPU, 0.5, company=TOGETHER)
    found = bench.verdict_of()
    assert (found.outcome, found.limit) == (FAIL, pytest.approx(0.9 * 55.5, rel=0.01))
    assert found.measured == pytest.approx(26.9, rel=0.01)


def test_a_share_in_company_may_be_at_its_limit(bench):
    """Of 1 the ratio of equal rates falls short, of itself it does not."""
    found = measured(Evidence(bench.recording, bench.loaded).device(GPU), "h2d")
    for share, outcome in ((found.ratio, PASS), (found.ratio * 1.001, FAIL)):
        bench.settings("transfer", together_share=share)
        assert bench.verdict_of().outcome is outcome


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("missing", [True, False])
def test_a_rate_while_the_other_does_nothing_is_none_in_company(bench, direction, missing):
    """The other's rounds are missing, or of another time; its own verdict says why."""
    those = {"direction": direction, "company": TOGETHER}
    if missing:
        bench.without(OTHER, **those)
    else:
        bench.give(OTHER, those, t_s=lambda one: one.t_s - 1.5)
    found = bench.verdict_of(direction)
    assert (found.outcome, found.detail) == (PASS, "Gen5 x16")
    bench.settings("transfer", together_share=0.9)
    found = bench.verdict_of(direction)
    assert found.outcome is NOT_MEASURED
    assert f"{OTHER} did not transfer {direction} at the same time" in found.detail


def test_the_rate_in_company_is_that_of_the_time_with_the_others(bench):
    """One that ended early leaves the link to the other, which gets faster."""
    those = {"direction": "h2d", "company": TOGETHER}
    theirs = (one for one in bench.recording.rounds.of(OTHER) if those.items() <= one.labels.items())
    half_s = np.median([one.t_s for one in theirs])
    bench.give(OTHER, those, phase=lambda one: "warmup" if one.t_s > half_s else one.phase)
    assert "(0.97 of it) with both GPUs" in bench.verdict_of().detail
    bench.give(GPU, those, work=lambda one: one.work * (0.5 if one.t_s <= half_s else 1.0))
    bench.settings("transfer", together_share=0.9)
    found = bench.verdict_of()
    assert (found.outcome, found.measured) == (FAIL, pytest.approx(26.9, rel=0.02))


def test_a_gpu_that_does_not_take_part_hides_no_other_one():
    bench = bench_of(*["h200-sxm"] * 3)
    assert "with all 3 GPUs of the host" in bench.verdict_of(subject="n1/gpu0").detail
    bench.without("n1/gpu1", direction="h2d", company=TOGETHER)
    assert "with both GPUs of the host" in bench.verdict_of(subject="n1/gpu0").detail


def test_the_only_gpu_of_a_host_has_no_company_and_fails_if_it_falls_in_all_directions():
    bench = bench_of("h200-sxm")
    assert bench.verdict_of(subject="n1/gpu0").detail == "Gen5 x16"
    bench.slower("n1/gpu0", 0.5, company=TOGETHER)
    judged = {one.criterion: one.outcome for one in judge_all(bench.recording, bench.loaded)}
    assert {judged[f"transfer.{one}"] for one in DIRECTIONS} == {FAIL}


@pytest.mark.parametrize(
    ("fallen", "outcome"), [(("both",), WARN), (("d2h", "both"), FAIL), (("h2d",), WARN)]
)
def test_a_direction_that_falls_in_company_warns_and_two_fail(bench, fallen, outcome):
    for direction in fallen:
        bench.slower(GPU, 0.5, direction=direction, company=TOGETHER)
    for direction in DIRECTIONS:
        assert bench.verdict_of(direction).outcome is (outcome if direction in fallen else PASS)
    assert "alone, before" in bench.verdict_of(fallen[0]).limit_source


def test_what_gpus_with_the_same_link_lose_alike_in_company_is_reported_and_not_judged(bench):
    for subject in (GPU, OTHER):
        bench.slower(subject, 0.5, company=TOGETHER)
    assert {bench.verdict_of(one).outcome for one in DIRECTIONS} == {PASS}
    assert "GB/s (0.49 of it) with both GPUs" in bench.verdict_of().detail


# Champions, the plan, the table, the CPU


def test_a_run_keeps_a_champion_of_each_direction_and_holds_the_next_run_to_it(bench):
    card = bench.recording.gpus[GPU].uuid
    figures = gpu_figures(bench.recording, [bench.verdict_of(one) for one in DIRECTIONS])[card]
    assert {one.figure for one in figures} == {f"transfer_{one}_gbps" for one in DIRECTIONS}
    bench.champions = {card: {one.figure: (one.rate(),) for one in figures}}
    assert bench.verdict_of().outcome is PASS
    bench.slower(GPU, 0.93)
    assert {one: bench.verdict_of(one).outcome for one in DIRECTIONS} == {H2D: FAIL, D2H: FAIL, BOTH: PASS}
    assert bench.verdict_of().limit_source.startswith("this GPU's champion")
    bench.slower(GPU, 0.84)  # of what is left
    found = bench.verdict_of(BOTH)
    assert found.outcome is FAIL
    assert "× 0.8 of" in found.limit_source


@pytest.mark.parametrize(
    ("shares", "rate", "outcome", "limit"),
    [
        ({}, 0.82, PASS, "× 0.8 of"),
        ({"both_champion_share": None}, 0.93, FAIL, "× 0.95 of"),  # as in recordings without that key
        ({"champion_share": 0.7}, 0.75, PASS, "× 0.7 of"),
        ({"champion_share": None}, 0.7, PASS, "0.6 of twice"),  # champions are no floor
    ],
)
def test_copies_both_ways_are_held_against_the_lesser_share_of_the_champion(
    bench, shares, rate, outcome, limit
):
    card = bench.recording.gpus[GPU].uuid
    figures = gpu_figures(bench.recording, [bench.verdict_of(BOTH)])[card]
    bench.champions = {card: {one.figure: (one.rate(),) for one in figures}}
    own = {key: value for key, value in shares.items() if key == "both_champion_share"}
    bench.settings("transfer", **own)
    bench.limits(**{key: value for key, value in shares.items() if key not in own})
    bench.slower(GPU, rate)
    found = bench.verdict_of(BOTH)
    assert found.outcome is outcome
    assert limit in found.limit_source


@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
def test_the_plan_lasts_a_shift_for_each_gpu_of_the_fullest_host(gpus):
    nodes = [
        {"name": "a", "cpus": 64, "gpus": [{"sku": "h200-sxm"}] * gpus},
        {"name": "b", "address": "b", "cpus": 64, "gpus": [{"sku": "h200-sxm"}]},
    ]
    rig = over_defaults({"name": "two", "nodes": nodes}, "two.toml", KINDS)
    stage = make_plan(rig, "quick").stage("transfer")
    assert (stage.shifts, stage.shift_s) == (gpus, 0.3)
    assert stage.expected_s == pytest.approx(0.8 + 0.3 * gpus + 0.45)


def test_the_plan_says_how_long_it_takes_and_what_gives_the_floors(bench):
    lines = list(plan_lines(bench.loaded, make_plan(bench.loaded, "quick"), CATALOGUE, promised))
    [stage] = [one for one in lines if one.startswith("  transfer: ")]
    assert stage.endswith(", after 0.3 s for each GPU of a host alone")
    [rule] = [one for one in lines if one.startswith("  transfer.h2d ")]
    assert "a floor by its PC" in rule


def test_the_stage_takes_as_long_as_was_planned(bench):
    stage, planned = bench.recording.stages["transfer"], make_plan(bench.loaded, "quick").stage("transfer")
    last_s = max(one.t_s for one in bench.recording.rounds if one.stage == "transfer")
    assert last_s - stage.start_s == pytest.approx(planned.expected_s, abs=0.1)


def test_the_table_has_a_row_for_each_card_with_the_ratio(bench):
    bench.give(GPU, {"direction": "d2h", "company": ALONE}, verified=False)
    (table,) = tables(bench.recording)
    assert len(table.columns) == 10
    first, second = table.rows
    assert first[0] == GPU
    assert (first[4], first[6]) == ("–", "–")
    assert second[3] == second[6] == "0.97"


def test_the_cpu_as_the_device_has_no_link(bench):
    node = {"name": "a", "cpus": 8, "ram_gib": 16, "gpus": [{"sku": "unknown", "device": "cpu"}]}
    bench.recording.gpus["a/cpu0"] = replace(bench.recording.gpus[GPU], subject="a/cpu0", device="cpu")
    loaded = over_defaults({"name": "cpu", "nodes": [node]}, "cpu.toml", KINDS)
    cpu = TransferBench(bench.recording, loaded, "transfer")
    for direction in DIRECTIONS:
        found = cpu.verdict_of(direction, "a/cpu0")
        assert found.outcome is Outcome.NOT_APPLICABLE
        assert "has no link of its own" in found.detail


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("setup_s", 0.1),
        ("alone_s", 0.01),
        ("alone_s", 5.0),
        ("buffer_mib", 2),
        ("both_share", 0.1),
        ("both_share", 0.99),
        ("together_share", 0.01),
        ("together_share", 0.99),
    ],
)
def test_settings_with_which_nothing_could_be_measured_are_refused(key, value):
    tables = {"name": "lab", "stages": {"transfer": {key: value}}, "nodes": [{"name": "a"}]}
    problems = lint_rig(over_defaults(tables, "lab.toml", KINDS))
    assert any(one.startswith(f"lab.toml: stages.transfer.{key} = ") for one in problems), problems


@pytest.mark.parametrize("unknown", ["pcie_generation_max", "pcie_width_max"])
def test_a_link_of_which_only_half_is_known_bounds_no_rate(bench, unknown):
    bench.gpu(GPU, **{unknown: None})
    assert bench.verdict_of().outcome is PASS
    bench.slower(GPU, 3.0)
    assert bench.verdict_of().outcome is PASS


def test_a_card_in_a_better_slot_than_the_rig_states_is_no_measurement_error(bench):
    """On a rig with `pcie_width = 4`, one card has all its lanes."""
    bench.limits(pcie_width=4)
    assert bench.verdict_of().outcome is PASS
    bench.slower(GPU, 1.5)
    found = bench.verdict_of()
    assert (found.outcome, "a measurement error" in found.detail) == (NOT_MEASURED, True)
