"""A soak goes round its stages: each lap is judged by itself, and the rig by its worst one."""

import math
import re
import tomllib
from dataclasses import replace
from functools import cache

import pytest

from rigproof.history.rounds import figure_rounds
from rigproof.judging.laps import judge_all, laps_of
from rigproof.judging.length import shortfalls
from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.disk.store import read_recording, write_recording
from rigproof.records.measurements import Event
from rigproof.records.processes import GpuProcess
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, decide
from rigproof.report.content.matrix import matrix_of
from rigproof.report.terminal.terminal import summary_lines
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from support.fault_matrix import PROFILE
from support.lengths import lengths
from support.results import result_with

FAIL, WARN, NOT_MEASURED = Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED
SUSTAINED, PEER = "throughput.sustained", "throughput.peer_outlier"
OTHERS = (
    "training",
    "feeding",
    "sharing",
    "replay",
    "transient",
    "ram",
    "disk",
    "bandwidth",
    "ddp",
    "collective",
    "peer",
)


def rig(name, gpus):
    made = lengths("soak", settle_s=2, measure_s=2, sustained=30, pattern=5, round_s=0.5)
    made["stages"] |= {other: {"length_s": {"soak": 0}} for other in OTHERS}
    made["stages"]["pattern"]["fade_s"] = {"soak": 1}
    made["levels"]["soak_s"] = 165
    node = {"name": "n1", "cpus": 64, "gpus": [{"sku": "h200-sxm"}] * gpus}
    return over_defaults({"name": name, "sampling": {"rate_hz": 4}, **made, "nodes": [node]}, name, KINDS)


def rig_with_every_stage():
    """The rig of the fault matrix, at level soak."""
    text = PROFILE.read_text(encoding="utf-8").replace(".extended", ".soak")
    tables = tomllib.loads(text.replace("[levels]", "[levels]\nsoak_s = 740"))
    return over_defaults(tables, tables["name"], KINDS)


FOUR, ALONE = rig("four", 4), rig("alone", 1)
RIGS = {"four": FOUR, "alone": ALONE, "every stage": rig_with_every_stage()}
SLOW, CARD = "n1/gpu1", "n1/gpu0"


@cache
def recorded(*faults: str, of="four") -> Recording:
    return simulated_recording(RIGS[of], "soak", faults)


def bad(recording, subject=None):
    """What is not good, with its detail."""
    return {
        one.criterion: (one.outcome, one.detail)
        for one in judge_all(recording)
        if one.outcome in (FAIL, WARN, NOT_MEASURED) and subject in (None, one.subject)
    }


def test_every_lap_runs_all_stages_in_their_order_and_a_sound_rig_is_sound():
    recording = recorded()
    names = make_plan(FOUR, "soak").stage_names
    assert [(one.lap, one.name) for one in sorted(recording.attempts, key=lambda one: one.start_s)] == [
        (lap, name) for lap in (1, 2, 3) for name in names
    ]
    assert bad(recording) == {}, [(one.t_s, one.subject, one.message) for one in recording.events]
    assert decide(judge_all(recording)).value == "ACCEPTED"


def test_nothing_that_was_recorded_is_left_out_of_the_laps():
    recording = recorded()
    laps = laps_of(recording, FOUR)
    assert len(laps) == 3
    for rows in ("rounds", "gpu_samples", "host_samples", "memory"):
        assert sum(len(getattr(lap, rows)) for lap in laps) == len(getattr(recording, rows)) > 0
    assert [one for lap in laps for one in lap.attempts] == sorted(
        recording.attempts, key=lambda one: one.start_s
    )
    assert {id(one) for lap in laps for one in lap.events} == {id(one) for one in recording.events}


@pytest.mark.parametrize(
    ("fault", "criterion"),
    [
        ("overheat", "thermal.core_temperature"),
        ("thermal-throttle", "thermal.throttle"),
        ("straggler:by=15%", PEER),
        ("xid", "health.xid"),
    ],
)
def test_what_happened_in_one_lap_alone_rejects_the_rig_and_names_the_lap(fault, criterion):
    name, _, values = fault.partition(":")
    parts = ["for=100%", *([values] if values else [])] if name != "xid" else []
    found = bad(recorded(f"{name}@{SLOW}{':' if parts else ''}{','.join(parts)}"), SLOW)
    assert found[criterion][0] is FAIL
    hot = ("in laps 1 and 2 of 3",) if name == "overheat" else ()  # it may be too hot as the next lap begins
    assert found[criterion][1].startswith(("in lap 1 of 3", *hot))


def test_a_rate_that_misses_its_limit_by_little_in_one_lap_warns_and_in_more_fails():
    assert bad(recorded(f"straggler@{SLOW}:by=7%,for=100%"))[PEER][0] is WARN
    assert bad(recorded(f"straggler@{SLOW}:by=7%"))[PEER][0] is FAIL


# Each stage of its own in one lap alone; faults of one card or host do not reach another.
OF_STAGES = {
    (2, "n1/gpu0"): {
        "vram-soft-error": "memory.pattern",
        "tensor-cores-unused": "precision.speedup",
        "rewards-slow": "feeding.parallel_rewards",
        "sharing-collapse": "scaling.sharing",
        "vram-slow": "memory.bandwidth",
        "pcie-slow": "transfer.h2d",
        "loss-stuck": "training.loss",
    },
    (3, "n1/gpu1"): {
        "wrong-gradient": "training.replay",
        "temperature-out-of-range": "thermal.core_temperature",
        "bit-flip:stage=sharing": "compute.exact",
    },
    (3, "n1/gpu0"): {"gpu-half-used": "feeding.idle_gaps"},
    (2, "n2/gpu0"): {"gpu-starved": "feeding.idle_gaps", "pcie-corrupt": "transfer.d2h"},
    (3, "n2/gpu0"): {"rewards-differ": "feeding.parallel_rewards", "xid:stage=transfer": "health.xid"},
    (2, "n1"): {"ram-slow": "host.memory", "disk-full": "host.disk"},
    (3, "n1"): {"out-of-phase": "power.transient"},
    (2, "n2"): {"psu-sag": "power.transient"},
    (3, "n2"): {"ram-bit": "host.memory", "disk-corrupts": "host.disk"},
}


def test_a_fault_of_any_stage_that_acts_in_one_lap_alone_is_found_there():
    def written(lap, subject, text):
        name, _, keys = text.partition(":")
        where = "n1/gpu0" if name == "out-of-phase" else subject
        return f"{name}@{where}:{','.join([*filter(None, [keys]), f'lap={lap}'])}"

    faults = [written(*place, text) for place, each in OF_STAGES.items() for text in each]
    recording = recorded(*faults, of="every stage")
    expected = {
        (subject, criterion): (lap, NOT_MEASURED if name in ("disk-full", "out-of-phase") else FAIL)
        for (lap, subject), each in OF_STAGES.items()
        for name, criterion in each.items()
    }
    found = {(one.subject, one.criterion): one for one in judge_all(recording)}
    for key, (lap, outcome) in expected.items():
        assert (key, found[key].outcome) == (key, outcome)
        assert found[key].detail.startswith(f"in lap {lap} of 3"), found[key]


def test_a_card_that_is_lost_in_one_lap_leaves_its_neighbour_as_it_is():
    """What was compared in an earlier lap is not missed in a stage that no card of the host can begin."""
    recording = recorded("gpu-lost@n1/gpu0:lap=2", of="every stage")
    assert bad(recording, CARD)["inventory.gpus_present"][0] is FAIL
    assert bad(recording, "n1/gpu1") == {}


def test_a_host_that_restarted_in_one_lap_is_told_of_that_lap_and_at_that_moment():
    """What is read before and after the run is of no lap; the black box and the loss are of theirs."""
    found = {
        (one.subject, one.criterion): one
        for one in judge_all(recorded("reset@n1:lap=2", of="every stage"))
        if one.outcome in (FAIL, NOT_MEASURED)
    }
    reset, gone = found["n1", "health.reset"], found["n1", "cluster.nodes_present"]
    assert reset.detail.startswith("in lap 2 of 3; n1 restarted ")
    assert " into sustained, both cards at " in reset.detail
    assert reset.from_s == pytest.approx(gone.from_s, abs=3)
    assert gone.detail.startswith("in lap 2 of 3; ")
    assert {one.follows for (subject, _), one in found.items() if subject.startswith("n1/")} == {True}
    assert not any("lap 1" in one.detail or "laps 1" in one.detail for one in found.values())


def test_a_lap_in_which_a_worker_reported_no_reference_is_not_measured():
    recording = recorded(of="alone")
    kept = [
        one
        for one in recording.events
        if one.kind != "reference" or one.stage != "sustained" or not one.t_s > since(recording, 3)
    ]
    found = bad(replace(recording, events=kept), CARD)["compute.exact"]
    worker = f"{CARD}#0"
    assert found == (NOT_MEASURED, f"in lap 3 of 3; {worker} recorded no reference in the sustained stage")


# No rule of a single lap sees 7 %: not its own floor, and it has no twin.
@pytest.mark.parametrize(
    ("keys", "outcome"),
    [("lap=1", None), ("lap=2", FAIL), ("lap=3", WARN), ("lap=2,stage=sustained", WARN)],
)
def test_a_lone_card_that_is_a_little_slower_from_one_lap_on_fails_by_its_best_lap(keys, outcome):
    found = bad(recorded(f"throughput-sag:after=0,by=7%,{keys}", of="alone"))
    assert {name: one for name, (one, _) in found.items()} == ({SUSTAINED: outcome} if outcome else {})
    if outcome:
        laps = "laps 2 and 3" if outcome is FAIL else f"lap {keys[4]}"
        assert found[SUSTAINED][1] == f"in {laps} of 3; 653 TFLOP/s in the best lap"


def slower_in_the_last_lap(recording, share):
    """The card's 16-bit products do this share of their work in the last lap; no floor notices."""
    since_s = min(one.start_s for one in recording.attempts if one.lap == 3)
    changed = replace(recording, tables=dict(recording.tables))
    changed.rounds = [
        replace(one, work=one.work * share) if (one.stage, one.t_s > since_s) == ("sustained", True) else one
        for one in recording.rounds
    ]
    return changed


@pytest.mark.parametrize(("share", "outcome"), [(0.97, None), (0.94, WARN), (0.90, FAIL)])
def test_a_lone_card_that_slows_down_over_the_night_is_held_against_its_best_lap(share, outcome):
    """95 % must be left. Once by little is a warning, as for every rate."""
    found = bad(slower_in_the_last_lap(recorded(of="alone"), share), CARD)
    assert found.get(SUSTAINED, (None,))[0] is outcome
    if outcome is FAIL:
        assert found[SUSTAINED][1] == "in lap 3 of 3; 653 TFLOP/s in the best lap"


def test_a_stranger_of_one_lap_explains_that_lap():
    recording = slower_in_the_last_lap(recorded(of="alone"), 0.90)
    (begun,) = [one for one in recording.attempts if (one.name, one.lap) == ("sustained", 3)]
    recording.processes = [
        *recording.processes,
        *(
            GpuProcess(begun.start_s + second, CARD, 71, name="python3", used_mib=600.0, sm_percent=40.0)
            for second in (0, 40)
        ),
    ]
    found = bad(recording, CARD)
    assert found[SUSTAINED][0] is NOT_MEASURED
    assert "pid 71" in found[SUSTAINED][1]


def test_a_soak_that_ended_after_two_of_three_laps_is_not_measured():
    recording = recorded()
    since_s = min(one.start_s for one in recording.attempts if one.lap == 3)
    cut = replace(
        laps_of(recording, FOUR)[1],
        earlier_laps=[one for one in recording.attempts if one.lap == 1],
        tables={name: rows.between(-math.inf, since_s) for name, rows in recording.tables.items()},
    )
    found = bad(cut, CARD)
    assert found[SUSTAINED] == (NOT_MEASURED, "good in laps 1 to 2 of 3; lap 3 was not run")
    assert decide(judge_all(cut)).value == "INCOMPLETE"


def test_a_soak_that_ended_in_its_first_lap_names_the_laps_that_it_was_to_have():
    recording = recorded()
    cut = laps_of(recording, FOUR)[0]
    assert bad(cut, CARD)[SUSTAINED] == (NOT_MEASURED, "good in lap 1 of 3; laps 2 to 3 were not run")


def test_a_soak_that_ended_before_its_first_stage_is_not_measured():
    cut = replace(recorded(), stages={}, earlier_attempts={}, earlier_laps=[])
    assert bad(cut, CARD)[SUSTAINED] == (NOT_MEASURED, "the sustained stage did not run")
    assert decide(judge_all(cut)).value == "INCOMPLETE"


def stopped(recording, lap, name, *, told=True):
    """The run, stopped in the middle of this stage: from outside if `told`, else it was killed."""
    (within,) = [one for one in recording.attempts if (one.lap, one.name) == (lap, name)]
    at_s = (within.start_s + within.end_s) / 2
    cut = replace(
        recording,
        stages={},
        earlier_attempts={},
        earlier_laps=[],
        events=[one for one in recording.events if one.t_s <= at_s],
        tables={name: rows.between(-math.inf, at_s) for name, rows in recording.tables.items()},
    )
    cut.extend(
        one if one.end_s <= at_s else replace(one, end_s=None, status="interrupted" if told else "running")
        for one in sorted(recording.attempts, key=lambda one: one.start_s)
        if one.start_s < at_s
    )
    return with_events(cut, Event(at_s, "interrupted", "rig", "stopped by SIGINT")) if told else cut


@pytest.mark.parametrize("told", [True, False])
def test_a_soak_that_is_stopped_has_the_figures_of_its_complete_laps_and_one_sentence(told):
    verdicts = judge_all(stopped(recorded(of="every stage"), 2, "pattern", told=told))
    assert decide(verdicts).value == "INCOMPLETE"
    found = {one.criterion: one for one in verdicts if one.subject == CARD}
    rate, margin = found[SUSTAINED], found["thermal.margin"]
    assert (rate.outcome, margin.outcome) == (NOT_MEASURED, NOT_MEASURED)
    assert (rate.measured, rate.limit) == (pytest.approx(652, abs=2), pytest.approx(568, abs=1))
    where = "lap 2 was interrupted in pattern; lap 3 was not run"
    assert {one.detail for one in verdicts if one.outcome is NOT_MEASURED} == {f"good in lap 1 of 3; {where}"}
    lines = summary_lines(result_with(decide(verdicts), verdicts, interrupted=told), None)
    number = sum(one.outcome is NOT_MEASURED for one in verdicts)
    assert lines[0] == f"{number} criteria: good in lap 1 of 3 (sustained 652 TFLOP/s); {where}"
    assert lines[1].startswith("what a criterion measures")
    assert not told or "the run was interrupted; nothing failed in lap 1 of 3; " in lines[-1]
    matrix = matrix_of(verdicts, ["n1/gpu0", "n1/gpu1", "n2/gpu0"])
    assert [row.criterion for row in matrix.rows if row.criterion in (SUSTAINED, "memory.pattern")] == [
        SUSTAINED
    ]
    assert next(row for row in matrix.rows if row.criterion == SUSTAINED).cells[0].text == "652?"
    assert "? not measured to the end" in matrix.legend(matrix.rows)
    assert any("more were good until the run ended" in note for note in matrix.notes)


@pytest.mark.parametrize(
    ("lap", "name", "detail"),
    [
        (1, "sustained", "lap 1 of 3 was interrupted in sustained; laps 2 to 3 were not run"),
        (1, "transfer", "lap 1 of 3 was interrupted in transfer; laps 2 to 3 were not run"),
        (3, "sustained", "good in laps 1 to 2 of 3; lap 3 was interrupted in sustained"),
    ],
)
def test_a_soak_that_is_stopped_in_its_first_or_last_lap_says_so(lap, name, detail):
    verdicts = judge_all(stopped(recorded(of="alone"), lap, name))
    assert decide(verdicts).value == "INCOMPLETE"
    assert {one.detail for one in verdicts if one.outcome is NOT_MEASURED} == {detail}
    lines = summary_lines(result_with(decide(verdicts), verdicts, interrupted=True), None)
    assert re.sub(r" \(sustained \d+ TFLOP/s\)", "", lines[0]).endswith(f": {detail}")
    assert lines[1].startswith("what a criterion measures")


def test_a_failure_in_a_complete_lap_rejects_a_soak_that_is_stopped_later():
    found = judge_all(stopped(recorded(f"overheat@{CARD}:for=100%,lap=1", of="every stage"), 2, "pattern"))
    (hot,) = [one for one in found if one.outcome is FAIL and one.criterion == "thermal.core_temperature"]
    assert (hot.subject, decide(found).value) == (CARD, "REJECTED")
    margin = next(one for one in found if (one.criterion, one.subject) == ("thermal.margin", CARD))
    assert (margin.outcome, margin.detail.endswith("lap 3 was not run")) == (NOT_MEASURED, True)
    assert margin.detail.startswith("hotter than its maker allows in use")


def test_what_does_not_apply_in_the_complete_laps_does_not_apply_for_a_lap_that_was_not_run():
    whole, cut = recorded(of="every stage"), stopped(recorded(of="every stage"), 2, "pattern")
    left = judge_all(cut)
    assert [
        one for one in judge_all(whole) if one.outcome is Outcome.NOT_APPLICABLE and one not in left
    ] == []


def since(recording, lap):
    return min(one.start_s for one in recording.attempts if one.lap == lap)


def with_events(recording, *events):
    return replace(recording, events=[*recording.events, *events])


@pytest.mark.parametrize(("lap", "lost_s", "seen_s"), [(2, 40, 41), (3, 40, 41), (2, -1, 1), (1, 40, 41)])
def test_what_the_oom_killer_ended_in_any_lap_is_not_the_rigs_fault(lap, lost_s, seen_s):
    """How many it ended before is read at the run's beginning alone."""
    recording, begin_s = recorded(), since(recorded(), lap)
    died = Event(begin_s + lost_s, "worker_died", SLOW, "it was killed", "sustained", f"{SLOW}#0")

    def counted(t_s, killed):
        return Event(t_s, "oom_kills", "n1", "so many", data={"killed": killed})

    assert bad(with_events(recording, died))["cluster.no_timeouts"][0] is FAIL
    counts = [counted(1.0, 7), counted(begin_s + seen_s, 8)]
    assert bad(with_events(recording, died, *counts))["cluster.no_timeouts"][0] is NOT_MEASURED
    other = replace(died, subject=CARD, worker=f"{CARD}#0")  # one was killed, two were lost
    assert bad(with_events(recording, died, other, *counts))["cluster.no_timeouts"][0] is FAIL


def test_an_agent_that_was_kept_from_the_cpu_in_the_first_lap_is_not_a_fault_in_the_next():
    recording, to_s = recorded(), since(recorded(), 1) + 40
    lost = Event(to_s, "agent_died", "n1", "it did not answer", data={"limit_s": 20.0})
    starved = with_events(recording, lost)
    starved.tables = dict(recording.tables)
    starved.host_samples = [
        replace(one, cpu_percent=100.0, own_percent=0.1) if to_s - 20 < one.t_s <= to_s + 1 else one
        for place, one in enumerate(recording.host_samples)
        if not to_s - 20 < one.t_s <= to_s or place % 4 == 0
    ]
    found = bad(starved)
    assert {name for name, (outcome, _) in found.items() if outcome is FAIL} == set()
    assert "meanwhile others left" in found["cluster.no_timeouts"][1]
    assert bad(with_events(recording, lost))["cluster.no_timeouts"][0] is FAIL


def test_a_clock_that_is_a_little_ahead_does_not_place_work_in_the_next_lap():
    """As far as in a run of one lap: up to a second."""
    ahead_s = 0.9
    moved = replace(recorded(of="alone"), tables=dict(recorded(of="alone").tables))
    for rows in ("rounds", "gpu_samples", "host_samples", "memory"):
        setattr(moved, rows, [replace(one, t_s=one.t_s + ahead_s) for one in getattr(moved, rows)])
    assert bad(moved) == {}
    assert sum(len(lap.rounds) for lap in laps_of(moved, ALONE)) == len(moved.rounds)


@pytest.mark.parametrize("lap", [1, 3])
def test_a_worker_that_was_replaced_in_one_lap_is_known_in_all_of_them(lap):
    recording = recorded()
    begun_s = since(recording, lap) + 20
    new = replace(recording.workers[0], t_s=begun_s, generation=1, pid=71)
    told = Event(begun_s, "worker_replaced", new.subject, "a new process took over", worker=new.worker)
    replaced = replace(with_events(recording, told), workers=[*recording.workers, new])
    assert "distribution.workers_spread" not in bad(replaced)


@pytest.mark.parametrize("laps", [(1, 3, 2), (2, 3, 4), (1, 1, 2), (0, 1, 2)])
def test_laps_that_contradict_each_other_are_never_a_pass(laps):
    recording = recorded(of="alone")
    changed = [replace(one, lap=laps[one.lap - 1]) for one in recording.attempts]
    edited = replace(recording, stages={}, earlier_attempts={}, earlier_laps=[])
    edited.extend(changed)
    assert decide(judge_all(edited)).value == "INCOMPLETE"


@pytest.mark.parametrize("field", ["start_s", "end_s"])
@pytest.mark.parametrize(
    ("lap", "moment_s"), [(1, math.nan), (1, -50.0), (1, 1e6), (2, math.inf), (2, -math.inf), (2, 1e6)]
)
def test_times_of_a_stage_that_cannot_be_are_no_measurement_and_no_fault(field, moment_s, lap):
    recording = recorded(of="alone")
    edited = replace(recording, stages={}, earlier_attempts={}, earlier_laps=[])
    edited.extend(
        replace(one, **{field: moment_s}) if (one.name, one.lap) == ("sustained", lap) else one
        for one in recording.attempts
    )
    assert decide(judge_all(edited)).value == "INCOMPLETE"
    outcome, detail = bad(edited, CARD)[SUSTAINED]
    assert outcome is NOT_MEASURED
    assert detail.startswith("the sustained stage is said to have run from t=") or moment_s == 1e6


@pytest.mark.parametrize("laps", [0, 2, 4, 10**9, "3", None, [3]])
def test_a_plan_of_other_laps_than_were_run_is_never_a_pass(laps):
    recording = recorded(of="alone")
    plan = replace(recording.plan, plan=recording.plan.plan | {"laps": laps})
    assert decide(judge_all(replace(recording, plan=plan))).value == "INCOMPLETE"


def test_a_lap_without_any_work_is_the_last_one():
    recording = recorded("node-lost@n1:stage=gemm")
    assert max(one.lap for one in recording.attempts) < 3
    assert bad(recording)["cluster.nodes_present"][0] is FAIL


def test_laps_are_judged_the_same_from_files(tmp_path):
    recording = recorded(f"straggler@{SLOW}:by=7%,for=100%")
    write_recording(tmp_path, recording)
    read = read_recording(tmp_path)
    assert [(one.name, one.lap, one.start_s) for one in read.attempts] == [
        (one.name, one.lap, one.start_s) for one in recording.attempts
    ]
    assert judge_all(read) == judge_all(recording)


def test_the_history_has_the_rounds_of_all_laps():
    recording = recorded()
    rounds = figure_rounds(recording, KINDS.figures["sustained_tflops"], SLOW)
    begins_s = [one.start_s for one in recording.attempts if one.name == "sustained"]
    assert len(begins_s) == 3
    assert all(any(begin_s < one.t_s < begin_s + 35 for one in rounds) for begin_s in begins_s)


def test_a_soak_lacks_nothing_if_its_laps_together_are_as_long():
    own = FOUR
    assert shortfalls(recorded(), own) == ()
    (found,) = shortfalls(laps_of(recorded(), FOUR)[0], own)
    assert (found.stage, found.length_s) == ("sustained", 90)
    assert found.done_s == pytest.approx(30, abs=3)


@pytest.mark.parametrize(
    ("duration_s", "laps", "steady_s"),
    [(None, 3, 30), (165, 3, None), (20, 1, 7), (600, None, None), (80, 1, None), (86_400, None, None)],
)
def test_a_soak_has_as_many_laps_as_come_nearest_to_its_length(duration_s, laps, steady_s):
    plan = make_plan(FOUR, "soak", duration_s)
    lap_s = sum(one.expected_s for one in plan.stages)
    assert laps in (None, plan.laps)
    assert steady_s in (None, plan.stage("sustained").expected_s)
    if duration_s is not None and duration_s > 60:
        assert plan.laps * lap_s == pytest.approx(duration_s)
        planned_lap_s = sum(one.expected_s for one in make_plan(FOUR, "soak", None).stages)
        assert plan.laps == max(1, round(duration_s / planned_lap_s))
    assert plan.expected_s == pytest.approx(plan.laps * lap_s + 15.8)
