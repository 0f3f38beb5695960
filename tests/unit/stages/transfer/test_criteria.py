"""How fast transfers have to be: by the link that they cross, by the card's own best, by the rig's floor."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.history.champion_keeping import gpu_figures
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import judge, promised
from rigproof.judging.laps import judge_all
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig, over_defaults
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.measurements import Event, Round
from rigproof.records.samples import GpuSample
from rigproof.records.verdict import Outcome
from rigproof.report.terminal.plan_text import plan_lines
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from rigproof.stages.transfer.criteria import measured, tables
from rigproof.stages.transfer.stage import ALONE, MEANINGS, TOGETHER

GPU, OTHER = "localhost/gpu0", "localhost/gpu1"
DIRECTIONS = tuple(MEANINGS)


@pytest.fixture(scope="module")
def loaded():
    return load_rig("h200-x2", KINDS)


@pytest.fixture(scope="module")
def simulated(loaded):
    return simulated_recording(loaded, "quick")


@pytest.fixture
def recording(simulated):
    """To be changed: its lists and tables are the test's own."""
    own = copy(simulated)
    own.events = list(own.events)
    return own


def changed(recording, subject=GPU, direction=None, company=None, **changes):
    """The recording with other rounds: `work` is a factor, a callable gets the round."""

    def other(one):
        if one.stage != "transfer" or one.subject != subject:
            return one
        if direction not in (None, one.label("direction")) or company not in (None, one.label("company")):
            return one
        values = {name: value(one) if callable(value) else value for name, value in changes.items()}
        if "work" in values and not callable(changes["work"]):
            values["work"] *= one.work
        return replace(one, **values)

    recording.put(Round, [other(one) for one in recording.rounds])
    return recording


def without(recording, subject=GPU, **labels):
    kept = [
        one
        for one in recording.rounds
        if (one.stage, one.subject) != ("transfer", subject)
        or any(one.label(name) != value for name, value in labels.items())
    ]
    recording.put(Round, kept)
    return recording


def linked(recording, subject=GPU, **fields):
    """The link reads this all the time."""
    recording.put(
        GpuSample,
        [replace(one, **fields) if one.subject == subject else one for one in recording.gpu_samples],
    )
    return recording


def verdict(recording, loaded, direction="h2d", subject=GPU, planned_by=None, champions=None):
    evidence = Evidence(recording, loaded, champions, planned_by)
    return judge(CATALOGUE[f"transfer.{direction}"], subject, evidence)


def stated(loaded, **settings):
    """The rig with other settings of the stage."""
    tables = loaded.rig.stages
    own = tables.transfer.model_copy(update=settings)
    return replace(
        loaded, rig=loaded.rig.model_copy(update={"stages": tables.model_copy(update={"transfer": own})})
    )


@pytest.mark.parametrize(("direction", "floor"), [("h2d", 48.0), ("d2h", 48.0), ("both", 57.6)])
def test_a_healthy_card_passes_by_the_floor_of_its_link(recording, loaded, direction, floor):
    found = verdict(recording, loaded, direction)
    assert (found.outcome, found.limit) == (Outcome.PASS, pytest.approx(floor))
    assert found.limit_source.endswith("the floor of Gen5 x16; hwprofiles/defaults.toml")
    assert found.detail.startswith("Gen5 x16, ")
    assert found.detail.endswith(" GB/s (0.97 of it) with both GPUs of the host at once")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_slow_card_among_others_fails_and_they_do_not(recording, loaded, direction):
    changed(recording, direction=direction, work=0.5)
    assert verdict(recording, loaded, direction).outcome is Outcome.FAIL
    for other in set(DIRECTIONS) - {direction}:
        assert verdict(recording, loaded, other).outcome is Outcome.PASS
    assert verdict(recording, loaded, direction, OTHER).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("generation", "width", "floor"),
    [(5, 16, 48), (4, 16, 21), (3, 16, 10), (3, 8, 5), (1, 4, 0.625), (2, 16, 5), (6, 16, 80), (5, 15, 45)],
)
def test_the_floor_is_by_generation_and_width(recording, loaded, generation, width, floor):
    linked(recording, pcie_generation=generation, pcie_width=width)
    found = verdict(recording, loaded)
    assert found.limit == pytest.approx(floor)
    assert f"Gen{generation} x{width}" in found.limit_source


def test_a_link_that_went_down_passes_by_its_own_floor_and_is_the_links_failure(recording, loaded):
    linked(recording, pcie_generation=1)
    changed(recording, work=3.5 / 55.5)
    assert verdict(recording, loaded).outcome is Outcome.PASS
    link = judge(CATALOGUE["transfer.link"], GPU, Evidence(recording, loaded))
    assert link.outcome is Outcome.FAIL


def test_a_link_that_is_down_under_its_own_transfers_alone_is_named(recording, loaded):
    stage = recording.stages["transfer"]
    recording.put(
        GpuSample,
        [
            replace(one, pcie_generation=1) if one.subject == GPU and one.t_s >= stage.start_s else one
            for one in recording.gpu_samples
        ],
    )
    found = verdict(changed(recording, work=0.06), loaded, "h2d")
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith("Gen1 x16 under its own transfers, Gen5 x16")
    assert found.detail.endswith("in other stages")
    assert found.remedy.startswith("the link goes down between loads and does not come up for transfers")


def test_a_reading_from_before_the_stage_when_the_link_rested_lowers_no_floor(recording, loaded):
    stage = recording.stages["transfer"]
    recording.put(
        GpuSample,
        [
            replace(one, pcie_generation=1) if one.t_s >= stage.start_s else one
            for one in recording.gpu_samples
        ],
    )
    found = verdict(changed(recording, work=0.5), loaded)
    assert (found.outcome, found.limit) == (Outcome.FAIL, 48.0)


def test_a_slot_with_fewer_lanes_that_the_owner_states_is_the_measure(recording, loaded):
    limits = loaded.rig.limits.model_copy(update={"pcie_width": 8})
    narrow = replace(loaded, rig=loaded.rig.model_copy(update={"limits": limits}))
    changed(recording, work=0.5)
    assert verdict(recording, narrow, planned_by=loaded).limit == 24.0
    assert verdict(recording, narrow, planned_by=loaded).outcome is Outcome.PASS


def test_a_link_that_cannot_be_read_gives_no_floor(recording, loaded):
    found = verdict(linked(recording, pcie_generation=None), loaded)
    assert found.outcome is Outcome.NO_LIMIT
    assert found.detail.endswith("no floor: the generation and width of its link are not known")


def test_a_card_whose_data_takes_another_link_may_be_faster_than_pcie(recording, loaded):
    """A GH200: NVML reports a PCIe link of one lane, and NVLink-C2C carries 300 GB/s."""
    gpus = [replace(one, pcie_generation_max=4, pcie_width_max=1) for one in recording.gpus.values()]
    fast = changed(linked(recording, pcie_generation=4, pcie_width=1), work=6.0)
    fast.gpus.update({one.subject: one for one in gpus})
    assert verdict(fast, loaded).outcome is Outcome.NOT_MEASURED
    skus = {
        stem: sku.model_copy(update={"unsupported_sensors": ("pcie",)}) for stem, sku in loaded.skus.items()
    }
    found = verdict(fast, replace(loaded, skus=skus), planned_by=loaded)
    assert found.outcome is Outcome.NO_LIMIT
    assert found.measured == pytest.approx(330, abs=15)


def test_a_link_of_a_generation_that_nobody_knows_a_floor_of_has_none(recording, loaded):
    assert verdict(linked(recording, pcie_generation=7), loaded).outcome is Outcome.NO_LIMIT


def test_a_card_that_no_file_describes_is_judged_by_its_link(recording, loaded):
    unknown = replace(loaded, skus={})
    assert verdict(recording, unknown, planned_by=loaded).limit == 48.0
    changed(recording, work=0.5)
    assert verdict(recording, unknown, planned_by=loaded).outcome is Outcome.FAIL


def test_a_rigs_own_floor_stands_alone(recording, loaded):
    (node,) = loaded.rig.nodes
    gpu = node.gpus[0]
    own = gpu.model_copy(update={"floors": gpu.floors.model_copy(update={"transfer_h2d_gbps": 60.0})})
    node = node.model_copy(update={"gpus": (own, *node.gpus[1:])})
    rig = replace(loaded, rig=loaded.rig.model_copy(update={"nodes": (node,)}))
    found = verdict(recording, rig, planned_by=loaded)
    assert (found.outcome, found.limit) == (Outcome.FAIL, 60.0)


def test_more_than_the_best_link_carries_is_a_measurement_error(recording, loaded):
    found = verdict(changed(recording, work=1.5), loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert "a measurement error" in found.detail


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("company", [ALONE, TOGETHER])
def test_a_rate_may_be_a_quarter_over_what_its_link_carries_and_no_more(
    recording, loaded, direction, company
):
    """63 GB/s are nominal for Gen5 x16, twice as many both ways."""
    nominal = 63.0 * (2 if direction == "both" else 1)
    # What is alone so fast both ways keeps too little of it in company.
    good = {Outcome.WARN} if (direction, company) == ("both", ALONE) else {Outcome.PASS}
    for share, outcomes in ((1.15, good), (1.35, {Outcome.NOT_MEASURED})):
        again = copy(recording)
        work = share * nominal / verdict(again, loaded, direction).measured
        changed(again, direction=direction, company=company, work=work)
        assert verdict(again, loaded, direction).outcome in outcomes


# What was not measured


@pytest.mark.parametrize("company", [ALONE, TOGETHER])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_transfers_that_never_ran_are_not_measured(recording, loaded, direction, company):
    found = verdict(without(recording, direction=direction, company=company), loaded, direction)
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail.startswith(f"0 verified rounds of {direction} ")


@pytest.mark.parametrize("company", [ALONE, TOGETHER])
def test_rounds_that_were_not_verified_count_for_nothing(recording, loaded, company):
    found = verdict(changed(recording, company=company, verified=False), loaded)
    assert found.outcome is Outcome.NOT_MEASURED


def test_one_round_that_was_not_verified_is_left_out(recording, loaded):
    places = iter([True, *[False] * 1000])
    changed(recording, direction="h2d", company=ALONE, verified=lambda _: not next(places))
    assert verdict(recording, loaded).outcome is Outcome.PASS


def test_a_stage_that_did_not_run_is_not_measured(recording, loaded):
    without(recording)
    del recording.stages["transfer"]
    assert verdict(recording, loaded).detail == "the transfer stage did not run"


def test_a_card_that_missed_its_turn_says_why(recording, loaded):
    without(recording, company=ALONE)
    message = "was ready to transfer 0.40 s after its turn to do so alone had begun"
    recording.events.append(Event(40.0, "turn_missed", GPU, message, "transfer", f"{GPU}#0", {"late_s": 0.4}))
    assert verdict(recording, loaded).detail == f"0 verified rounds of h2d alone: it {message}"


def test_of_several_missed_turns_and_wrong_copies_the_first_is_told(recording, loaded):
    without(recording, company=ALONE)
    for t_s, message in ((40.0, "was ready late"), (44.0, "was ready later")):
        recording.events.append(Event(t_s, "turn_missed", GPU, message, "transfer", f"{GPU}#0", {}))
    assert verdict(recording, loaded).detail == "0 verified rounds of h2d alone: it was ready late"
    for t_s, message in ((41.0, "one word differs"), (42.0, "two words differ")):
        data = {"direction": "h2d"}
        recording.events.append(Event(t_s, "wrong_result", GPU, message, "transfer", f"{GPU}#0", data))
    found = verdict(recording, loaded)
    assert (found.outcome, found.detail, found.from_s) == (Outcome.FAIL, "one word differs", 41.0)


@pytest.mark.parametrize("company", [ALONE, TOGETHER])
@pytest.mark.parametrize(("number", "outcome"), [(2, Outcome.NOT_MEASURED), (3, Outcome.PASS)])
def test_three_rounds_of_a_direction_are_a_measurement(recording, loaded, company, number, outcome):
    places = iter(range(1000))
    changed(
        recording,
        direction="h2d",
        company=company,
        verified=lambda one: one.phase == "measure" and next(places) < number,
    )
    assert verdict(recording, loaded).outcome is outcome


@pytest.mark.parametrize(("early_s", "outcome"), [(0.0, Outcome.PASS), (2**-10, Outcome.NOT_MEASURED)])
def test_a_round_that_begins_as_another_ends_is_not_beside_it(recording, loaded, early_s, outcome):
    measured = [one for one in recording.rounds.of(GPU) if one.label("company") == ALONE]
    ends_s = [one.t_s for one in measured if one.label("direction") == "h2d" and one.phase == "measure"][:3]
    end_s = round(ends_s[-1] * 1024) / 1024  # no digit is lost
    changed(
        recording,
        direction="h2d",
        company=ALONE,
        verified=lambda one: one.t_s in ends_s,
        t_s=lambda one: end_s if one.t_s == ends_s[-1] else one.t_s,
    )
    first_s = next(one.t_s for one in recording.rounds.of(OTHER) if one.label("company") == ALONE)
    changed(
        recording,
        OTHER,
        company=ALONE,
        t_s=lambda one: end_s + 2**-7 - early_s if one.t_s == first_s else one.t_s,
        seconds=2**-7,
    )
    assert verdict(recording, loaded).outcome is outcome


def test_rounds_during_which_another_card_transferred_are_not_alone(recording, loaded):
    own = [one.t_s for one in recording.rounds.of(GPU) if one.label("company") == ALONE]
    theirs = [one.t_s for one in recording.rounds.of(OTHER) if one.label("company") == ALONE]
    shift_s = min(theirs) - min(own)
    changed(recording, OTHER, company=ALONE, t_s=lambda one: one.t_s - shift_s)
    for subject in (GPU, OTHER):
        found = verdict(recording, loaded, subject=subject)
        assert (found.outcome, found.detail) == (Outcome.NOT_MEASURED, "0 verified rounds of h2d alone")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_what_arrived_changed_fails_whatever_its_rate(recording, loaded, direction):
    message = f"{direction}: 1 of 8 words differ, the first at 3: 1, not 2"
    data = {"direction": direction}
    recording.events.append(Event(41.0, "wrong_result", GPU, message, "transfer", f"{GPU}#0", data))
    found = verdict(recording, loaded, direction)
    assert (found.outcome, found.measured, found.detail) == (Outcome.FAIL, None, message)
    for other in set(DIRECTIONS) - {direction}:
        assert verdict(recording, loaded, other).outcome is Outcome.PASS


# All at once


def test_less_in_company_is_reported_and_not_judged(recording, loaded):
    changed(recording, subject=OTHER, company=TOGETHER, work=0.5)
    found = verdict(changed(recording, company=TOGETHER, work=0.5), loaded)
    assert found.outcome is Outcome.PASS
    assert "GB/s (0.49 of it) with both GPUs" in found.detail


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_link_that_carries_enough_in_company_was_only_disturbed_alone(recording, loaded, direction):
    """Seen on an H100 of a shared host: 20 to 50 GB/s alone, and 55 in each of the 18 rounds after that."""
    found = verdict(changed(recording, direction=direction, company=ALONE, work=0.4), loaded, direction)
    assert found.outcome is Outcome.PASS
    assert "alone, so something else was busy then" in found.detail
    found = verdict(changed(recording, direction=direction, company=TOGETHER, work=0.4), loaded, direction)
    assert found.outcome is Outcome.FAIL


def test_less_in_company_fails_where_the_rig_states_a_limit(recording, loaded):
    own_lanes = stated(loaded, together_share=0.9)
    assert verdict(recording, own_lanes, planned_by=loaded).outcome is Outcome.PASS
    changed(recording, company=TOGETHER, work=0.5)
    found = verdict(recording, own_lanes, planned_by=loaded)
    assert found.outcome is Outcome.FAIL
    assert found.limit == pytest.approx(0.9 * 55.5, rel=0.01)
    assert found.measured == pytest.approx(26.9, rel=0.01)


def test_a_share_in_company_may_be_at_its_limit(recording, loaded):
    """Of 1 the ratio of equal rates falls short, of itself it does not."""
    found = measured(Evidence(recording, loaded).device(GPU), "h2d")
    for share, outcome in ((found.ratio, Outcome.PASS), (found.ratio * 1.001, Outcome.FAIL)):
        assert verdict(recording, stated(loaded, together_share=share), planned_by=loaded).outcome is outcome


def before_the_other(one):
    return one.t_s - 1.5


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_rate_while_the_other_does_nothing_is_none_in_company(recording, loaded, direction):
    """The other's rounds are missing, or of another time; its own verdict says why."""
    own_lanes = stated(loaded, together_share=0.9)
    elsewhere = {"subject": OTHER, "direction": direction, "company": TOGETHER}
    for alone in (
        lambda: changed(recording, **elsewhere, t_s=before_the_other),
        lambda: without(recording, OTHER, direction=direction, company=TOGETHER),
    ):
        alone()
        found = verdict(recording, loaded, direction)
        assert (found.outcome, found.detail) == (Outcome.PASS, "Gen5 x16")
        found = verdict(recording, own_lanes, direction, planned_by=loaded)
        assert found.outcome is Outcome.NOT_MEASURED
        assert f"{OTHER} did not transfer {direction} at the same time" in found.detail


def test_the_rate_in_company_is_that_of_the_time_with_the_others(recording, loaded):
    """One that ended early leaves the link to the other, which gets faster."""
    theirs = [one for one in recording.rounds if one.subject == OTHER and one.stage == "transfer"]
    half_s = np.median(
        [one.t_s for one in theirs if (one.label("direction"), one.label("company")) == ("h2d", TOGETHER)]
    )
    late = {"direction": "h2d", "company": TOGETHER}
    changed(recording, OTHER, **late, phase=lambda one: "warmup" if one.t_s > half_s else one.phase)
    assert "(0.97 of it) with both GPUs" in verdict(recording, loaded).detail
    changed(recording, GPU, **late, work=lambda one: one.work * (0.5 if one.t_s <= half_s else 1.0))
    found = verdict(recording, stated(loaded, together_share=0.9), planned_by=loaded)
    assert (found.outcome, found.measured) == (Outcome.FAIL, pytest.approx(26.9, rel=0.02))


def test_a_gpu_that_does_not_take_part_hides_no_other_one():
    node = {"name": "a", "cpus": 24, "ram_gib": 96, "gpus": [{"sku": "h200-sxm"}] * 3}
    three = over_defaults({"name": "three", "nodes": [node]}, "three.toml", KINDS)
    recording = simulated_recording(three, "quick")
    assert "with all 3 GPUs of the host" in verdict(recording, three, subject="a/gpu0").detail
    without(recording, "a/gpu1", direction="h2d", company=TOGETHER)
    assert "with both GPUs of the host" in verdict(recording, three, subject="a/gpu0").detail


def test_the_only_gpu_of_a_host_has_no_company():
    single = over_defaults(
        {"name": "one", "nodes": [{"name": "a", "cpus": 8, "gpus": [{"sku": "h200-sxm"}]}]}, "one.toml", KINDS
    )
    recording = simulated_recording(single, "quick")
    assert verdict(recording, single, subject="a/gpu0").detail == "Gen5 x16"


# Champions, the plan, the table, the CPU


def test_a_run_keeps_a_champion_of_each_direction_and_holds_the_next_run_to_it(recording, loaded):
    verdicts = [verdict(recording, loaded, one) for one in DIRECTIONS]
    figures = gpu_figures(recording, verdicts)[recording.gpus[GPU].uuid]
    assert {one.figure for one in figures} == {f"transfer_{one}_gbps" for one in DIRECTIONS}
    champions = {recording.gpus[GPU].uuid: {one.figure: (one.rate(),) for one in figures}}
    assert verdict(recording, loaded, champions=champions).outcome is Outcome.PASS
    found = verdict(changed(recording, work=0.93), loaded, champions=champions)
    assert found.outcome is Outcome.FAIL
    assert found.limit_source.startswith("this GPU's champion")


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


def test_the_plan_says_how_long_it_takes_and_what_gives_the_floors(loaded):
    lines = list(plan_lines(loaded, make_plan(loaded, "quick"), CATALOGUE, promised))
    [stage] = [one for one in lines if one.startswith("  transfer: ")]
    assert stage.endswith(", after 0.3 s for each GPU of a host alone")
    [rule] = [one for one in lines if one.startswith("  transfer.h2d ")]
    assert rule.endswith("a floor by its PCIe link")


def test_the_stage_takes_as_long_as_was_planned(recording, loaded):
    stage, planned = recording.stages["transfer"], make_plan(loaded, "quick").stage("transfer")
    last_s = max(one.t_s for one in recording.rounds if one.stage == "transfer")
    assert last_s - stage.start_s == pytest.approx(planned.expected_s, abs=0.1)


def test_the_table_has_a_row_for_each_card_with_the_ratio(recording):
    changed(recording, direction="d2h", company=ALONE, verified=False)
    (table,) = tables(recording)
    assert len(table.columns) == 10
    first, second = table.rows
    assert first[0] == GPU
    assert (first[4], first[6]) == ("–", "–")
    assert second[3] == second[6] == "0.97"


def test_the_cpu_as_the_device_has_no_link(loaded):
    cpu = over_defaults(
        {
            "name": "cpu",
            "nodes": [{"name": "a", "cpus": 8, "ram_gib": 16, "gpus": [{"sku": "unknown", "device": "cpu"}]}],
        },
        "cpu.toml",
        KINDS,
    )
    for direction in DIRECTIONS:
        recording = copy(simulated_recording(loaded, "quick"))
        recording.gpus["a/cpu0"] = replace(recording.gpus[GPU], subject="a/cpu0", device="cpu")
        found = verdict(recording, cpu, direction, "a/cpu0")
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
def test_a_link_of_which_only_half_is_known_bounds_no_rate(recording, loaded, unknown):
    recording.gpus = recording.gpus | {GPU: replace(recording.gpus[GPU], **{unknown: None})}
    assert verdict(recording, loaded).outcome is Outcome.PASS
    assert verdict(changed(recording, work=3.0), loaded).outcome is Outcome.PASS


def test_a_card_in_a_better_slot_than_the_rig_states_is_no_measurement_error(recording, loaded):
    """On a rig with `pcie_width = 4`, one card has all its lanes."""
    limits = loaded.rig.limits.model_copy(update={"pcie_width": 4})
    narrow = replace(loaded, rig=loaded.rig.model_copy(update={"limits": limits}))
    assert verdict(recording, narrow, planned_by=loaded).outcome is Outcome.PASS
    found = verdict(changed(recording, work=1.5), narrow, planned_by=loaded)
    assert (found.outcome, "a measurement error" in found.detail) == (Outcome.NOT_MEASURED, True)


# From the first slot to the last


@pytest.mark.parametrize(
    ("fallen", "outcome"),
    [(("both",), Outcome.WARN), (("d2h", "both"), Outcome.FAIL), (("h2d",), Outcome.WARN)],
)
def test_a_direction_that_falls_in_company_warns_and_two_fail(recording, loaded, fallen, outcome):
    for direction in fallen:
        changed(recording, direction=direction, company=TOGETHER, work=0.5)
    for direction in DIRECTIONS:
        expected = outcome if direction in fallen else Outcome.PASS
        assert verdict(recording, loaded, direction).outcome is expected
    assert "alone, before" in verdict(recording, loaded, fallen[0]).limit_source


def test_what_gpus_with_the_same_link_lose_alike_in_company_is_shared(recording, loaded):
    for subject in (GPU, OTHER):
        changed(recording, subject=subject, company=TOGETHER, work=0.5)
    assert {verdict(recording, loaded, one).outcome for one in DIRECTIONS} == {Outcome.PASS}


def test_a_lone_gpu_that_falls_in_all_directions_fails():
    node = {"name": "n1", "cpus": 16, "ram_gib": 256, "gpus": [{"sku": "h200-sxm"}]}
    alone = over_defaults({"name": "alone", "nodes": [node]}, "alone.toml", KINDS)
    recording = simulated_recording(alone, "quick")
    subject = next(iter(recording.gpus))
    changed(recording, subject=subject, company=TOGETHER, work=0.5)
    judged = judge_all(recording, alone)
    found = {one.criterion: one.outcome for one in judged if one.subject == subject}
    assert {found[f"transfer.{one}"] for one in DIRECTIONS} == {Outcome.FAIL}
