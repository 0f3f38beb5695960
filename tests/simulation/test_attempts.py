"""A stage whose rates miss their limit by little is measured once more, and nothing of it is forgotten."""

from dataclasses import replace
from functools import cache

import pytest

from rigproof.history.rounds import figure_rounds
from rigproof.judging.attempts import another_attempt
from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.disk.store import read_recording, write_recording
from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, decide
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from support.lengths import lengths

FOUR = over_defaults(
    {
        "name": "four",
        "sampling": {"rate_hz": 4},
        **lengths("quick", settle_s=2, measure_s=2, sustained=20, round_s=0.5, peer=0, collective=0),
        "nodes": [{"name": "n1", "cpus": 64, "gpus": [{"sku": "h200-sxm"}] * 4}],
    },
    "four",
    KINDS,
)
SLOW, PEER = "n1/gpu1", "throughput.peer_outlier"
ONCE, ALWAYS = f"straggler@{SLOW}:by=7%,for=100%", f"straggler@{SLOW}:by=7%"


def once(recording, _loaded, stage):
    return "" if stage in recording.earlier_attempts else "for the test"


@cache
def recorded(*faults: str, forced: bool = False) -> Recording:
    another = once if forced else another_attempt
    return simulated_recording(FOUR, "quick", faults, another_attempt=another)


def judged(recording):
    """What is not good, and of the straggler's rate beside its peers all."""
    verdicts = judge_all(recording)
    bad = {
        (one.criterion, one.subject): one.outcome
        for one in verdicts
        if one.outcome in (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)
    }
    (own,) = [one for one in verdicts if (one.criterion, one.subject) == (PEER, SLOW)]
    return bad, own


def again(recording):
    return [one.message for one in recording.events if one.kind == "measured_again"]


def test_a_rate_that_missed_its_limit_by_little_once_warns_with_both_figures():
    recording = recorded(ONCE)
    assert list(recording.earlier_attempts) == ["sustained"]
    (message,) = again(recording)
    assert message.startswith(f"sustained is measured once more: {SLOW} {PEER}: 9")
    assert ", limit ≥ 94 %" in message
    bad, own = judged(recording)
    assert bad == {(PEER, SLOW): Outcome.WARN}
    assert own.measured == pytest.approx(100, abs=1)
    assert own.detail.startswith("measured twice, the first time 9")
    assert decide(judge_all(recording)).value == "ACCEPTED"


def test_a_rate_that_misses_it_twice_fails_with_both_figures_and_is_not_measured_a_third_time():
    recording = recorded(ALWAYS)
    assert len(again(recording)) == 1
    bad, own = judged(recording)
    assert bad == {(PEER, SLOW): Outcome.FAIL}
    assert own.detail.startswith("measured twice, the first time 9")
    assert another_attempt(recording, FOUR, "sustained") == ""


@pytest.mark.parametrize(
    "faults",
    [
        (),
        (f"straggler@{SLOW}:by=12%",),  # far off
        (ALWAYS, "straggler@n1/gpu2:by=14%"),  # another one far off
        (ALWAYS, "thermal-throttle@n1/gpu2"),
        (ALWAYS, "bit-flip@n1/gpu2"),
        (ALWAYS, "oom@n1/gpu2"),
        (ALWAYS, "worker-killed@n1/gpu2"),
        (ALWAYS, "xid@n1/gpu2"),
    ],
)
def test_nothing_else_gets_another_attempt(faults):
    recording = recorded(*faults)
    assert (again(recording), recording.earlier_attempts) == ([], {})


def test_an_interrupted_run_gets_none():
    recording = simulated_recording(FOUR, "quick", (ALWAYS,))
    assert another_attempt(recording, FOUR, "sustained") != ""
    assert another_attempt(recording, FOUR, "gemm") == another_attempt(recording, FOUR, "training") == ""
    stopped = Event(30.0, "interrupted", "rig", "stopped by SIGTERM")
    assert another_attempt(replace(recording, events=[stopped]), FOUR, "sustained") == ""
    partial = replace(recording.stages["sustained"], status="partial")
    assert another_attempt(replace(recording, stages={"sustained": partial}), FOUR, "sustained") == ""


@pytest.mark.parametrize(
    ("fault", "criterion"),
    [
        ("overheat", "thermal.core_temperature"),
        ("thermal-throttle", "thermal.throttle"),
        ("straggler", PEER),
    ],
)
@pytest.mark.parametrize("when", ["for=100%", "after=97%"])
def test_what_went_wrong_in_either_attempt_fails(fault, criterion, when):
    recording = recorded(f"{fault}@{SLOW}:{when}", forced=True)
    assert set(recording.earlier_attempts) == set(recording.run.stages)
    bad, _ = judged(recording)
    assert bad[criterion, SLOW] is Outcome.FAIL


def test_a_healthy_rig_that_is_measured_twice_is_as_healthy():
    assert judged(recorded(forced=True))[0] == {}


def test_a_recording_of_two_attempts_is_judged_the_same_from_its_files(tmp_path):
    recording = recorded(ONCE)
    write_recording(tmp_path, recording)
    read = read_recording(tmp_path)
    assert [(one.name, one.start_s) for one in read.attempts] == [
        (one.name, one.start_s) for one in recording.attempts
    ]
    assert judge_all(read) == judge_all(recording)


def test_the_history_is_of_the_second_attempt():
    recording = recorded(ONCE)
    rounds = figure_rounds(recording, KINDS.figures["sustained_tflops"], SLOW)
    assert min(one.t_s for one in rounds) > recording.stages["sustained"].start_s
    everything = [one for one in recording.rounds if (one.stage, one.subject) == ("sustained", SLOW)]
    assert 0 < len(rounds) < len(everything) / 2


REGRESSION = "history.regression"


def of_own_runs(recording):
    return next(one for one in judge_all(recording) if (one.criterion, one.subject) == (REGRESSION, SLOW))


def test_a_card_that_is_slower_than_in_its_earlier_runs_is_measured_three_times_more():
    recording = recorded(f"slower-than-before@{SLOW}")
    messages = again(recording)
    assert len(messages) == 3
    assert all(one.startswith(f"gemm is measured once more: {SLOW} {REGRESSION}: ") for one in messages)
    assert [one.name for one in recording.attempts][:5] == ["gemm"] * 4 + ["sustained"]
    own = of_own_runs(recording)
    assert (own.outcome, own.severity) == (Outcome.FAIL, "reseat")
    assert " in 4 attempts; " in own.detail
    assert judged(recording)[0] == {(REGRESSION, SLOW): Outcome.FAIL}
    assert decide(judge_all(recording)).value == "REJECTED"


@pytest.mark.parametrize("repeats", [0, 1])
def test_how_often_is_the_profile_s_to_say(repeats):
    limits = FOUR.rig.limits.model_copy(update={"regression_repeats": repeats})
    rig = replace(FOUR, rig=FOUR.rig.model_copy(update={"limits": limits}))
    recording = simulated_recording(
        rig, "quick", (f"slower-than-before@{SLOW}",), another_attempt=another_attempt
    )
    assert len(again(recording)) == repeats
    assert of_own_runs(recording).outcome is Outcome.FAIL


def test_a_card_that_is_as_fast_as_before_is_measured_once():
    recording = recorded(f"slower-than-before@{SLOW}:by=0.1%")
    assert again(recording) == []
    assert of_own_runs(recording).outcome is Outcome.PASS


def test_the_recording_alone_is_enough_to_judge_it_again(tmp_path):
    recording = recorded(f"slower-than-before@{SLOW}")
    write_recording(tmp_path, recording)
    assert judge_all(read_recording(tmp_path)) == judge_all(recording)
