"""The rounds of a device as columns: what they are, overlap, and are a stretch of."""

from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.evidence.rounds import NAMES, Rounds, overlaps, unbroken
from rigproof.records.measurements import TFLOP, Round
from rigproof.records.rows import Rows
from rigproof.stages.registry import KINDS

STAGES, PARTS = ("gemm", "sustained"), ("measure", "warmup", "other")
SHARED = ((1, 0), (2, 0), (2, 1), (3, 0))  # processes, and which of them
# Each takes some away: by a value, by two values, by a value that none has, and by what is measured.
STEPS = {
    "stage": (lambda found: found.same("stage", "gemm"), lambda one: one.stage == "gemm"),
    "parts": (
        lambda found: found.labelled("part", "warmup", None),
        lambda one: one.label("part") in ("warmup", None),
    ),
    "none": (lambda found: found.labelled("part", "nobody's"), lambda _: False),
    "all": (lambda found: found.labelled("size", 1, 2, 3), lambda _: True),
    "device": (lambda found: found.same("device", None, "cuda"), lambda one: one.device != "cpu"),
    "late": (lambda found: found.t_s > 50, lambda one: one.t_s > 50),
    "long": (lambda found: found.seconds >= 1, lambda one: one.seconds >= 1),
}
SPANS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.sampled_from([0.1, 0.5, 4.0])),
    max_size=20,
)


def rounds():
    labels = st.fixed_dictionaries(
        {"precision": st.sampled_from(["bf16", "fp32"]), "size": st.integers(1, 3)},
        optional={"part": st.sampled_from(PARTS)},
    )
    return st.lists(
        st.builds(
            Round,
            t_s=st.floats(0, 100),
            subject=st.sampled_from(["a", "b"]),
            worker=st.just("w"),
            stage=st.sampled_from(STAGES),
            phase=st.sampled_from(["warmup", "measure"]),
            labels=labels,
            seconds=st.floats(0.01, 2),
            work=st.floats(0, 10),
            unit=st.just(TFLOP),
            verified=st.booleans(),
            device=st.sampled_from([None, "cuda", "cpu"]),
        ),
        max_size=12,
    )


@given(rounds())
def test_rounds_are_chosen_by_all_of_their_labels(records):
    both = [one for one in records if (one.label("precision"), one.label("part")) == ("bf16", "warmup")]
    assert Rounds.of_records(records).having(precision="bf16", part="warmup").records() == both


def test_rounds_are_of_one_kind_where_the_labels_are_that_their_stage_says_make_them_so():
    """In sharing the precision and the number of processes do, and not which of the processes it was."""
    works = [(number, process, precision) for number, process in SHARED for precision in ("bf16", "fp32")]
    recorded = [
        replace(
            one, stage="sharing", labels=dict(zip(("processes", "process", "precision"), work, strict=True))
        )
        for work in works
        for one in in_seconds([0.5, 0.5])
    ]
    same = [(number, precision) for number, _, precision in works for _ in range(2)]
    numbers = Rounds.of_records(recorded).work_ids(KINDS).tolist()
    assert len(set(numbers)) == len(set(same)) == len(set(zip(numbers, same, strict=True)))


@pytest.mark.parametrize("held", ["as columns", "as records"])
@given(rounds(), st.lists(st.sampled_from(list(STEPS)), max_size=4))
def test_what_is_left_after_any_steps_is_what_the_records_leave(held, recorded, steps):
    own = [one for one in recorded if one.subject == "a"]
    found = Rounds.of_subject(rows_of(recorded), "a") if held == "as columns" else Rounds.of_records(own)
    for name in steps:
        mask, is_wanted = STEPS[name]
        found, own = found.only(mask(found)), [one for one in own if is_wanted(one)]
    assert found.records() == own
    assert len(found) == len(own)
    assert found.verified.records() == [one for one in own if one.verified]
    for name in NAMES:
        assert found.all(name) == [getattr(one, name) for one in own]
    assert found.distinct_labels("precision") == {one.label("precision") for one in own}
    assert found.begins_s.tolist() == pytest.approx([one.t_s - one.seconds for one in own])


@given(rounds())
def test_the_fastest_round_of_each_precision_is_known_whatever_else_it_is_labelled(recorded):
    expected: dict[str, float] = {}
    for one in recorded:
        name = str(one.label("precision"))
        expected[name] = max(expected.get(name, 0.0), one.work / one.seconds)
    found = Rounds.of_records(recorded).fastest
    assert list(found.items()) == sorted(expected.items())


def rows_of(records) -> Rows:
    return Rows.of_records(Round, records)


def in_seconds(seconds):
    return [
        Round(
            float(end), "gemm", "w", "a", "measure", one, 1.0, TFLOP, True, {"precision": "bf16", "size": 1}
        )
        for end, one in enumerate(seconds)
    ]


@pytest.mark.parametrize(
    ("number", "slow", "left"), [(9, 1, 9), (10, 1, 9), (19, 1, 18), (20, 2, 18), (20, 3, 18), (3, 3, 3)]
)
def test_a_tenth_of_the_rounds_may_be_a_hiccup(number, slow, left):
    kept = Rounds.of_records(in_seconds([9.0] * slow + [1.0] * (number - slow))).without_hiccups()
    assert len(kept) == left
    assert sorted(kept.seconds)[-1] == (1.0 if left <= number - slow else 9.0)


def test_the_slowest_rounds_are_those_with_the_lowest_rate_not_the_longest():
    longest = replace(in_seconds([1.0])[0], seconds=5.0, work=10.0)
    rounds = [*in_seconds([1.0] * 4), longest, *in_seconds([1.0] * 4), *in_seconds([1.5])]
    assert sorted(Rounds.of_records(rounds).without_hiccups().seconds) == [*[1.0] * 8, 5.0]


def test_a_rate_is_work_over_time_without_hiccups():
    assert Rounds.of_records(in_seconds([1.0, 1.0, 4.0])).rate() == pytest.approx(0.5)
    assert Rounds.of_records(in_seconds([1.0] * 8 + [4.0] * 2)).rate() == pytest.approx(9 / 12)


@given(rounds())
def test_rounds_by_labels_are_all_rounds_in_the_order_of_the_first_of_each(recorded):
    found = Rounds.of_records(recorded).by_labels("precision", "part")
    keys = [(one.label("precision"), one.label("part")) for one in recorded]
    assert list(found) == list(dict.fromkeys(keys))
    for key, own in found.items():
        assert own.records() == [one for one, its in zip(recorded, keys, strict=True) if its == key]


def one_after_the_other(count=40, seconds=0.5, late_s=(), worker="w", stage="gemm", from_s=10.0, **labels):
    """Rounds that a device does without a break; `late_s`: by how much the host reports some of them late."""
    late = dict(late_s)
    ends = [from_s + (n + 1) * seconds for n in range(count)]
    ends_s = list(accumulate((end + late.get(n, 0.0) for n, end in enumerate(ends)), max))
    ends_s = [max(end, one + place * 1e-6) for place, (end, one) in enumerate(zip(ends, ends_s, strict=True))]
    fields = (stage, worker, "a", "measure", seconds, 1.0, TFLOP, True)
    return [Round(t_s, *fields, {"precision": "bf16", "size": 1, **labels}) for t_s in ends_s]


def shared_by(process):
    return one_after_the_other(stage="sharing", processes=2, process=process)


def overlaps_of(recorded):
    rounds = Rounds.of_records(recorded)
    return overlaps(rounds.process_ids(KINDS), rounds.t_s, rounds.seconds)


@pytest.mark.parametrize(
    "recorded",
    [
        one_after_the_other(),
        one_after_the_other(worker="v") + one_after_the_other(worker="w"),
        shared_by(0) + shared_by(1),
        # a host that stands still while the device goes on with what was queued, now and then
        one_after_the_other(late_s=[(5, 0.9), (20, 0.4), (30, 0.9)]),
        one_after_the_other(count=20) + one_after_the_other(count=20, seconds=0.7, from_s=30.0),
        one_after_the_other(count=4000, seconds=0.1 * 1.0005),  # a device's clock is no atomic one
    ],
    ids=["alone", "two workers", "two processes", "a late host", "two arms", "for long"],
)
def test_rounds_that_a_device_did_one_after_the_other_do_not_overlap(recorded):
    assert max(overlaps_of(recorded)) <= 0


@pytest.mark.parametrize(
    ("recorded", "surplus_s"),
    [
        (one_after_the_other() * 2, 18.5),
        (one_after_the_other() + one_after_the_other(from_s=10.1), 18.3),
        ([replace(one, seconds=0.7) for one in one_after_the_other()], 5.7),
        (
            one_after_the_other(stage="training", part="precision")
            + one_after_the_other(stage="training", part="sweep", from_s=10.2),
            18.3,
        ),
        # one that was recorded twice, in the middle of others
        (one_after_the_other() + one_after_the_other()[7:8], 0.5),
    ],
    ids=["all twice", "two of one name", "too long", "two parts of one worker", "one twice"],
)
def test_rounds_of_one_process_that_overlap_are_found_with_how_long(recorded, surplus_s):
    assert max(overlaps_of(recorded)) == pytest.approx(surplus_s, abs=0.15)


@given(SPANS)
def test_overlaps_of_several_processes_are_those_of_each(spans):
    processes = np.asarray([one for one, _, _ in spans], np.intp)
    t_s, seconds = (np.asarray([one[place] for one in spans], float) for place in (1, 2))
    found = overlaps(processes, t_s, seconds)
    for process in range(3):
        own = processes == process
        assert found[own].tolist() == overlaps(processes[own], t_s[own], seconds[own]).tolist()


def stretches(*spans, joining_s=0.25):
    """Of rounds given as when each began and ended, and its work."""
    begins_s, ends_s, work = np.asarray(spans, float).T
    return unbroken(begins_s, ends_s, work.astype(np.intp), joining_s)


def test_rounds_are_one_stretch_unless_there_is_a_break_or_other_work():
    assert stretches((0, 1, 1), (1.2, 2, 1), (2, 3, 1)) == [(0, 3)]
    assert stretches((0, 1, 1), (1.3, 2, 1)) == [(0, 1), (1.3, 2)]
    assert stretches((0, 1, 1), (1, 2, 2), (2, 3, 1)) == [(0, 1), (1, 2), (2, 3)]


def test_a_stretch_lasts_as_long_as_its_longest_round_in_whatever_order_they_came():
    assert stretches((0.5, 1, 1), (0, 3, 1), (3.1, 4, 1)) == [(0, 4)]


def test_of_what_is_fed_no_break_counts():
    assert stretches((0, 1, 1), (9, 10, 1), joining_s=np.inf) == [(0, 10)]


def test_without_rounds_there_is_no_stretch():
    nothing = np.empty(0)
    assert unbroken(nothing, nothing, nothing.astype(np.intp)) == []
