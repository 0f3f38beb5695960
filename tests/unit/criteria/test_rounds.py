"""Rounds as columns say what the records say, however they were narrowed down before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.rounds import NAMES, Rounds
from rigproof.records.collecting import Collector
from rigproof.records.measurements import Round
from rigproof.records.rows import Rows

STAGES, PARTS = ("gemm", "sustained"), ("measure", "warmup", "other")


def rounds():
    return st.lists(
        st.builds(
            Round,
            t_s=st.floats(0, 100),
            subject=st.sampled_from(["a", "b"]),
            worker=st.just("w"),
            stage=st.sampled_from(STAGES),
            part=st.sampled_from(PARTS),
            precision=st.sampled_from(["bf16", "fp32"]),
            size=st.integers(1, 3),
            seconds=st.floats(0.01, 2),
            tflop=st.floats(0, 10),
            verified=st.booleans(),
            device=st.sampled_from([None, "cuda", "cpu"]),
        ),
        max_size=12,
    )


# Each takes some away: by a word, by two words, by a word that none has, and by what is measured.
STEPS = {
    "stage": (lambda found: found.same("stage", "gemm"), lambda one: one.stage == "gemm"),
    "parts": (lambda found: found.same("part", "warmup", "other"), lambda one: one.part != "measure"),
    "none": (lambda found: found.same("part", "nobody's"), lambda _: False),
    "all": (lambda found: found.same("size", 1, 2, 3), lambda _: True),
    "device": (lambda found: found.same("device", None, "cuda"), lambda one: one.device != "cpu"),
    "late": (lambda found: found.t_s > 50, lambda one: one.t_s > 50),
    "long": (lambda found: found.seconds >= 1, lambda one: one.seconds >= 1),
}


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
    assert found.verified().records() == [one for one in own if one.verified]
    for name in NAMES:
        assert found.all(name) == [getattr(one, name) for one in own]
    assert found.distinct("precision") == {one.precision for one in own}
    assert found.begins_s.tolist() == pytest.approx([one.t_s - one.seconds for one in own])


def rows_of(records) -> Rows:
    collector = Collector(Round)
    for one in records:
        collector.add_record(one)
    if not records:  # a column of no type has no words
        return Rows(Round, Rounds.of_records([])._columns)
    return collector.rows()
