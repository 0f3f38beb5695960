"""Recordings of real GPUs are judged today as they were when they were made."""

import dataclasses
import json
import re
from collections import defaultdict
from copy import copy
from functools import cache
from pathlib import Path

import pytest

from rigproof.history.champion_keeping import champion_run, rig_figures
from rigproof.history.champions import RigChampions, StoredChampions
from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.disk.store import read_recording
from rigproof.records.measurements import Round
from rigproof.records.verdict import Outcome, decide
from rigproof.stages.registry import KINDS

SAMPLES = Path(__file__).resolve().parents[2] / "reports" / "samples"
RUNS = sorted(path.parent for path in SAMPLES.glob("*/verdict.json"))
CARDS = {"h100": "NVIDIA H100 80GB HBM3", "h200": "NVIDIA H200"}
PAIRS = [run for run in RUNS if run.name.startswith("h200-x2-")]


@cache
def whole(run):
    return read_recording(run)


def recorded(run):
    """The recording of this run, to be changed."""
    return copy(whole(run))


def test_there_are_samples():
    verdicts = [json.loads((run / "verdict.json").read_text())["verdict"] for run in RUNS]
    assert verdicts.count("ACCEPTED") >= 4


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_sample_is_judged_as_it_was(run):
    result = json.loads((run / "verdict.json").read_text())
    recording = recorded(run)
    verdicts = judge_all(recording)
    now = {(one.criterion, one.subject): one.outcome.value for one in verdicts}
    was = {(one["criterion"], one["subject"]): one["outcome"] for one in result["criteria"]}
    # A rate that had no floor then may have one now, and holds it.
    without = {key for key, outcome in was.items() if outcome == "no_limit"}
    assert {key: now[key] for key in was.keys() - without} == {key: was[key] for key in was.keys() - without}
    assert {now[key] for key in without} <= {"no_limit", "pass"}
    # A criterion that came later is judged of the same data.
    later = [one for one in verdicts if (one.criterion, one.subject) not in was]
    assert {one.outcome.value for one in later if one.family != "history"} <= {"pass", "not_applicable"}
    # Their cards' earlier runs are not in them.
    assert {one.outcome.value for one in later if one.family == "history"} <= {"no_limit"}
    assert decide(verdicts).value == result["verdict"]
    assert not result["simulated"]
    assert {gpu.name for gpu in recording.gpus.values()} == {CARDS[run.name.partition("-")[0]]}


@pytest.mark.parametrize("rate_hz", [2, 1])
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_sample_that_was_read_less_often_is_judged_as_it_was(run, rate_hz):
    decision = json.loads((run / "verdict.json").read_text())["verdict"]
    every = round(10 / rate_hz)
    recording = recorded(run)
    rig = LoadedRig.restore(recording.run.rig, KINDS)
    sampling = rig.rig.sampling.model_copy(update={"rate_hz": float(rate_hz)})
    recording.gpu_samples = [
        sample
        for subject in recording.gpus
        for sample in [one for one in recording.gpu_samples if one.subject == subject][every - 1 :: every]
    ]
    slower = dataclasses.replace(rig, rig=rig.rig.model_copy(update={"sampling": sampling}))
    recording.run = dataclasses.replace(recording.run, rig=slower.dump())
    verdicts = judge_all(recording)
    assert not {one.outcome.value for one in verdicts} & {"fail", "not_measured"}
    assert decide(verdicts).value == decision


def judged_today(recording):
    """By the limits that the run was recorded with and those that came later; what does not pass."""
    rig = LoadedRig.restore(recording.run.rig, KINDS)
    later = load_rig("h200-x2", KINDS).rig.limits.model_dump(exclude_none=True)
    limits = rig.rig.limits.model_copy(
        update={name: later[name] for name in ("peer_share", "best_quarter_share", "pcie_bit_error_rate")}
    )
    verdicts = judge_all(
        recording, dataclasses.replace(rig, rig=rig.rig.model_copy(update={"limits": limits}))
    )
    assert "throughput.peer_outlier" in {one.criterion for one in verdicts}
    return {(one.criterion, one.subject): one.outcome.value for one in verdicts if one.outcome != "pass"}


def with_shares(recording):
    """The rig as recorded, with limits of later: of a card's best quarter and of its own work elsewhere."""
    rig = LoadedRig.restore(recording.run.rig, KINDS)
    today = load_rig("h200-x2", KINDS).rig
    names = ("best_quarter_share", "slow_fifth_share", "pause_s")
    limits = rig.rig.limits.model_copy(update={name: getattr(today.limits, name) for name in names})
    later = {}
    for name in KINDS.names:
        table, now = getattr(rig.rig.stages, name, None), getattr(today.stages, name)
        shares = {
            key: getattr(now, key)
            for key in ("precision_share", "host_paced_share", "own_share")
            if hasattr(now, key)
        }
        if table is not None and shares:
            later[name] = table.model_copy(update=shares)
    stages = rig.rig.stages.model_copy(update=later)
    return dataclasses.replace(rig, rig=rig.rig.model_copy(update={"limits": limits, "stages": stages}))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_sound_card_holds_the_shares_of_its_own_work(run):
    """Limits that came later than these runs: of its best quarter, and of what its other work lets expect."""
    recording = recorded(run)
    verdicts = judge_all(recording, with_shares(recording))
    assert not {v.outcome for v in verdicts} & {Outcome.FAIL, Outcome.NOT_MEASURED}


LONE, PAIR = "h100-extended", "h200-x2-extended"


def edited(name, stage, share, *, after=0.0):
    """The work of a stage times a share, from a part of it on."""
    recording = recorded(next(run for run in RUNS if run.name == name))
    ran = recording.stages[stage]
    from_s = ran.start_s + after * (ran.end_s - ran.start_s)
    recording.rounds = [
        dataclasses.replace(one, work=share * one.work) if one.stage == stage and one.t_s >= from_s else one
        for one in recording.rounds
    ]
    return recording


@pytest.mark.parametrize("stage", ["feeding", "pattern", "replay", "shapes"])
@pytest.mark.parametrize("name", [LONE, PAIR])
def test_a_stage_that_is_slow_throughout_is_noticed_on_each_card_alone(name, stage):
    recording = edited(name, stage, 0.6)
    slow = [v for v in judge_all(recording, with_shares(recording)) if v.outcome is Outcome.FAIL]
    assert {(v.criterion, v.subject) for v in slow} == {
        ("throughput.stability", gpu) for gpu in recording.gpus
    }
    assert all(v.detail.startswith(f"{stage}, against its own ") for v in slow)


@pytest.mark.parametrize(
    ("name", "stage"),
    # Not in the pattern stage of the pair: its last 40 % are pauses, and three passes of 30 ms.
    [(LONE, one) for one in ("feeding", "pattern", "replay", "shapes")]
    + [(PAIR, one) for one in ("feeding", "replay", "shapes")],
)
def test_a_rate_that_halves_after_sixty_percent_of_a_stage_is_noticed(name, stage):
    recording = edited(name, stage, 0.5, after=0.6)
    slow = [v for v in judge_all(recording, with_shares(recording)) if v.outcome is Outcome.FAIL]
    assert {(v.criterion, v.subject) for v in slow} == {
        ("throughput.stability", gpu) for gpu in recording.gpus
    }
    assert all(f" in a quarter of {stage} (" in v.detail for v in slow)


@pytest.mark.parametrize(
    ("name", "every", "first", "share"),
    [(LONE, 2, 0, 0.4), (LONE, 2, 1, 0.4), (LONE, 3, 0, 0.3), (LONE, 4, 1, 0.5), (PAIR, 4, 1, 0.5)],
)
@pytest.mark.parametrize("stage", ["pattern", "replay", "shapes"])
def test_work_that_is_slow_by_fits_and_starts_is_noticed(name, stage, every, first, share):
    """The medians of quarters may all be of slow rounds, or all of fast ones."""
    recording = recorded(next(run for run in RUNS if run.name == name))
    seen = defaultdict(lambda: first)

    def changed(one):
        work = (one.subject, one.phase, *sorted(one.labels.items()))
        seen[work] += 1
        slow = one.stage == stage and seen[work] % every == 0
        return dataclasses.replace(one, work=share * one.work) if slow else one

    recording.rounds = list(map(changed, recording.rounds))
    slow = [v for v in judge_all(recording, with_shares(recording)) if v.outcome is Outcome.FAIL]
    assert {(v.criterion, v.subject) for v in slow} == {
        ("throughput.stability", gpu) for gpu in recording.gpus
    }
    assert all(stage in v.detail for v in slow)


@pytest.mark.parametrize("operation", ["write", "invert", "check"])
@pytest.mark.parametrize("name", [LONE, PAIR])
def test_an_operation_of_the_patterns_that_is_slow_by_itself_is_noticed(name, operation):
    recording = recorded(next(run for run in RUNS if run.name == name))
    recording.rounds = [
        dataclasses.replace(one, work=0.6 * one.work) if one.labels.get("operation") == operation else one
        for one in recording.rounds
        if one.stage != "bandwidth" or one.labels.get("operation") != operation
    ]
    slow = [v for v in judge_all(recording, with_shares(recording)) if v.outcome is Outcome.FAIL]
    assert {v.criterion for v in slow} == {"throughput.stability"}
    assert {v.subject for v in slow} == set(recording.gpus)


# Too short on the one card to have a hole in their middle: gemm, training.
HOLES = [(PAIR, "gemm", 2.0), (PAIR, "training", 3.0)]
HOLES += [(name, stage, 2.0) for name in (LONE, PAIR) for stage in ("pattern", "replay", "shapes")]


def with_hole(name, stage, length_s):
    """A card does nothing for a while in the middle of the longest measurement of one work."""
    recording = recorded(next(run for run in RUNS if run.name == name))
    subject = min(recording.gpus)
    own = [one for one in recording.rounds if (one.subject, one.stage) == (subject, stage)]
    spans = defaultdict(list)
    for one in own:
        if one.phase == "measure" and one.labels.get("part") != "search":
            labels = (one.labels.get("precision"), one.labels.get("part"), one.labels.get("batch"))
            spans[labels].append(one.t_s)
    times = max(spans.values(), key=lambda each: max(each) - min(each))
    from_s = (min(times) + max(times) - length_s) / 2
    recording.rounds = [
        one
        for one in recording.rounds
        if (one.subject, one.stage) != (subject, stage)
        or not (one.t_s > from_s and one.t_s - one.seconds < from_s + length_s)
    ]
    return recording, subject, from_s


@pytest.mark.parametrize(("name", "stage", "length_s"), HOLES)
def test_a_card_that_does_nothing_for_a_while_is_noticed(name, stage, length_s):
    """All of its rounds are as fast as ever."""
    recording, subject, from_s = with_hole(name, stage, length_s)
    failed = [v for v in judge_all(recording, with_shares(recording)) if v.outcome is Outcome.FAIL]
    (paused,) = [v for v in failed if v.criterion == "activity.gpu_active"]
    assert (paused.subject, f" in the middle of {stage}" in paused.detail) == (subject, True)
    assert paused.from_s == pytest.approx(from_s, abs=1)


def without_end(name, stage):
    """A card's worker reports nothing after four fifths of a stage."""
    recording = recorded(next(run for run in RUNS if run.name == name))
    subject, ran = min(recording.gpus), recording.stages[stage]
    silent_s = ran.start_s + 0.8 * ran.settings["measure_s"]
    recording.rounds = [
        one for one in recording.rounds if (one.subject, one.stage) != (subject, stage) or one.t_s < silent_s
    ]
    return recording, subject


@pytest.mark.parametrize("stage", ["sustained", "training", "feeding", "bandwidth", "replay", "shapes"])
@pytest.mark.parametrize("name", [LONE, PAIR])
def test_a_worker_that_falls_silent_and_ends_as_if_it_had_worked_is_not_accepted(name, stage):
    recording, subject = without_end(name, stage)
    last_s = max(one.t_s for one in recording.rounds if (one.subject, one.stage) == (subject, stage))
    # As the driver would have seen it: the load ends with the first last round.
    recording.stages[stage] = dataclasses.replace(recording.stages[stage], loaded_to_s=last_s)
    verdicts = judge_all(recording)
    (why,) = [v.detail for v in verdicts if (v.criterion, v.subject) == ("activity.gpu_active", subject)]
    assert (f"{stage}: {subject}#0 was told to work for" in why, decide(verdicts).value) == (
        True,
        "INCOMPLETE",
    )


@pytest.mark.parametrize("stage", ["sustained", "training", "feeding", "replay", "shapes", "pattern"])
def test_rounds_that_were_lost_from_the_end_of_a_stage_leave_it_not_measured(stage):
    recording, _ = without_end(PAIR, stage)
    verdicts = judge_all(recording)
    assert decide(verdicts).value == "INCOMPLETE"
    assert any(f"the {stage} stage is said to have been under load" in v.detail for v in verdicts)


@pytest.mark.parametrize("early_s", [1.0, 1.5, 2.0])
def test_no_card_is_idle_by_readings_that_are_early(early_s):
    recording = read_recording(next(run for run in RUNS if run.name == LONE))
    recording.gpu_samples = [dataclasses.replace(one, t_s=one.t_s - early_s) for one in recording.gpu_samples]
    verdicts = judge_all(recording)
    assert decide(verdicts).value == "INCOMPLETE"
    assert any("the readings are not from the time of the work" in v.detail for v in verdicts)


@pytest.mark.parametrize("run", PAIRS, ids=lambda run: run.name)
def test_two_cards_are_sound_beside_each_other_and_an_eighth_less_of_one_is_noticed(run):
    recording = recorded(run)
    was = judged_today(recording)
    assert "fail" not in was.values()
    first = min(recording.gpus)
    recording.rounds = [
        dataclasses.replace(one, work=one.work * 0.88)
        if (one.subject, one.stage) == (first, "sustained")
        else one
        for one in recording.rounds
    ]
    slow = {(name, first): "fail" for name in ("throughput.peer_outlier", "throughput.sustained")}
    assert judged_today(recording) == was | slow


def steps_of(recording):
    judged = judge_all(recording, with_shares(recording))
    return {one.subject: one for one in judged if one.criterion == "training.step"}


def test_steps_that_wait_for_their_host_are_not_held_against_other_cards():
    """Two sound H200s of one host: steps of one and two examples differed by a third, larger ones by 1 %."""
    recording = recorded(SAMPLES / "host-paced" / "h200-x2-standard")
    before = {one.subject: one for one in judge_all(recording) if one.criterion == "training.step"}
    assert before["vm/gpu0"].detail == "a step of 2 examples in fp16 in the sweep"
    assert {one.outcome for one in steps_of(recording).values()} == {Outcome.PASS}

    def slower(one):
        hit = one.stage == "training" and one.label("part") == "sweep" and one.label("batch") == 8
        share = 0.8 if hit and one.subject == "vm/gpu0" else 1.0
        return dataclasses.replace(one, work=one.work * share)

    recording.rounds = [slower(one) for one in recording.rounds]
    found = steps_of(recording)
    assert found["vm/gpu0"].detail == "a step of 8 examples in fp16 in the sweep"
    assert found["vm/gpu1"].outcome is Outcome.PASS


def test_products_too_short_for_their_host_to_launch_are_no_loss_of_a_card():
    """A sound card: of size 8192 its fp8 reached 1209 TFLOP/s, and the host set the pace of no round."""
    recording = recorded(SAMPLES / "host-paced" / "h200-quick-4096")
    (found,) = [one for one in judge_all(recording) if one.outcome is Outcome.NOT_MEASURED]
    assert (found.criterion, found.subject) == ("throughput.gemm_fp8", "vm/gpu0")
    assert (
        "while vm/gpu0 waited for its host to launch products of size 4096, which took 0.29 ms"
        in found.detail
    )
    gemm = [one for one in recording.rounds if one.stage == "gemm" and one.phase == "measure"]
    paced = {one.label("precision"): one.host_paced for one in gemm}
    assert paced == dict.fromkeys(["fp32", "tf32", "fp16", "bf16"], False) | {"fp8": True}
    assert all(one.host_paced == paced[one.label("precision")] for one in gemm)
    recording.rounds = [dataclasses.replace(one, host_paced=False) for one in recording.rounds]
    assert Outcome.FAIL in {one.outcome for one in judge_all(recording) if one.criterion == found.criterion}


def measured(verdict):
    """fp8 came after these runs."""
    return verdict.outcome is not Outcome.NOT_APPLICABLE


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_floors_of_a_sample_say_what_they_rest_on(run):
    recording = recorded(run)
    torches = {one.torch_version for one in recording.workers}
    assert {version.startswith("2.11") for version in torches} == {True}
    for verdict in judge_all(recording):
        rate = verdict.criterion.startswith("throughput.gemm_") or verdict.criterion == "throughput.sustained"
        if rate and measured(verdict) and not verdict.limit_source.startswith("this GPU's champion (run "):
            told = re.match(r"(0\.\d+) of \S+ TFLOP/s, measured on (\d+) cards?;", verdict.limit_source)
            assert told, verdict
            assert told[1] == ("0.92" if int(told[2]) >= 3 else "0.85"), verdict


def unknown_card(recording, rate=1.0, **sample):
    """The same card as if no SKU file knew it, with a share of its rate and other readings under load."""
    rig = LoadedRig.restore(recording.run.rig, KINDS)
    (node,) = rig.rig.nodes
    gpu = node.gpus[0].model_copy(update={"sku": "unknown"})
    nodes = (node.model_copy(update={"gpus": (gpu,)}),)
    (subject,) = recording.gpus
    recording.gpus[subject] = dataclasses.replace(recording.gpus[subject], sku=None)
    recording.workers = [dataclasses.replace(one, sms=132) for one in recording.workers]
    recording.rounds = [dataclasses.replace(one, work=one.work * rate) for one in recording.rounds]
    from_s = recording.stages["gemm"].loaded_from_s
    recording.gpu_samples = [
        dataclasses.replace(one, **sample) if one.t_s >= from_s else one for one in recording.gpu_samples
    ]
    unknown = dataclasses.replace(rig, rig=rig.rig.model_copy(update={"nodes": nodes}), skus={})
    return judge_all(recording, unknown)


def test_an_unknown_card_at_a_quarter_of_its_rate_is_rejected_whatever_excuses_its_clock():
    recording = recorded(SAMPLES / "h200-quick")
    verdicts = unknown_card(
        recording, 0.25, sm_clock_mhz=600, power_w=245.0, power_average_w=245.0, clock_event_reasons=0x4
    )
    failed = {one.criterion for one in verdicts if one.outcome == "fail"}
    assert {"throughput.gemm_fp16", "throughput.gemm_bf16", "throughput.sustained"} <= failed
    assert decide(verdicts) == "REJECTED"


def test_a_sound_card_that_nobody_knows_holds_the_floor_of_its_architecture():
    verdicts = unknown_card(recorded(SAMPLES / "h200-quick"))
    rates = [one for one in verdicts if one.criterion.startswith("throughput.gemm_") and measured(one)]
    assert {one.outcome.value for one in rates} == {"pass"}
    assert all("what 132 SMs do at the" in one.limit_source for one in rates)
    assert decide(verdicts) == "ACCEPTED"


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_million_times_the_rate_is_no_rate(run):
    recording = recorded(run)
    recording.rounds = [dataclasses.replace(one, work=one.work * 1e6) for one in recording.rounds]
    rates = ("throughput.", "precision.", "scaling.", "training.step")
    for verdict in judge_all(recording):
        if verdict.criterion.startswith(rates) and measured(verdict):
            assert verdict.outcome == "not_measured", verdict


@pytest.mark.parametrize(("stage", "share"), [("pattern", 3), ("bandwidth", 3)])
def test_more_than_the_memory_can_do_is_no_rate_of_anything(stage, share):
    """Neither of its own stage nor of one that is held against it."""
    recording = edited(LONE, stage, share)
    found = {
        one.criterion: one.outcome
        for one in judge_all(recording, with_shares(recording))
        if one.outcome is not Outcome.NOT_APPLICABLE
    }
    assert found["memory.bandwidth" if stage == "bandwidth" else "throughput.stability"] == "not_measured"
    assert Outcome.FAIL not in found.values()


@pytest.mark.parametrize("run", PAIRS, ids=lambda run: run.name)
def test_a_link_of_half_its_lanes_is_noticed(run):
    recording = recorded(run)
    was, last = judged_today(recording), max(recording.gpus)
    recording.gpu_samples = [
        dataclasses.replace(one, pcie_width=8) if one.subject == last else one
        for one in recording.gpu_samples
    ]
    assert judged_today(recording) == was | {("transfer.link", last): "fail"}


@pytest.mark.parametrize(("launch_ms", "outcome"), [(None, Outcome.FAIL), (0.5, Outcome.NO_LIMIT)])
def test_four_sound_cards_hold_what_they_did_in_another_run_but_by_rounds_of_single_operations(
    launch_ms, outcome
):
    """All-to-all did 113 GB/s in rounds of 63 operations, and 90 in rounds of one."""

    def judged(name, champions=None):
        recording = recorded(SAMPLES / name)
        loaded = LoadedRig.restore(recording.run.rig, KINDS)
        stages, limits = loaded.rig.stages, loaded.rig.limits
        own = stages.collective.model_copy(update={"champion_share": 0.9})
        rig = loaded.rig.model_copy(
            update={
                "stages": stages.model_copy(update={"collective": own}),
                "limits": limits.model_copy(update={"launch_ms": launch_ms}),
            }
        )
        skus = {stem: one.model_copy(update={"group_rates": ()}) for stem, one in loaded.skus.items()}
        found = judge_all(recording, dataclasses.replace(loaded, rig=rig, skus=skus), champions)
        return recording, {one.criterion: one for one in found if one.subject == "vm"}

    recording, before = judged("h200-x4-extended")
    kept = rig_figures(recording, before.values())
    runs = {recording.run.run_id: champion_run(recording, "again")}
    champions = StoredChampions(RigChampions(schema_version=1, figures=tuple(kept), runs=runs)).rates()
    _, now = judged("h200-x4-standard", champions)
    assert now["collective.all_reduce"].outcome is Outcome.PASS
    assert "its champion" in now["collective.all_reduce"].limit_source
    # The others had no time for even numbers of elements.
    assert now["collective.all_gather"].outcome is Outcome.PASS
    assert now["collective.all_to_all"].outcome is outcome


def test_two_pcs_on_one_gigabit_are_accepted_with_what_training_together_gives():
    """Hosts in network namespaces with the CPU as the device: bench/two_pcs.py."""
    run = SAMPLES / "lan" / "two-pcs"
    result = json.loads((run / "verdict.json").read_text())
    recording = recorded(run)
    verdicts = judge_all(recording)
    was = {(one["criterion"], one["subject"]): one["outcome"] for one in result["criteria"]}
    now = {(one.criterion, one.subject): one.outcome.value for one in verdicts}
    assert {key: now[key] for key in was} == was
    assert decide(verdicts).value == result["verdict"] == "ACCEPTED"
    exchanged = {key for key in was if key[0].startswith(("lan.", "collective."))}
    assert {was[key] for key in exchanged} <= {"pass", "no_limit", "not_applicable"}
    assert [was["lan.bandwidth", "pc1+pc2"], was["collective.training", "rig"]] == ["pass", "no_limit"]
    said = next(one.detail for one in verdicts if one.criterion == "collective.training")
    assert re.fullmatch(r"together 1\.\d × pc\d/cpu0 alone .*; the LAN costs \d+ % of each step", said)
    assert said in (run / "summary.md").read_text()

    # Whoever else uses the CPUs slows some of the steps: no rate of them together fails.
    slow = [
        dataclasses.replace(one, seconds=1.2 * one.seconds) if one.label("part") == "together" else one
        for one in recording.rounds
    ]
    recording.put(Round, slow)
    found = next(one for one in judge_all(recording) if one.criterion == "collective.training")
    assert (found.outcome, found.limit) == (Outcome.NO_LIMIT, None)
    assert found.measured < 1.2  # 0.8 of what steps and an exchange take one after the other is 1.23


# Every product is read once to be summed: 2 bytes × 8192² at 4366 GB/s, of 2 × 8192³ at 662 TFLOP/s.
SUMMED = 2 * 8192**2 / 4366e9 / (2 * 8192**3 / 662e12)


@pytest.mark.parametrize(
    ("file", "least"), [("gemm.json", 1 - SUMMED - 0.01), ("sampling.json", 0.99), ("processes.json", 0.99)]
)
def test_a_bench_shows_what_it_must(file, least):
    assert json.loads((SAMPLES / "bench" / file).read_text())["ratio"] >= least


def test_no_simulated_fault_is_silent_on_any_device_of_any_rig():
    """As bench/silent_faults.py found it."""
    swept = json.loads((SAMPLES / "bench" / "silent_faults.json").read_text())
    assert swept["silent"] == swept["loud_in_health"] == []
    assert set(swept["acted"]) >= {
        path.stem for path in (SAMPLES.parent.parent / "hwprofiles/rigs").glob("*.toml")
    }


def test_a_link_that_goes_down_for_the_last_part_of_training_is_rejected():
    """Two H200 of which one trains at Gen1 x4 for 14 s."""
    recording = recorded(SAMPLES / "h200-x2-standard")
    end_s = recording.stages["training"].end_s
    recording.gpu_samples = [
        dataclasses.replace(one, pcie_generation=1, pcie_width=4)
        if one.subject == "vm/gpu1" and end_s - 14 <= one.t_s <= end_s
        else one
        for one in recording.gpu_samples
    ]
    failed = [(one.criterion, one.subject) for one in judge_all(recording) if one.outcome is Outcome.FAIL]
    assert failed == [("transfer.link", "vm/gpu1")]
