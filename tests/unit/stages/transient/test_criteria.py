"""What a host must stand: judged by what happened to it, and only if waves were really made."""

from copy import copy
from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.laps import judge_all
from rigproof.judging.length import shortfalls
from rigproof.profiles.loading.load import default_rig, over_defaults
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.kind import StageWork
from rigproof.stages.registry import KINDS
from rigproof.stages.transient.made import Waves
from rigproof.stages.transient.simulated import _bursts
from rigproof.stages.transient.stage import KIND, Arm, TransientSettings, arms_of
from support.lengths import lengths
from support.sentences import check_sentences
from support.simulated_bench import SimulatedBench

NODE, FIRST, SECOND = "n1", "n1/gpu0", "n1/gpu1"
PASS, FAIL, WARN, NOT_MEASURED = Outcome.PASS, Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED
ABSENT = {kind.name: 0 for kind in KINDS if "length_s" in kind.settings.model_fields}


def rig(gpus=2, *, level="extended", length_s=16, settings=None, **node):
    """A node of so many H200, and a level that has little but the waves."""
    stages = ABSENT | {"sustained": 6, "transient": length_s}
    tables = lengths(level, settle_s=2, measure_s=2, round_s=0.5, **stages)
    tables["stages"]["transient"] |= settings or {}
    node = {"name": NODE, "cpus": 32, "ram_gib": 128, "gpus": [{"sku": "h200-sxm"}] * gpus, **node}
    return over_defaults({"name": "waves", **tables, "nodes": [node]}, "waves.toml", KINDS)


def bench_of(loaded, *faults):
    return WavesBench(simulated_recording(loaded, "extended", faults), loaded, "transient")


class WavesBench(SimulatedBench):
    """`from_s`: when the first waves run."""

    @property
    def from_s(self):
        return self.recording.stages["transient"].start_s + 5.0

    def verdict(self, criterion="power.transient", subject=NODE):
        found = super().verdict(criterion, subject)
        check_sentences([found])
        return found

    def sampled(self, subject, **fields):
        """Other readings while the waves run."""
        self.samples(subject, self.from_s, self.recording.stages["transient"].end_s, **fields)

    def happened(self, kind, subject, message="it happened", **data):
        stage = "transient" if kind == "wrong_result" else None
        self.event(kind, subject, message, self.from_s, stage=stage, **data)

    def late(self, seconds, **where):
        self.give(SECOND, where, t_s=lambda one: one.t_s + seconds)


@pytest.fixture(scope="module")
def simulated():
    loaded = rig()
    return simulated_recording(loaded, "extended"), loaded


@pytest.fixture
def bench(simulated):
    return WavesBench(*simulated, "transient")


def test_a_sound_host_passes_and_the_verdict_says_what_it_stood(bench):
    found = bench.verdict()
    assert found.outcome is PASS
    assert (found.limit, found.measured) == (80, pytest.approx(100, abs=2))
    assert "waves of 1 to 20 Hz on up to 2 GPUs, in phase within 0." in found.detail


def test_a_gpu_may_wait_for_its_step_for_longer_than_a_worker_may_be_silent():
    loaded = rig(length_s=200)
    assert arms_of(2, loaded.settings(TransientSettings), 200.0)[3].from_s > loaded.rig.timeouts.start_s
    bench = bench_of(loaded)
    assert bench.verdict().outcome is PASS
    assert not [event for event in bench.recording.events if event.kind == "worker_hung"]


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
    bench, kind, subject, data, said
):
    bench.happened(kind, subject, **data)
    found = bench.verdict()
    assert (found.outcome, found.measured, found.detail) == (FAIL, None, said)
    assert found.from_s == pytest.approx(bench.from_s)


@pytest.mark.parametrize(
    ("kind", "subject", "data"),
    [("host_reset", NODE, {}), ("gpu_lost", SECOND, {}), ("xid", SECOND, {"xid": 79})],
)
def test_what_happened_before_the_waves_is_not_theirs(bench, kind, subject, data):
    bench.event(kind, subject, "earlier", 1.0, stage=None, **data)
    assert bench.verdict().outcome is not FAIL


def test_an_xid_that_only_warns_is_left_to_the_criterion_of_xids(bench):
    bench.happened("xid", SECOND, xid=63)
    assert bench.verdict().outcome is PASS


def test_what_the_black_box_tells_of_a_host_that_never_came_back_is_a_reset_under_the_waves(bench):
    bench.stage("transient", end_s=None, status="running")
    message = "n1 restarted 4 s into transient (gpus=2 hz=5), both cards at 100 %, last 702 + 690 W"
    bench.recording.add(Event(0.0, "host_reset", NODE, message, data={"stage": "transient"}))
    found = bench.verdict()
    assert found.outcome is FAIL
    assert "gpus=2 hz=5" in found.detail


@pytest.mark.parametrize("reasons", [0x80, 0x8, 0x84])
def test_a_power_brake_or_hardware_slowdown_fails(bench, reasons):
    bench.sampled(SECOND, clock_event_reasons=reasons)
    found = bench.verdict()
    assert found.outcome is FAIL
    assert found.detail.startswith("n1/gpu1 was slowed down under the waves: HW")


@pytest.mark.parametrize("reasons", [0x0, 0x1, 0x4, 0x20, 0x40])
def test_idle_the_power_cap_and_heat_are_no_brake(bench, reasons):
    bench.sampled(SECOND, clock_event_reasons=reasons)
    assert bench.verdict().outcome is PASS


def test_a_gpu_that_loses_its_rate_once_another_one_joins_fails_and_both_are_named(bench):
    bench.slower(FIRST, 0.7, gpus=2, hz=5)
    found = bench.verdict()
    assert (found.outcome, found.measured) == (FAIL, pytest.approx(70, abs=1))
    assert found.detail.startswith("n1/gpu0 at 5 Hz: ")
    assert found.detail.endswith("before n1/gpu1 took part")


def test_the_last_gpu_to_join_is_held_against_its_sustained_rate(bench):
    bench.slower(SECOND, 0.6)
    found = bench.verdict()
    assert found.outcome is FAIL
    assert found.detail.startswith("n1/gpu1 at ")
    assert found.detail.endswith(" in the sustained stage")


def test_bursts_faster_than_the_silicon_are_no_measurement(bench):
    bench.slower(SECOND, 3.0)
    found = bench.verdict()
    assert found.outcome is NOT_MEASURED
    assert "a measurement error, not a rate" in found.detail


def test_a_lone_gpu_is_in_phase_with_itself_and_held_against_its_sustained_rate():
    bench = bench_of(rig(1))
    found = bench.verdict()
    assert found.outcome is PASS
    assert found.detail.endswith("waves of 1 to 20 Hz on 1 GPU")
    bench.slower(FIRST, 0.6)
    found = bench.verdict()
    assert found.outcome is FAIL
    assert found.detail.endswith(" in the sustained stage")


@pytest.fixture(scope="module")
def simulated_alone():
    loaded = rig(1)
    return simulated_recording(loaded, "extended"), loaded


@pytest.fixture
def smaller(simulated_alone):
    """Makes a bench of bursts of 4096 by a worker that was told to do at most that, or more."""

    def made(told=4096):
        bench = WavesBench(*simulated_alone, "transient")
        bench.give(FIRST, size=4096)
        settings = bench.recording.stages["transient"].settings
        specs = {worker: {**spec, "size": told} for worker, spec in settings["specs"].items()}
        bench.stage("transient", settings={**settings, "specs": specs})
        return bench

    return made


def test_products_of_another_size_are_not_compared_with_the_sustained_stage_s(smaller):
    bench = smaller()
    bench.slower(FIRST, 0.6)
    assert bench.verdict().outcome is PASS


@pytest.mark.parametrize(
    ("told", "why"), [(8192, "and 8192 was planned"), (2048, "were told to do size 2048")]
)
def test_bursts_of_a_size_that_nobody_asked_for_are_not_believed(smaller, told, why):
    bench = smaller(told)
    bench.slower(FIRST, 0.5)
    found = bench.verdict()
    assert found.outcome is NOT_MEASURED
    assert why in found.detail


def test_a_card_too_slow_for_large_products_does_smaller_ones(smaller):
    bench = smaller(8192)
    bench.slower(FIRST, 0.05)
    assert bench.verdict().outcome is PASS


@pytest.mark.parametrize("hz", [5, 20])
def test_faster_waves_are_held_against_slower_ones(smaller, hz):
    bench = smaller()
    bench.slower(FIRST, 0.6, hz=hz)
    found = bench.verdict()
    assert found.outcome is FAIL
    assert found.detail.startswith(f"n1/gpu0 at {hz} Hz: ")
    assert found.detail.endswith((" at 1 Hz", " at 5 Hz"))


def test_slower_waves_may_reach_the_power_cap_that_faster_ones_do_not(smaller):
    bench = smaller()
    bench.slower(FIRST, 0.7, hz=1)
    assert bench.verdict().outcome is PASS


def test_every_third_burst_that_is_slow_fails(bench):
    places = iter(range(1000))
    bench.give(SECOND, {"hz": 20}, work=lambda one: one.work * (1.0 if next(places) % 3 else 0.3))
    found = bench.verdict()
    assert found.outcome is FAIL
    assert found.detail.endswith(" in its median burst, and a fifth of them are as slow")


def test_a_single_slow_burst_is_a_hiccup(bench):
    places = iter(range(1000))
    bench.give(SECOND, {"hz": 20}, work=lambda one: one.work * (0.3 if next(places) == 9 else 1.0))
    assert bench.verdict().outcome is PASS


def fading(bench, share, last):
    """The second GPU's last bursts of 20 Hz beside the first one do so little."""
    those = {"gpus": 2, "hz": 20}
    own = [one for one in bench.recording.rounds.of(SECOND) if those.items() <= one.labels.items()]
    assert len(own) == 10
    slow = {one.t_s for one in own[-last:]}
    bench.give(SECOND, those, work=lambda one: one.work * (share if one.t_s in slow else 1.0))


@pytest.mark.parametrize("last", [3, 2])
def test_a_rate_that_falls_for_more_than_half_of_its_last_third_fails(bench, last):
    fading(bench, 0.7, last)
    found = bench.verdict()
    assert found.outcome is FAIL
    assert found.detail.startswith("n1/gpu1 at 20 Hz: ")
    assert found.detail.endswith("in the first third of its waves")


def test_the_loss_that_is_nearest_to_its_own_limit_is_shown(bench):
    bench.settings("transient", others_share=0.5, fall_share=0.9)
    bench.slower(FIRST, 0.7, gpus=2, hz=5)  # of 0.5
    fading(bench, 0.95, 3)  # of 0.9
    found = bench.verdict()
    assert found.outcome is PASS
    assert (found.measured, found.limit) == (pytest.approx(95, abs=1), 90)


def test_a_loss_that_a_foreign_process_explains_is_not_the_host_s():
    assert bench_of(rig(), f"stranger-computes@{FIRST}:stage=sustained").verdict().outcome is PASS


def test_a_reset_of_a_host_under_the_waves_fails_it_and_not_the_host_beside_it():
    tables = lengths("extended", settle_s=2, measure_s=2, **(ABSENT | {"sustained": 6, "transient": 20}))
    both = [{"name": NODE}, {"name": "n2", "address": "10.0.0.2"}]
    nodes = [node | {"cpus": 32, "ram_gib": 128, "gpus": [{"sku": "h200-sxm"}] * 2} for node in both]
    loaded = over_defaults({"name": "two", **tables, "nodes": nodes}, "two.toml", KINDS)
    recording = simulated_recording(loaded, "extended", [f"reset@{NODE}:stage=transient,for=4"])
    verdicts = {(one.criterion, one.subject): one for one in judge_all(recording)}
    found = verdicts["power.transient", NODE]
    assert found.outcome is FAIL
    assert found.detail.startswith("the host restarted under the waves: n1 restarted ")
    assert verdicts["health.reset", NODE].outcome is FAIL
    assert verdicts["power.transient", "n2"].outcome is PASS


# Waves that were not made


def test_gpus_that_are_out_of_phase_made_no_waves(bench):
    bench.late(0.012)
    found = bench.verdict()
    assert found.outcome is NOT_MEASURED
    assert found.detail.startswith(
        "only 0 of 4 waves of 1 Hz on 2 GPUs were square and in phase within 5.0 ms: n1/gpu1 began them 12."
    )


def test_the_phase_is_the_shorter_of_a_time_and_a_share_of_the_period(bench):
    bench.late(0.003, gpus=2)
    assert bench.verdict().outcome is PASS
    bench.settings("transient", phase_share=0.04)  # 2 ms of the 50 ms of 20 Hz
    found = bench.verdict()
    assert found.outcome is NOT_MEASURED
    assert " of 20 Hz on 2 GPUs were square and in phase within 2.0 ms: " in found.detail


def test_one_wave_that_a_busy_host_spoiled_is_forgiven_at_each_frequency_and_step(bench):
    for hz in (1, 5, 20):
        delays = iter([0.012, *[0.0] * 1000])
        bench.give(SECOND, {"gpus": 2, "hz": hz}, t_s=lambda one, delays=delays: one.t_s + next(delays))
    assert bench.verdict().outcome is PASS


def test_too_few_waves_are_no_measurement(bench):
    places = iter(range(1000))
    bench.change(lambda one: None if next(places) % 2 else one, SECOND, gpus=2)
    found = bench.verdict()
    assert found.outcome is NOT_MEASURED
    assert "n1/gpu1 made 2 of its bursts" in found.detail


@pytest.mark.parametrize("factor", [0.5, 1.4])
def test_bursts_that_are_too_short_or_too_long_are_no_square_waves(bench, factor):
    bench.give(
        SECOND,
        {"gpus": 2},
        t_s=lambda one: one.t_s + (factor - 1) * one.seconds,
        seconds=lambda one: factor * one.seconds,
        work=lambda one: factor * one.work,
    )
    assert bench.verdict().outcome is NOT_MEASURED


def test_bursts_that_were_not_verified_do_not_count(bench):
    bench.give(SECOND, verified=False)
    assert bench.verdict().outcome is NOT_MEASURED


def test_a_host_that_made_no_burst_does_not_pass(bench):
    for subject in (FIRST, SECOND):
        bench.without(subject)
    assert bench.verdict().outcome is NOT_MEASURED


def test_a_stage_that_did_not_run_or_was_aborted_is_not_measured(bench):
    bench.stage("transient", status="interrupted")
    assert bench.verdict().outcome is NOT_MEASURED
    del bench.recording.stages["transient"]
    assert bench.verdict().detail == "the transient stage did not run"


def test_a_crew_that_did_not_begin_is_named_as_the_reason():
    found = bench_of(rig(), f"gpu-missing@{SECOND}").verdict()
    assert found.outcome is NOT_MEASURED
    assert "there is no process of n1/gpu1#0" in found.detail


@pytest.mark.parametrize("kind", ["agent_died", "node_lost"])
def test_what_nobody_could_see_is_not_measured(bench, kind):
    bench.happened(kind, NODE)
    assert bench.verdict().outcome is NOT_MEASURED


def test_without_the_reasons_for_a_lower_clock_a_brake_would_not_be_seen(bench):
    bench.sampled(SECOND, clock_event_reasons=None)
    assert bench.verdict().outcome is NOT_MEASURED


# Warnings


def replayed(bench, a_second):
    """Packets that are repeated each second from the beginning of the waves on."""
    bench.sampled(SECOND, pcie_replays=lambda one: int(a_second * (one.t_s - bench.from_s)))


def test_replays_while_the_load_switches_warn_and_name_the_card(bench):
    replayed(bench, 10)
    found = bench.verdict()
    assert found.outcome is WARN
    assert found.detail.startswith("n1/gpu1 repeated ")
    assert found.detail.endswith(" PCIe packets a minute under the waves, over 30.7")
    bench.limits(pcie_bit_error_rate=None)  # as in a recording from before that limit
    assert bench.verdict().outcome is PASS


@pytest.mark.parametrize(("before", "packets", "shown"), [(500, 40, "40"), (0, 40, "40"), (500, 30, "")])
def test_only_replays_under_the_waves_count_and_they_are_those_of_one_minute(bench, before, packets, shown):
    """The waves last for less than a minute, which still counts as one; 30.7 are allowed in it."""
    half_s = (bench.from_s + bench.recording.stages["transient"].end_s) / 2
    bench.samples(SECOND, pcie_replays=lambda one: before + packets * (one.t_s > half_s))
    found = bench.verdict()
    assert found.outcome is (WARN if shown else PASS)
    assert (f"repeated {shown} PCIe packets a minute" in found.detail) is bool(shown)


@pytest.mark.parametrize(("lanes", "outcome"), [(16, PASS), (4, WARN), (None, PASS)])
def test_a_link_of_fewer_lanes_may_repeat_fewer_packets(bench, lanes, outcome):
    bench.gpu(SECOND, pcie_width_max=lanes)  # None: `transfer.link` is not measured
    replayed(bench, 1.5)
    assert bench.verdict().outcome is outcome


def test_two_readings_of_the_replays_are_enough(bench):
    from_s, to_s = bench.from_s, bench.recording.stages["transient"].end_s
    own = [one.t_s for one in bench.recording.gpu_samples.of(SECOND) if from_s < one.t_s < to_s]
    read = {own[len(own) // 3]: 5, own[len(own) // 2]: 55}
    bench.samples(SECOND, pcie_replays=lambda one: read.get(one.t_s))
    assert "n1/gpu1 repeated 50 PCIe packets a minute" in bench.verdict().detail


@pytest.mark.parametrize(("packets", "outcome"), [(61, PASS), (63, WARN)])
def test_replays_of_two_minutes_are_counted_by_the_minute(packets, outcome):
    """30.7 are allowed in one."""
    bench = bench_of(rig(1, length_s=160, settings={"frequencies_hz": [1]}))
    window = Waves(Evidence(bench.recording, bench.loaded).node(NODE)).whole
    assert window.length_s > 122
    first_s, last_s = (
        min((one.t_s for one in bench.recording.gpu_samples), key=lambda t_s, at_s=at_s: abs(t_s - at_s))
        for at_s in (window.from_s + 1, window.from_s + 121)
    )
    bench.samples(FIRST, pcie_replays=lambda one: {first_s: 0, last_s: packets}.get(one.t_s))
    assert bench.verdict().outcome is outcome


@pytest.mark.parametrize(("psu_w", "outcome"), [(1600.0, WARN), (3000.0, PASS)])
def test_a_draw_near_what_the_supplies_deliver_warns(psu_w, outcome):
    bench = bench_of(rig(psu_w=psu_w))
    found = bench.verdict()
    assert found.outcome is outcome
    assert ("the supplies deliver 1600 W" in found.detail) is (outcome is WARN)
    bench.sampled(FIRST, power_w=None)  # nothing to compare it with
    assert bench.verdict().outcome is NOT_MEASURED


def test_cards_that_draw_by_turns_never_draw_together():
    """Of 700 W each for every other second, at most 800 W at once."""
    bench = bench_of(rig(psu_w=1200.0))
    for subject, odd in ((FIRST, 0), (SECOND, 1)):
        drawn = lambda one, odd=odd: 700.0 if int(one.t_s) % 2 == odd else 100.0  # noqa: E731
        bench.sampled(subject, power_w=drawn, power_average_w=None)
    assert bench.verdict().outcome is PASS


# Displays


def test_where_a_display_is_active_on_every_card_the_waves_are_not_applicable(bench):
    for subject in (FIRST, SECOND):
        bench.without(subject)
        bench.event("waves_left_out", subject, "a display is active on it", bench.from_s, stage="transient")
    found = bench.verdict()
    assert found.outcome is Outcome.NOT_APPLICABLE
    assert found.detail == "n1/gpu0: a display is active on it; n1/gpu1: a display is active on it"


@pytest.mark.parametrize(
    ("display", "asked_for", "rank"),
    [(True, False, None), (None, False, None), (True, True, 0), (False, False, 0)],
)
def test_a_card_with_a_display_takes_part_only_if_the_profile_asks_for_it(bench, display, asked_for, rank):
    loaded = rig(settings={"with_display": asked_for})
    bench.gpu(FIRST, display_active=display)
    plan = make_plan(loaded, "extended")
    made = KIND.specs(StageWork(loaded, plan, plan.stage("transient"), {}, bench.recording.gpus))
    first, second = made[f"{FIRST}#0"], made[f"{SECOND}#0"]
    assert bool(first.left_out) is (rank is None)
    assert (first.arms == ()) is (rank is None)
    assert second.rank == (0 if rank is None else 1)
    assert max(arm.gpus for arm in second.arms) == (1 if rank is None else 2)


def test_the_waves_of_the_other_cards_count_and_the_verdict_names_who_was_left_out(
    simulated, simulated_alone
):
    """What one card did, on a rig of two."""
    (both, loaded), (alone, _) = simulated, simulated_alone
    bench = WavesBench(alone, loaded, "transient")
    bench.recording.run = replace(alone.run, rig=loaded.dump())
    bench.recording.plan, bench.recording.gpus = copy(both.plan), dict(both.gpus)
    bench.event("waves_left_out", SECOND, "a display", bench.from_s, stage="transient")
    found = bench.verdict()
    assert found.outcome is PASS
    assert found.detail.endswith("waves of 1 to 20 Hz on 1 GPU, without n1/gpu1: a display")


# Rigs that have nobody for it, heat, frequencies


def test_a_rig_of_cpus_is_not_promised_waves_and_its_level_is_not_shorter_for_it(simulated_alone):
    recording, _ = simulated_alone
    cpu = {"name": "n1", "cpus": 4, "ram_gib": 8, "gpus": [{"sku": "unknown", "device": "cpu"}]}
    loaded = over_defaults({"name": "cpu", "nodes": [cpu]}, "cpu.toml", KINDS)
    assert "transient" not in make_plan(loaded, "extended").stage_names
    run = replace(recording.run, rig=loaded.dump(), stages=("sustained",))
    short = shortfalls(replace(recording, run=run, stages={}), default_rig(KINDS))
    assert "transient" not in {one.stage for one in short}


@pytest.mark.parametrize("reasons", [0x24, 0x44])
def test_heat_that_slows_every_card_under_the_waves_is_throttling_of_each(bench, reasons):
    for subject in (FIRST, SECOND):
        bench.sampled(subject, clock_event_reasons=reasons)
    failed = {(one.criterion, one.subject) for one in judge_all(bench.recording) if one.outcome is FAIL}
    assert failed == {("thermal.throttle", FIRST), ("thermal.throttle", SECOND)}


@pytest.mark.parametrize(
    ("frequencies", "shown"), [([5], "waves of 5 Hz on 1 GPU"), ([2, 5], "waves of 2 to 5 Hz on 1 GPU")]
)
def test_the_frequencies_of_the_waves_are_told(frequencies, shown):
    assert shown in bench_of(rig(1, settings={"frequencies_hz": frequencies})).verdict().detail
