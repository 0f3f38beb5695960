"""The rounds of devices that are judged together are, device by device, what each has by itself."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.rounds import Rounds, RoundTable
from rigproof.criteria.evidence.stage_rounds import StageRounds, require_valid
from rigproof.records.measurements import TFLOP, Round
from rigproof.records.rows import Rows
from rigproof.records.verdict import Outcome
from rigproof.stages.registry import KINDS

SUBJECTS = {"a": "cuda", "b": "cpu", "c": "cuda"}  # and the device that was promised
STAGES = ("gemm", "sustained", "training")
LABELS = {"precision": "bf16", "size": 1, "part": "sweep", "batch": 1, "steps": 1}
IDLE = {"labels": LABELS, "unit": TFLOP, "verified": True}


# What a round can be. It begins where the one before it has ended, or later, or is impossible.
CHOICES = (
    list(SUBJECTS),
    [0.5, 0.5, 0.5, 1.0, 2.0, 0.0],  # seconds
    [(1, 0.0), (1, 0.0), (1, 5.0), (0, 0.0)],  # how far on it ends: a multiple of them, and more
    STAGES,
    (0, 1),  # of the subject's workers
    ("warmup", "measure"),
    [1.0] * 9 + [np.inf],  # work
    [None, None, "cuda", "cpu"],
)
SIZES = [len(one) for one in CHOICES]


def rounds_of(numbers):
    """Rounds of all subjects, mostly one after the other; some are impossible, or overlap."""
    found, ends_s = [], dict.fromkeys(SUBJECTS, 0.0)
    for number in numbers:
        chosen = (
            options[place] for options, place in zip(CHOICES, np.unravel_index(number, SIZES), strict=True)
        )
        subject, seconds, (times, more_s), stage, worker, phase, work, device = chosen
        ends_s[subject] += times * seconds + more_s
        name = f"{subject}#{worker}"
        found.append(
            Round(ends_s[subject], stage, name, subject, phase, seconds, work, device=device, **IDLE)
        )
    return found


def recorded():
    """Each round is one number: to draw what it is made of takes longer than the test."""
    return st.lists(st.integers(0, prod(SIZES) - 1), max_size=30).map(rounds_of)


def together(records):
    rows = Rows.of_records(Round, records)
    table = RoundTable(rows.columns)
    rounds = {one: Rounds(table, rows.places(one)) for one in SUBJECTS}
    return StageRounds(rounds, list(SUBJECTS.values()), KINDS)


def outcome(look):
    try:
        return look().records()
    except NotMeasured as reason:
        return reason.reason


@given(recorded())
def test_each_has_its_own_rounds_or_the_reason_why_they_do_not_count(records):
    rounds = together(records)
    for subject, device in SUBJECTS.items():
        assert rounds.all[subject].records() == [one for one in records if one.subject == subject]
        for stage in (*STAGES, "sharing"):
            own = [
                one
                for one in records
                if (one.subject, one.stage) == (subject, stage) and one.device in (None, device)
            ]
            alone = outcome(lambda own=own, stage=stage: require_valid(Rounds.of_records(own), stage, KINDS))
            assert outcome(lambda of=(subject, stage): rounds.valid(*of)) == alone


@given(recorded())
def test_only_valid_rounds_are_in_groups_and_each_in_that_of_its_device_and_stage(records):
    rounds = together(records)
    of_each = list(rounds.numbers)
    found = {of: [] for of in of_each}
    for row, group in zip(rounds.rows.tolist(), rounds.groups.tolist(), strict=True):
        found[of_each[group]] += Rounds(rounds.table, slice(row, row + 1)).records()
    for of, own in found.items():
        valid = outcome(lambda of=of: rounds.valid(*of))
        assert own == ([] if isinstance(valid, str) else valid)


@pytest.mark.parametrize("order", ["abcd", "dcba", "cadb"])
@pytest.mark.parametrize("workers", ["xyxy", "yxyx", "xxyy", "yyxx"])
def test_devices_that_work_at_the_same_time_do_not_overlap_whatever_their_workers_are_called(workers, order):
    subjects = dict(zip("abcd", workers, strict=True))
    records = [
        Round(t_s, "gemm", subjects[subject], subject, "measure", 1.0, 1.0, device="cuda", **IDLE)
        for t_s in (1.0, 2.0)
        for subject in order
    ]
    rows = Rows.of_records(Round, records)
    table = RoundTable(rows.columns)
    rounds = {one: Rounds(table, rows.places(one)) for one in subjects}
    found = StageRounds(rounds, ["cuda"] * len(subjects), KINDS)
    assert len(found.rows) == len(records)


@pytest.mark.parametrize("place", [0, 5])
def test_one_impossible_round_concerns_its_own_device_and_stage_only(place):
    records = [
        Round(float(end), stage, f"{subject}#0", subject, "measure", 0.5, 1.0, **IDLE)
        for stage in ("gemm", "training")
        for subject in SUBJECTS
        for end in range(1, 4)
    ]
    bad = records[3 * place]
    rounds = together([replace(one, seconds=-1.0) if one is bad else one for one in records])
    found = {of: outcome(lambda of=of: rounds.valid(*of)) for of in rounds.numbers}
    assert [of for of, one in found.items() if isinstance(one, str)] == [(bad.subject, bad.stage)]


@pytest.mark.parametrize(
    ("work", "seconds"), [(1e15, 5e-324), (1e13, 0.5), (np.inf, 1.0), (1.0, 1e300), (1e300, np.nan)]
)
def test_a_round_whose_rate_is_not_finite_or_out_of_all_reason_is_no_measurement(work, seconds):
    sound = Round(1.0, "gemm", "a#0", "a", "measure", 0.5, 1.0, **IDLE)
    rounds = together([sound, replace(sound, t_s=9.0, work=work, seconds=seconds)])
    said = f"a round reports {work:g} TFLOP in {seconds:g} s at t=9 s, which is not a valid measurement"
    assert outcome(lambda: rounds.valid("a", "gemm")) == said
    assert not len(rounds.every)


@given(recorded(), st.data())
def test_the_parts_of_rounds_are_what_selecting_them_one_by_one_gives(records, data):
    kinds = st.sampled_from([*product([1.0, 2.0], ["fp16", "bf16", "fp8"])])
    drawn = data.draw(st.lists(kinds, min_size=len(records), max_size=len(records)))
    rounds = together(
        [
            replace(one, work=work, labels=LABELS | {"precision": precision})
            for one, (work, precision) in zip(records, drawn, strict=True)
        ]
    )
    counted = rounds.every.same("phase", "measure")
    parts = rounds.parts(counted, "precision")
    sums = zip(parts.sums(parts.rounds.work), parts.sums(parts.rounds.seconds), strict=True)
    found = {
        key: (own.records(), pytest.approx(work / seconds))
        for key, own, (work, seconds) in zip(parts.keys, parts, sums, strict=True)
    }
    expected = {}
    for of in rounds.numbers:
        try:
            measured = rounds.valid(*of).measured
        except NotMeasured:
            continue
        for precision in measured.distinct_labels("precision"):
            own = measured.only(measured.labelled("precision", precision))
            expected[of, precision] = (own.records(), own.rate())
        fastest = {name: pytest.approx(rate) for name, rate in rounds.fastest(*of).items()}
        assert dict(rounds.valid(*of).fastest) == fastest
    assert found.keys() == expected.keys()
    assert all(found[key] == expected[key] for key in found)


# Units


RATES = {
    "gemm": "throughput.gemm_bf16",
    "sustained": "throughput.sustained",
    "training": "training.step",
    "sharing": "scaling.sharing",
}


@pytest.mark.parametrize("unit", ["GB", "GFLOP"])
@pytest.mark.parametrize("stage", RATES)
def test_a_round_in_another_unit_than_its_stage_counts_in_is_no_measurement(bench, stage, unit):
    bench.rounds("pc1/gpu0", stage, unit=unit)
    found = bench.verdict(RATES[stage], "pc1/gpu0")
    assert found.outcome is Outcome.NOT_MEASURED
    assert f" {unit} in " in found.detail
    assert "of a stage whose work is counted in TFLOP, which is not a valid measurement" in found.detail
    assert bench.verdict(RATES[stage], "pc2/gpu0").outcome is not Outcome.NOT_MEASURED


# Labels


@pytest.mark.parametrize(
    ("precision", "said"), [(None, "without its precision"), ("fp99", "with 'fp99' as its precision")]
)
def test_a_round_whose_labels_are_not_those_of_its_stage_is_no_measurement(bench, precision, said):
    bench.rounds("pc1/gpu0", "feeding", precision=precision)
    found = bench.verdict("feeding.idle_gaps", "pc1/gpu0")
    assert found.outcome is Outcome.NOT_MEASURED
    assert f"{said}, which is not a valid measurement" in found.detail
    assert bench.verdict("feeding.idle_gaps", "pc2/gpu0").outcome is Outcome.PASS


@pytest.mark.parametrize("kind", KINDS.kinds, ids=lambda kind: kind.name)
def test_every_label_that_a_stage_declares_is_needed_but_those_that_it_calls_optional(kind):
    labels = {one.name: (one.values or ("a",))[0] if one.kind is str else 1 for one in kind.labels}
    assert KINDS.misfit(kind.name, labels) == ""
    for one in kind.labels:
        lacking = {name: value for name, value in labels.items() if name != one.name}
        assert KINDS.misfit(kind.name, lacking) == ("" if one.optional else f"without its {one.name}")
        assert KINDS.misfit(kind.name, labels | {one.name: True}) == f"with True as its {one.name}"


@pytest.mark.parametrize(
    ("stage", "label", "other"),
    [("gemm", "size", 512), ("sustained", "size", 512), ("sharing", "size", 2048), ("gemm", "size", 4096)],
)
def test_a_label_that_is_not_what_the_worker_was_told_is_not_believed(bench, stage, label, other):
    told = {worker: {"size": 1024} for worker in ("pc1/gpu0#0", "pc1/gpu0#1")}
    bench.stage(stage, settings={"specs": told})
    device = Evidence(bench.recording, bench.loaded).device("pc1/gpu0")
    assert len(device.rounds(stage))
    bench.rounds("pc1/gpu0", stage, **{label: other})
    device = Evidence(bench.recording, bench.loaded).device("pc1/gpu0")
    with pytest.raises(NotMeasured, match=f"rounds state size {other}, and .* were told to do size 1024"):
        device.rounds(stage)


def test_a_device_that_ran_out_of_memory_may_do_smaller_products_and_no_larger_ones(bench):
    bench.stage("sustained", settings={"specs": {"pc1/gpu0#0": {"size": 1024}}})
    bench.event("oom", "pc1/gpu0", "CUDA out of memory", t_s=32.0, stage="sustained")
    for size, believed in ((512, True), (2048, False)):
        bench.rounds("pc1/gpu0", "sustained", size=size)
        device = Evidence(bench.recording, bench.loaded).device("pc1/gpu0")
        with nullcontext() if believed else pytest.raises(NotMeasured):
            assert len(device.rounds("sustained"))
