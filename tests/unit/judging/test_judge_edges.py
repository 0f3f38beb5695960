"""From a finding to a verdict: what is reported, what is required, and what can not pass."""

import math
import os
import signal
from dataclasses import replace

import pytest

from rigproof.criteria.criterion import (
    Criterion,
    Disturbed,
    Finding,
    Limit,
    NotApplicable,
    NotMeasured,
    pass_or_fail,
)
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import judge, promised
from rigproof.judging.lap import judge_lap
from rigproof.judging.laps import judge_all
from rigproof.records.verdict import Decision, Outcome, decide, sentence

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
LIMIT = Limit(10.0, "defaults.toml")


def made(find, scope="device", **more):
    """A criterion of this function alone."""
    more = {
        "title": "made",
        "unit": "W",
        "limit": "",
        "remedy": "mend it",
        "severity": "reset",
        "unmeasured": "",
    } | more
    return Criterion("test.made", scope=scope, **more)(find)


def verdict_of(bench, finding, subject=GPU, **more):
    return judge(made(lambda _: finding, **more), subject, Evidence(bench.recording, bench.loaded))


def test_a_finding_is_reported_as_it_is(bench):
    finding = Finding(Outcome.FAIL, 12.0, LIMIT, "too much", from_s=3.0, length_s=2.0)
    verdict = verdict_of(bench, finding)
    assert (verdict.criterion, verdict.subject, verdict.outcome) == ("test.made", GPU, Outcome.FAIL)
    assert (verdict.measured, verdict.limit, verdict.limit_source) == (12.0, 10.0, "defaults.toml")
    assert (verdict.unit, verdict.detail, verdict.from_s, verdict.length_s) == ("W", "too much", 3.0, 2.0)


@pytest.mark.parametrize(
    ("outcome", "own", "expected"),
    [
        (Outcome.FAIL, "", "mend it"),
        (Outcome.FAIL, "swap it", "swap it"),
        (Outcome.WARN, "", "mend it"),
        (Outcome.PASS, "swap it", ""),
        (Outcome.NO_LIMIT, "", ""),
    ],
)
def test_a_remedy_is_for_what_is_wrong_and_the_findings_own_comes_first(bench, outcome, own, expected):
    assert verdict_of(bench, Finding(outcome, 1.0, remedy=own)).remedy == expected


def test_a_limit_that_is_no_number_has_its_source_from_the_finding(bench):
    verdict = verdict_of(bench, Finding(Outcome.PASS, source="hwprofiles/rigs/lab.toml"))
    assert (verdict.limit, verdict.limit_source) == (None, "hwprofiles/rigs/lab.toml")


@pytest.mark.parametrize("moment", [math.nan, math.inf, None])
def test_a_moment_that_cannot_be_shown_is_none_and_the_rest_counts(bench, moment):
    verdict = verdict_of(bench, Finding(Outcome.FAIL, 1.0, from_s=moment, length_s=moment))
    assert (verdict.outcome, verdict.from_s, verdict.length_s) == (Outcome.FAIL, None, None)


@pytest.mark.parametrize(
    "finding",
    [
        Finding(Outcome.PASS, math.nan, LIMIT),
        Finding(Outcome.PASS, 1.0, Limit(math.nan, "x")),
        Finding(Outcome.FAIL, math.inf, LIMIT),
    ],
)
def test_a_figure_that_is_none_reaches_no_verdict(bench, finding):
    verdict = verdict_of(bench, finding)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail.endswith("which is not a valid measurement")


def test_a_comparison_of_what_is_no_figure_is_not_measured():
    assert pass_or_fail(11.0, LIMIT, good=False, from_s=2.0) == Finding(Outcome.FAIL, 11.0, LIMIT, from_s=2.0)
    with pytest.raises(NotMeasured, match="the figure is nan"):
        pass_or_fail(math.nan, LIMIT, good=True)


def test_a_limit_in_another_unit_keeps_its_source():
    assert LIMIT.times(100, " × 100") == Limit(1000.0, "defaults.toml × 100")
    assert LIMIT.times(0.5) == Limit(5.0, "defaults.toml")


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [(NotMeasured, Outcome.NOT_MEASURED), (NotApplicable, Outcome.NOT_APPLICABLE)],
)
def test_what_nobody_can_measure_does_not_apply(bench, reason, outcome):
    def find(_evidence):
        raise reason("no sensor")

    verdict = judge(made(find), GPU, Evidence(bench.recording, bench.loaded))
    assert (verdict.outcome, verdict.detail) == (outcome, "no sensor")
    assert verdict.remedy == ""


def test_what_kept_the_run_from_measuring_is_named_with_what_to_do(bench):
    def find(_evidence):
        raise Disturbed("pid 7 computed on this card", "end that process", from_s=3.0)

    verdict = judge(made(find), GPU, Evidence(bench.recording, bench.loaded))
    assert (verdict.outcome, verdict.severity, verdict.from_s) == (Outcome.NOT_MEASURED, None, 3.0)
    assert sentence(verdict) == (
        "pc1/gpu0 test.made: not measured (from t=3 s): pid 7 computed on this card. End that process."
    )
    assert decide([verdict, verdict_of(bench, Finding(Outcome.PASS, 1.0))]) is Decision.INCOMPLETE


def test_a_criterion_of_the_surroundings_never_fails(bench):
    assert verdict_of(bench, Finding(Outcome.WARN, 1.0), surroundings=True).outcome is Outcome.WARN
    failed = verdict_of(bench, Finding(Outcome.FAIL, 1.0), surroundings=True)
    assert failed.outcome is Outcome.NOT_MEASURED
    assert "judging it failed" in failed.detail


def test_a_subject_that_is_missing_is_not_judged_but_by_what_judges_absence(bench):
    del bench.recording.gpus[GPU]
    found = Finding(Outcome.PASS, 1.0)
    assert verdict_of(bench, found).detail == "pc1/gpu0 was not found"
    assert verdict_of(bench, found, judges_absence=True).outcome is Outcome.PASS
    assert verdict_of(bench, found, subject=OTHER).outcome is Outcome.PASS


def test_what_was_left_out_is_not_judged_and_says_why(bench):
    bench.event("left_out", GPU, "deselected", criterion="test.made", stage=None)
    bench.event("left_out", OTHER, "deselected", criterion="test.other", stage=None)
    assert verdict_of(bench, Finding(Outcome.PASS, 1.0)).detail == "deselected"
    assert verdict_of(bench, Finding(Outcome.PASS, 1.0), subject=OTHER).outcome is Outcome.PASS


@pytest.mark.parametrize(("scope", "subject"), [("rig", "rig"), ("node", "pc1"), ("device", GPU)])
def test_each_scope_sees_its_own_evidence(bench, scope, subject):
    seen = []
    judge(
        made(lambda about: seen.append(about) or Finding(Outcome.PASS), scope=scope),
        subject,
        Evidence(bench.recording, bench.loaded),
    )
    assert [getattr(about, "subject", "rig") for about in seen] == [subject]


# The stages that a criterion needs


@pytest.mark.parametrize("name", ["gemm", "sustained"])
def test_a_stage_that_was_broken_off_cannot_pass_but_fail(bench, name):
    bench.stage(name, status="interrupted")
    verdict = verdict_of(bench, Finding(Outcome.PASS, 1.0), stages=(name,))
    assert (verdict.outcome, verdict.detail) == (Outcome.NOT_MEASURED, f"the {name} stage was aborted")
    assert verdict_of(bench, Finding(Outcome.FAIL, 1.0), stages=(name,)).outcome is Outcome.FAIL
    assert verdict_of(bench, Finding(Outcome.PASS, 1.0), stages=("training",)).outcome is Outcome.PASS


def test_a_continuous_load_has_to_be_complete_and_bursts_have_not(bench):
    for name in ("sustained", "gemm"):
        bench.stage(name, loaded_to_s=None)
    verdict = verdict_of(bench, Finding(Outcome.PASS, 1.0), stages=("sustained",))
    assert (verdict.outcome, verdict.detail) == (Outcome.NOT_MEASURED, "the sustained stage was aborted")
    assert verdict_of(bench, Finding(Outcome.PASS, 1.0), stages=("gemm",)).outcome is Outcome.PASS


def test_a_level_without_the_stage_does_not_promise_the_criterion(bench):
    needs = made(lambda _: None, stages=("sustained",))
    assert promised(needs, bench.loaded, ("gemm",)) == ()
    assert promised(needs, bench.loaded, ("gemm", "sustained")) == (GPU, OTHER)
    by_duty = made(lambda _: None, duties=("continuous",))
    assert promised(by_duty, bench.loaded, ("gemm",)) == ()
    assert promised(by_duty, bench.loaded, ("sustained",)) == (GPU, OTHER)
    assert promised(made(lambda _: None), bench.loaded, ()) == (GPU, OTHER)


def test_where_the_cpu_is_the_device_what_needs_a_gpu_is_not_promised(bench):
    cpu = {"name": "pc1", "gpus": [{"sku": "unknown", "device": "cpu"}]}
    bench.rig(nodes=[cpu, {"name": "pc2", "gpus": [{"sku": "h200"}]}])
    for scope, both, one in (("device", ("pc1/cpu0", OTHER), (OTHER,)), ("node", ("pc1", "pc2"), ("pc2",))):
        assert promised(made(lambda _: None, scope=scope), bench.loaded) == both
        assert promised(made(lambda _: None, scope=scope, applies_to_cpu=False), bench.loaded) == one


# All of them


@pytest.mark.parametrize("processes", [2, 7])
def test_several_processes_give_the_verdicts_that_one_gives(bench, processes):
    bench.slow(GPU, 0.9, "training")  # which is compared with another node's card
    evidence = Evidence(bench.recording, bench.loaded)
    found = judge_lap(evidence, processes)
    assert found == bench.verdicts()
    assert [one.criterion for one in found] == sorted(
        (one.criterion for one in found), key=list(CATALOGUE).index
    )
    assert set(evidence.shared_figures["training steps"]) == {GPU, OTHER}


def test_the_share_of_a_process_that_dies_is_judged_all_the_same(bench, monkeypatch):
    expected, here = bench.verdicts(), os.getpid()

    def dying(*key):
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return judge(*key)

    monkeypatch.setattr("rigproof.judging.lap.judge", dying)
    assert judge_lap(Evidence(bench.recording, bench.loaded), 2) == expected


def test_what_was_kept_of_a_node_is_released_before_the_next(bench, monkeypatch):
    held, real = [], Evidence.release

    def release(self):
        held.append({key[0] for key in self._cached_for_subject if key[0] in (GPU, OTHER)})
        real(self)
        assert not self._cached_for_subject

    monkeypatch.setattr(Evidence, "release", release)
    bench.verdicts()
    assert {GPU} in held
    assert {OTHER} in held
    assert {GPU, OTHER} not in held[:2]


def test_given_champions_and_profile_come_before_the_recorded_ones(bench):
    bench.recording.run = replace(bench.recording.run, rig=bench.loaded.dump())
    strict = judge_all(bench.recording, bench.loaded, {})
    bench.limits(core_temperature_c=60)
    other = judge_all(bench.recording, bench.loaded)
    assert judge_all(bench.recording) == strict
    assert [one.outcome for one in other] != [one.outcome for one in strict]


def test_a_round_that_comes_while_a_rig_is_judged_moves_no_other_s_rounds(bench):
    evidence = Evidence(bench.recording, bench.loaded)
    own = [one.t_s for one in bench.recording.rounds if one.subject == OTHER]
    assert len(evidence.rounds(GPU))
    bench.recording.add(replace(bench.recording.rounds[0], t_s=200.0))
    assert evidence.rounds(OTHER).all("t_s") == own
