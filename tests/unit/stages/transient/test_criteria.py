"""What a host must stand: judged by what happened to it, and only if waves were really made."""

from copy import copy
from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.judge import judge
from rigproof.judging.laps import judge_all
from rigproof.judging.length import shortfalls
from rigproof.profiles.loading.load import default_rig, over_defaults
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.measurements import Event, Round
from rigproof.records.samples import GpuSample
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.kind import StageWork
from rigproof.stages.registry import KINDS
from rigproof.stages.transient.criteria import transient
from rigproof.stages.transient.made import Waves
from rigproof.stages.transient.schedule import Arm, arms_of
from rigproof.stages.transient.simulated import _bursts
from rigproof.stages.transient.stage import TransientSettings, specs
from support.lengths import lengths
from support.sentences import check_sentences

NODE, FIRST, SECOND = "n1", "n1/gpu0", "n1/gpu1"
ABSENT = {kind.name: 0 for kind in KINDS if "length_s" in kind.settings.model_fields}


def rig(gpus=2, *, level="extended", length_s=16, settings=None, **node):
    """A node of so many H200, and a level that has little but the waves."""
    stages = ABSENT | {"sustained": 6, "transient": length_s}
    tables = lengths(level, settle_s=2, measure_s=2, round_s=0.5, **stages)
    tables["stages"]["transient"] |= settings or {}
    node = {"name": NODE, "cpus": 32, "ram_gib": 128, "gpus": [{"sku": "h200-sxm"}] * gpus, **node}
    return over_defaults({"name": "waves", **tables, "nodes": [node]}, "waves.toml", KINDS)


@pytest.fixture(scope="module")
def loaded():
    return rig()


@pytest.fixture(scope="module")
def simulated(loaded):
    return simulated_recording(loaded, "extended")


@pytest.fixture
def recording(simulated):
    """To be changed: its lists and tables are the test's own."""
    return copy(simulated)


def verdict(recording, loaded, planned_by=None):
    found = judge(transient, NODE, Evidence(recording, loaded, planned_by=planned_by))
    check_sentences([found])
    return found


def changed(recording, change, *, subject=SECOND, **labels):
    """The recording with `change` applied to each burst of a GPU that has these labels; None drops it."""

    def other(one):
        own = one.stage == "transient" and one.subject == subject
        return change(one) if own and labels.items() <= dict(one.labels).items() else one

    recording.put(Round, [new for one in recording.rounds if (new := other(one)) is not None])
    return recording


def late(seconds):
    return lambda one: replace(one, t_s=one.t_s + seconds)


def slower(share):
    return lambda one: replace(one, work=share * one.work)


def window_of(recording):
    stage = recording.stages["transient"]
    return stage.start_s + 5.0, stage.end_s


def happened(recording, kind, subject, message="it happened", **data):
    from_s, _ = window_of(recording)
    stage = "transient" if kind == "wrong_result" else None
    recording.events = [*recording.events, Event(from_s, kind, subject, message, stage, data=data)]
    return recording


def sampled(recording, subject, **fields):
    """The samples of a GPU with other readings while the waves run; values may be functions of the sample."""
    from_s, to_s = window_of(recording)

    def other(one):
        if one.subject != subject or not from_s <= one.t_s <= to_s:
            return one
        return replace(one, **{name: by(one) if callable(by) else by for name, by in fields.items()})

    recording.put(GpuSample, [other(one) for one in recording.gpu_samples])
    return recording


def test_a_sound_host_passes_and_the_verdict_says_what_it_stood(recording, loaded):
    found = verdict(recording, loaded)
    assert found.outcome is Outcome.PASS
    assert (found.limit, found.measured) == (80, pytest.approx(100, abs=2))
    assert "waves of 1 to 20 Hz on up to 2 GPUs, in phase within 0." in found.detail


def test_a_single_gpu_is_in_phase_with_itself():
    loaded = rig(1)
    found = verdict(simulated_recording(loaded, "extended"), loaded)
    assert found.outcome is Outcome.PASS
    assert found.detail.endswith("waves of 1 to 20 Hz on 1 GPU")


def test_a_gpu_may_wait_for_its_step_for_longer_than_a_worker_may_be_silent():
    loaded = rig(length_s=200)
    assert arms_of(2, loaded.settings(TransientSettings), 200.0)[3].from_s > loaded.rig.timeouts.start_s
    recording = simulated_recording(loaded, "extended")
    assert verdict(recording, loaded).outcome is Outcome.PASS
    assert not [event for event in recording.events if event.kind == "worker_hung"]


def test_samples_of_a_simulated_card_show_each_wave_that_is_not_too_short_for_them():
    for hz, waves in ((1, 4), (5, 20)):
        found = list(_bursts(Arm(2, hz, 10.0, waves)))
        length_s = max(0.5 / hz, 0.25)
        begins_s = [10.0 + 2 * length_s * number for number in range(int(waves / hz / length_s / 2))]
        assert [one.from_s for one in found] == pytest.approx(begins_s)
        assert found[0].from_s < 10.0  # a sample of the very moment at which the waves begin shows the first
        assert [one.to_s - one.from_s for one in found] == pytest.approx([length_s] * len(begins_s))


# Consequences


@pytest.mark.parametrize(
    ("kind", "subject", "data", "said"),
    [
        ("host_reset", NODE, {}, "the host restarted under the waves: it happened"),
        ("gpu_lost", SECOND, {}, "n1/gpu1 was lost under the waves: it happened"),
        ("xid", SECOND, {"xid": 79}, "n1/gpu1 reported Xid 79 under the waves: the GPU fell off the bus"),
        ("wrong_result", FIRST, {}, "n1/gpu0: it happened"),
    ],
)
def test_whatever_happens_while_the_load_switches_fails_and_names_whom_it_happened_to(
    recording, loaded, kind, subject, data, said
):
    found = verdict(happened(recording, kind, subject, **data), loaded)
    assert (found.outcome, found.detail) == (Outcome.FAIL, said)
    assert found.from_s == pytest.approx(recording.stages["transient"].start_s + 5.0)
    assert found.measured is None


@pytest.mark.parametrize(
    ("kind", "subject", "data"),
    [("host_reset", NODE, {}), ("gpu_lost", SECOND, {}), ("xid", SECOND, {"xid": 79})],
)
def test_what_happened_before_the_waves_is_not_theirs(recording, loaded, kind, subject, data):
    recording.events = [Event(1.0, kind, subject, "earlier", data=data), *recording.events]
    assert verdict(recording, loaded).outcome is not Outcome.FAIL


def test_an_xid_that_only_warns_is_left_to_the_criterion_of_xids(recording, loaded):
    assert verdict(happened(recording, "xid", SECOND, xid=63), loaded).outcome is Outcome.PASS


def test_what_the_black_box_tells_of_a_host_that_never_came_back_is_a_reset_under_the_waves(
    recording, loaded
):
    stage = replace(recording.stages["transient"], end_s=None, status="running")
    recording.stages = recording.stages | {"transient": stage}
    message = "n1 restarted 4 s into transient (gpus=2 hz=5), both cards at 100 %, last 702 + 690 W"
    recording.events = [
        *recording.events,
        Event(0.0, "host_reset", NODE, message, data={"stage": "transient"}),
    ]
    found = verdict(recording, loaded)
    assert found.outcome is Outcome.FAIL
    assert "gpus=2 hz=5" in found.detail


@pytest.mark.parametrize("reasons", [0x80, 0x8, 0x84])
def test_a_power_brake_or_hardware_slowdown_fails(recording, loaded, reasons):
    found = verdict(sampled(recording, SECOND, clock_event_reasons=reasons), loaded)
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith("n1/gpu1 was slowed down under the waves: HW")


@pytest.mark.parametrize("reasons", [0x0, 0x1, 0x4, 0x20, 0x40])
def test_idle_the_power_cap_and_heat_are_no_brake(recording, loaded, reasons):
    assert verdict(sampled(recording, SECOND, clock_event_reasons=reasons), loaded).outcome is Outcome.PASS


def test_a_gpu_that_loses_its_rate_once_another_one_joins_fails_and_both_are_named(recording, loaded):
    found = verdict(changed(recording, slower(0.7), subject=FIRST, gpus=2, hz=5), loaded)
    assert found.outcome is Outcome.FAIL
    assert found.measured == pytest.approx(70, abs=1)
    assert found.detail.startswith("n1/gpu0 at 5 Hz: ")
    assert found.detail.endswith("before n1/gpu1 took part")


def test_the_last_gpu_to_join_is_held_against_its_sustained_rate(recording, loaded):
    found = verdict(changed(recording, slower(0.6), subject=SECOND), loaded)
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith("n1/gpu1 at ")
    assert found.detail.endswith(" in the sustained stage")


def test_bursts_faster_than_the_silicon_are_no_measurement(recording, loaded):
    found = verdict(changed(recording, slower(3.0)), loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert "a measurement error, not a rate" in found.detail


def test_a_lone_gpu_is_held_against_its_sustained_rate():
    loaded = rig(1)
    found = verdict(changed(simulated_recording(loaded, "extended"), slower(0.6), subject=FIRST), loaded)
    assert found.outcome is Outcome.FAIL
    assert found.detail.endswith(" in the sustained stage")


def other_size(one):
    return replace(one, labels={**one.labels, "size": 4096})


def of_another_size(loaded, told):
    """Bursts of 4096 by a worker that was told to do at most that, or more."""
    found = changed(simulated_recording(loaded, "extended"), other_size, subject=FIRST)
    stage = found.stages["transient"]
    specs = {worker: {**spec, "size": told} for worker, spec in stage.settings["specs"].items()}
    ran = replace(stage, settings={**stage.settings, "specs": specs})
    found.stages = {**found.stages, "transient": ran}
    return found


def test_products_of_another_size_are_not_compared_with_the_sustained_stage_s():
    loaded = rig(1)
    smaller = of_another_size(loaded, 4096)
    assert verdict(changed(smaller, slower(0.6), subject=FIRST), loaded).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("told", "why"), [(8192, "and 8192 was planned"), (2048, "were told to do size 2048")]
)
def test_bursts_of_a_size_that_nobody_asked_for_are_not_believed(told, why):
    loaded = rig(1)
    found = verdict(changed(of_another_size(loaded, told), slower(0.5), subject=FIRST), loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert why in found.detail


def test_a_card_too_slow_for_large_products_does_smaller_ones():
    loaded = rig(1)
    slow = changed(of_another_size(loaded, 8192), slower(0.05), subject=FIRST)
    assert verdict(slow, loaded).outcome is Outcome.PASS


def test_every_third_burst_that_is_slow_fails(recording, loaded):
    places = {}

    def third(one):
        places[one.t_s] = len(places)
        return slower(0.3)(one) if places[one.t_s] % 3 == 0 else one

    found = verdict(changed(recording, third, subject=SECOND, hz=20), loaded)
    assert found.outcome is Outcome.FAIL
    assert found.detail.endswith(" in its median burst, and a fifth of them are as slow")


def test_a_single_slow_burst_is_a_hiccup(recording, loaded):
    hz = [one for one in recording.rounds if one.subject == SECOND and one.label("hz") == 20]
    alone = changed(recording, lambda one: slower(0.3)(one) if one is hz[9] else one, subject=SECOND)
    assert verdict(alone, loaded).outcome is Outcome.PASS


@pytest.mark.parametrize("hz", [5, 20])
def test_faster_waves_are_held_against_slower_ones(hz):
    loaded = rig(1)
    smaller = of_another_size(loaded, 4096)
    found = verdict(changed(smaller, slower(0.6), subject=FIRST, hz=hz), loaded)
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith(f"n1/gpu0 at {hz} Hz: ")
    assert found.detail.endswith(" at 1 Hz") or found.detail.endswith(" at 5 Hz")


def test_slower_waves_may_reach_the_power_cap_that_faster_ones_do_not():
    loaded = rig(1)
    smaller = of_another_size(loaded, 4096)
    assert verdict(changed(smaller, slower(0.7), subject=FIRST, hz=1), loaded).outcome is Outcome.PASS


def test_a_rate_that_falls_from_wave_to_wave_fails(recording, loaded):
    last = {one.subject: one.t_s for one in recording.rounds if one.stage == "transient"}[SECOND]

    def fading(one):
        return replace(one, work=one.work * (0.7 if one.t_s > last - 0.15 else 1.0))

    found = verdict(changed(recording, fading, gpus=2, hz=20), loaded)
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith("n1/gpu1 at 20 Hz: ")
    assert found.detail.endswith("in the first third of its waves")


def test_a_rate_that_falls_for_more_than_half_of_its_last_third_fails(recording, loaded):
    own = [one for one in recording.rounds.of(SECOND) if one.stage == "transient"]
    ends_s = [one.t_s for one in own if (one.label("gpus"), one.label("hz")) == (2, 20)][1:]
    assert len(ends_s) == 9
    slow_s = ends_s[-2]  # of the last three

    def fading(one):
        return replace(one, work=one.work * (0.7 if one.t_s >= slow_s else 1.0))

    assert verdict(changed(recording, fading, gpus=2, hz=20), loaded).outcome is Outcome.FAIL


def test_the_loss_that_is_nearest_to_its_own_limit_is_shown(recording, loaded):
    strict = rig(settings={"others_share": 0.5, "fall_share": 0.9})
    last = {one.subject: one.t_s for one in recording.rounds if one.stage == "transient"}[SECOND]
    changed(recording, slower(0.7), subject=FIRST, gpus=2, hz=5)  # of 0.5

    def fading(one):
        return replace(one, work=one.work * (0.95 if one.t_s > last - 0.15 else 1.0))  # of 0.9

    found = verdict(changed(recording, fading, gpus=2, hz=20), strict, loaded)
    assert found.outcome is Outcome.PASS
    assert (found.measured, found.limit) == (pytest.approx(95, abs=1), 90)


def test_a_small_loss_passes_and_is_shown(recording, loaded):
    found = verdict(changed(recording, slower(0.9), subject=FIRST, gpus=2), loaded)
    assert (found.outcome, found.measured) == (Outcome.PASS, pytest.approx(90, abs=1))


def test_a_loss_that_a_foreign_process_explains_is_not_the_host_s():
    loaded = rig()
    fault = f"stranger-computes@{FIRST}:stage=sustained"
    recording = simulated_recording(loaded, "extended", [fault])
    assert verdict(recording, loaded).outcome is Outcome.PASS


def test_a_reset_of_a_host_under_the_waves_fails_it_and_not_the_host_beside_it():
    tables = lengths("extended", settle_s=2, measure_s=2, **(ABSENT | {"sustained": 6, "transient": 20}))
    both = [{"name": NODE}, {"name": "n2", "address": "10.0.0.2"}]
    nodes = [node | {"cpus": 32, "ram_gib": 128, "gpus": [{"sku": "h200-sxm"}] * 2} for node in both]
    loaded = over_defaults({"name": "two", **tables, "nodes": nodes}, "two.toml", KINDS)
    recording = simulated_recording(loaded, "extended", [f"reset@{NODE}:stage=transient,for=4"])
    verdicts = {(one.criterion, one.subject): one for one in judge_all(recording)}
    found = verdicts["power.transient", NODE]
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith("the host restarted under the waves: n1 restarted ")
    assert verdicts["health.reset", NODE].outcome is Outcome.FAIL
    assert verdicts["power.transient", "n2"].outcome is Outcome.PASS


# Waves that were not made


def test_gpus_that_are_out_of_phase_made_no_waves(recording, loaded):
    found = verdict(changed(recording, late(0.012)), loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail == (
        "only 0 of 4 waves of 1 Hz on 2 GPUs were square and in phase within 5.0 ms: "
        f"n1/gpu1 began them {found.detail.rpartition('them ')[2]}"
    )
    assert "12." in found.detail


def test_the_phase_has_to_be_right_at_each_frequency_and_step(recording, loaded):
    found = verdict(changed(recording, late(0.006), gpus=2, hz=20), loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert "of 20 Hz on 2 GPUs" in found.detail


def test_the_phase_is_the_shorter_of_a_time_and_a_share_of_the_period(recording, loaded):
    narrow = rig(settings={"phase_share": 0.04})  # 2 ms of the 50 ms of 20 Hz
    changed(recording, late(0.003), gpus=2)
    assert verdict(recording, loaded).outcome is Outcome.PASS
    found = verdict(recording, narrow, loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert " of 20 Hz on 2 GPUs were square and in phase within 2.0 ms: " in found.detail


def test_one_wave_that_a_busy_host_spoiled_is_forgiven_at_each_frequency_and_step(recording, loaded):
    spoiled = set()

    def once(one):
        new = one.label("hz") not in spoiled
        spoiled.add(one.label("hz"))
        return late(0.012)(one) if new else one

    assert verdict(changed(recording, once, gpus=2), loaded).outcome is Outcome.PASS
    assert spoiled == {1, 5, 20}


def test_too_few_waves_are_no_measurement(recording, loaded):
    seen = []

    def every_second(one):
        seen.append(one)
        return one if len(seen) % 2 else None

    found = verdict(changed(recording, every_second, gpus=2), loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert "n1/gpu1 made 2 of its bursts" in found.detail


@pytest.mark.parametrize("factor", [0.5, 1.4])
def test_bursts_that_are_too_short_or_too_long_are_no_square_waves(recording, loaded, factor):
    def stretched(one):
        longer = {"seconds": factor * one.seconds, "work": factor * one.work}
        return replace(one, t_s=one.t_s + (factor - 1) * one.seconds, **longer)

    found = verdict(changed(recording, stretched, gpus=2), loaded)
    assert found.outcome is Outcome.NOT_MEASURED


def test_bursts_that_were_not_verified_do_not_count(recording, loaded):
    found = verdict(changed(recording, lambda one: replace(one, verified=False)), loaded)
    assert found.outcome is Outcome.NOT_MEASURED


def test_a_host_that_made_no_burst_does_not_pass(recording, loaded):
    for subject in (FIRST, SECOND):
        changed(recording, lambda one: None, subject=subject)
    assert verdict(recording, loaded).outcome is Outcome.NOT_MEASURED


def test_a_stage_that_did_not_run_or_was_aborted_is_not_measured(recording, loaded):
    stages = recording.stages
    recording.stages = stages | {"transient": replace(stages["transient"], status="interrupted")}
    assert verdict(recording, loaded).outcome is Outcome.NOT_MEASURED
    recording.stages = {name: stage for name, stage in stages.items() if name != "transient"}
    assert verdict(recording, loaded).detail == "the transient stage did not run"


def test_a_crew_that_did_not_begin_is_named_as_the_reason(loaded):
    recording = simulated_recording(loaded, "extended", [f"gpu-missing@{SECOND}"])
    found = verdict(recording, loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert "there is no process of n1/gpu1#0" in found.detail


@pytest.mark.parametrize("kind", ["agent_died", "node_lost"])
def test_what_nobody_could_see_is_not_measured(recording, loaded, kind):
    assert verdict(happened(recording, kind, NODE), loaded).outcome is Outcome.NOT_MEASURED


def test_without_the_reasons_for_a_lower_clock_a_brake_would_not_be_seen(recording, loaded):
    assert (
        verdict(sampled(recording, SECOND, clock_event_reasons=None), loaded).outcome is Outcome.NOT_MEASURED
    )


# Warnings


def test_replays_while_the_load_switches_warn_and_name_the_card(recording, loaded):
    from_s, _ = window_of(recording)
    sampled(recording, SECOND, pcie_replays=lambda one: int(10 * (one.t_s - from_s)))
    found = verdict(recording, loaded)
    assert found.outcome is Outcome.WARN
    assert found.detail.startswith("n1/gpu1 repeated ")
    assert found.detail.endswith(" PCIe packets a minute under the waves, over 30.7")


@pytest.mark.parametrize(("before", "packets", "shown"), [(500, 40, "40"), (0, 40, "40"), (500, 30, "")])
def test_only_replays_under_the_waves_count_and_they_are_those_of_one_minute(
    recording, loaded, before, packets, shown
):
    """The waves last for less than a minute, which still counts as one; 30.7 are allowed in it."""
    from_s, to_s = window_of(recording)
    half_s = (from_s + to_s) / 2
    recording.put(
        GpuSample,
        [
            replace(one, pcie_replays=before + packets * (one.t_s > half_s)) if one.subject == SECOND else one
            for one in recording.gpu_samples
        ],
    )
    found = verdict(recording, loaded)
    assert found.outcome is (Outcome.WARN if shown else Outcome.PASS)
    assert (f"repeated {shown} PCIe packets a minute" in found.detail) is bool(shown)


@pytest.mark.parametrize(("lanes", "outcome"), [(16, Outcome.PASS), (4, Outcome.WARN), (None, Outcome.PASS)])
def test_a_link_of_fewer_lanes_may_repeat_fewer_packets(recording, loaded, lanes, outcome):
    from_s, _ = window_of(recording)
    card = replace(recording.gpus[SECOND], pcie_width_max=lanes)  # None: `transfer.link` is not measured
    recording.gpus = {**recording.gpus, SECOND: card}
    sampled(recording, SECOND, pcie_replays=lambda one: int(1.5 * (one.t_s - from_s)))
    assert verdict(recording, loaded).outcome is outcome


def test_replays_are_not_judged_in_a_recording_from_before_their_limit(recording, loaded):
    from_s, _ = window_of(recording)
    sampled(recording, SECOND, pcie_replays=lambda one: int(10 * (one.t_s - from_s)))
    limits = loaded.rig.limits.model_copy(update={"pcie_bit_error_rate": None})
    before = replace(loaded, rig=loaded.rig.model_copy(update={"limits": limits}))
    assert verdict(recording, before, planned_by=loaded).outcome is Outcome.PASS


@pytest.mark.parametrize(("psu_w", "outcome"), [(1600.0, Outcome.WARN), (3000.0, Outcome.PASS)])
def test_a_draw_near_what_the_supplies_deliver_warns(psu_w, outcome):
    loaded = rig(psu_w=psu_w)
    found = verdict(simulated_recording(loaded, "extended"), loaded)
    assert found.outcome is outcome
    assert ("the supplies deliver 1600 W" in found.detail) is (outcome is Outcome.WARN)


def test_a_stated_rating_that_nothing_can_be_compared_with_is_not_measured():
    loaded = rig(psu_w=1600.0)
    recording = sampled(simulated_recording(loaded, "extended"), FIRST, power_w=None)
    assert verdict(recording, loaded).outcome is Outcome.NOT_MEASURED


# Displays


def left_out(recording, *subjects):
    begun_s = recording.stages["transient"].start_s
    for subject in subjects:
        changed(recording, lambda one: None, subject=subject)
        event = Event(begun_s, "waves_left_out", subject, "a display is active on it", "transient")
        recording.events = [*recording.events, event]
    return recording


def test_where_a_display_is_active_on_every_card_the_waves_are_not_applicable(recording, loaded):
    found = verdict(left_out(recording, FIRST, SECOND), loaded)
    assert found.outcome is Outcome.NOT_APPLICABLE
    assert found.detail == "n1/gpu0: a display is active on it; n1/gpu1: a display is active on it"


@pytest.mark.parametrize(
    ("display", "asked_for", "rank"),
    [(True, False, None), (None, False, None), (True, True, 0), (False, False, 0)],
)
def test_a_card_with_a_display_takes_part_only_if_the_profile_asks_for_it(
    simulated, display, asked_for, rank
):
    loaded = rig(settings={"with_display": asked_for})
    gpus = simulated.gpus | {FIRST: replace(simulated.gpus[FIRST], display_active=display)}
    plan = make_plan(loaded, "extended")
    made = specs(StageWork(loaded, plan, plan.stage("transient"), {}, gpus))
    first, second = made[f"{FIRST}#0"], made[f"{SECOND}#0"]
    assert bool(first.left_out) is (rank is None)
    assert (first.arms == ()) is (rank is None)
    assert second.rank == (0 if rank is None else 1)
    assert max(arm.gpus for arm in second.arms) == (1 if rank is None else 2)


def test_the_waves_of_the_other_cards_count_and_the_verdict_names_who_was_left_out(simulated):
    alone = rig(1)
    recording = copy(simulated_recording(alone, "extended"))
    both = rig(2)
    recording.run = replace(recording.run, rig=both.dump())
    recording.plan = copy(simulated.plan)
    recording.gpus = dict(simulated.gpus)
    event = Event(recording.stages["transient"].start_s, "waves_left_out", SECOND, "a display", "transient")
    recording.events = [*recording.events, event]
    found = verdict(recording, both)
    assert found.outcome is Outcome.PASS
    assert found.detail.endswith("waves of 1 to 20 Hz on 1 GPU, without n1/gpu1: a display")


# Rigs that have nobody for it


def test_a_rig_of_cpus_is_not_promised_waves_and_its_level_is_not_shorter_for_it():
    cpu = {"name": "n1", "cpus": 4, "ram_gib": 8, "gpus": [{"sku": "unknown", "device": "cpu"}]}
    loaded = over_defaults({"name": "cpu", "nodes": [cpu]}, "cpu.toml", KINDS)
    assert "transient" not in make_plan(loaded, "extended").stage_names
    run = replace(simulated_recording(rig(1), "extended").run, rig=loaded.dump(), stages=("sustained",))
    recording = replace(simulated_recording(rig(1), "extended"), run=run, stages={})
    assert "transient" not in {one.stage for one in shortfalls(recording, default_rig(KINDS))}


@pytest.mark.parametrize("reasons", [0x24, 0x44])
def test_heat_that_slows_every_card_under_the_waves_is_throttling_of_each(recording, loaded, reasons):
    for subject in (FIRST, SECOND):
        sampled(recording, subject, clock_event_reasons=reasons)
    failed = {(one.criterion, one.subject) for one in judge_all(recording) if one.outcome is Outcome.FAIL}
    assert failed == {("thermal.throttle", FIRST), ("thermal.throttle", SECOND)}


def test_cards_that_draw_by_turns_never_draw_together():
    """Of 700 W each for every other second, at most 800 W at once."""
    loaded = rig(psu_w=1200.0)
    recording = simulated_recording(loaded, "extended")
    for subject, odd in ((FIRST, 0), (SECOND, 1)):
        sampled(recording, subject, power_w=lambda one, odd=odd: 700.0 if int(one.t_s) % 2 == odd else 100.0)
        sampled(recording, subject, power_average_w=None)
    assert verdict(recording, loaded).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("frequencies", "shown"), [([5], "waves of 5 Hz on 1 GPU"), ([2, 5], "waves of 2 to 5 Hz on 1 GPU")]
)
def test_the_frequencies_of_the_waves_are_told(frequencies, shown):
    loaded = rig(1, settings={"frequencies_hz": frequencies})
    assert shown in verdict(simulated_recording(loaded, "extended"), loaded).detail


def test_two_readings_of_the_replays_are_enough(recording, loaded):
    from_s, to_s = window_of(recording)
    own = [one.t_s for one in recording.gpu_samples if one.subject == SECOND and from_s < one.t_s < to_s]
    first, last = own[len(own) // 3], own[len(own) // 2]
    recording.put(
        GpuSample,
        [
            replace(one, pcie_replays={first: 5, last: 55}.get(one.t_s)) if one.subject == SECOND else one
            for one in recording.gpu_samples
        ],
    )
    assert "n1/gpu1 repeated 50 PCIe packets a minute" in verdict(recording, loaded).detail


@pytest.mark.parametrize(("packets", "outcome"), [(61, Outcome.PASS), (63, Outcome.WARN)])
def test_replays_of_two_minutes_are_counted_by_the_minute(packets, outcome):
    """30.7 are allowed in one."""
    loaded = rig(1, length_s=160, settings={"frequencies_hz": [1]})
    recording = simulated_recording(loaded, "extended")
    window = Waves(Evidence(recording, loaded).node(NODE)).whole
    first_s, last_s = window.from_s + 1, window.from_s + 121
    assert last_s < window.to_s
    first, last = (
        min((one.t_s for one in recording.gpu_samples), key=lambda t_s, at_s=at_s: abs(t_s - at_s))
        for at_s in (first_s, last_s)
    )
    recording.put(
        GpuSample,
        [replace(one, pcie_replays={first: 0, last: packets}.get(one.t_s)) for one in recording.gpu_samples],
    )
    assert verdict(recording, loaded).outcome is outcome
