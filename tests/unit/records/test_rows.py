"""Records as columns are read like the list of the same records."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.records import rows as rows_module
from rigproof.records.columns import Coded
from rigproof.records.fields import kinds_of, table_name
from rigproof.records.measurements import TFLOP, MemoryReading, Round, Stage
from rigproof.records.rows import Rows, TableError
from rigproof.records.samples import HostSample
from rigproof.stages.feeding.stage import RewardBatch

ROUND = Round(
    1.0, "gemm", "a/gpu0#0", "a/gpu0", "measure", 0.5, 330.0, TFLOP, True, {"precision": "bf16", "size": 8192}
)
BATCHES = st.integers(1, 10**6)
ROUNDS = st.lists(
    st.builds(
        replace,
        st.just(ROUND),
        t_s=st.floats(0, 1e4),
        subject=st.sampled_from(["a/gpu0", "b/gpu0", "c/gpu0"]),
        device=st.sampled_from([None, "cuda", "cpu"]),
        labels=st.fixed_dictionaries(
            {"precision": st.sampled_from(["bf16", "fp32"])}, optional={"batch": BATCHES}
        ),
        verified=st.booleans(),
    ),
    max_size=40,
)


def rows_of(records):
    return Rows.of_records(Round, records)


@given(records=ROUNDS)
def test_rows_are_read_like_a_list(records):
    rows = rows_of(records)
    assert rows == records
    assert list(rows) == records
    assert rows[-3:] == records[-3:]
    assert [rows[place] for place in range(len(rows))] == records
    for subject in rows.subjects():
        own = [one for one in records if one.subject == subject]
        assert rows.of(subject) == own
        assert rows.numbers(subject, "t_s").tolist() == [one.t_s for one in own]
    assert rows.of("nobody") == []


def test_what_is_appended_is_behind_the_others():
    rows = rows_of([ROUND])
    later = replace(ROUND, t_s=2.0, subject="b/gpu0")
    rows.append(later)
    assert rows == [ROUND, later]
    assert rows[1] == rows[-1] == later
    assert rows.of("b/gpu0") == [later]
    assert rows.subjects() == ["a/gpu0", "b/gpu0"]
    assert rows.numbers("a/gpu0", "t_s").tolist() == [1.0]


def test_numbers_beyond_a_code_of_two_bytes_stay_numbers():
    records = [replace(ROUND, t_s=place / 3) for place in range(70_000)]
    rows = rows_of(records)
    assert rows.numbers("a/gpu0", "t_s").tolist() == [one.t_s for one in records]
    assert rows.column("t_s").tolist() == [one.t_s for one in records]
    assert rows.column("work").tolist() == [330.0] * len(records)


def test_a_record_with_other_fields_cannot_be_columns():
    with pytest.raises(TypeError, match="workers"):
        kinds_of(Stage)


@given(records=ROUNDS, cuts=st.lists(st.integers(0, 40), max_size=3), waiting=st.integers(1, 9))
def test_rows_that_grew_are_those_that_were_there_at_once(records, cuts, waiting):
    """Whenever columns were asked for meanwhile, and however many records may wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "WAITING", waiting)
        rows = Rows(Round)
        for place, one in enumerate(records):
            rows.append(one)
            if place in cuts:
                rows.subjects()
    assert rows == records
    assert rows.since(5e3) == [one for one in records if one.t_s >= 5e3]
    assert rows.only(["a/gpu0", "x"]) == [one for one in records if one.subject == "a/gpu0"]
    assert rows.last_s() == max((one.t_s for one in records), default=None)


def test_a_column_of_one_value_stays_it_whatever_is_taken():
    column = Coded.of(["x"] * 5)
    for taken in (column.taken(np.asarray([4, 0, 0])), column.taken(slice(1, 4))):
        assert taken.plain(slice(None)) == ["x"] * 3
        assert taken.joined(Coded.of(["y"])).plain(slice(None)) == ["x", "x", "x", "y"]


def test_a_copy_grows_by_itself():
    rows = rows_of([ROUND])
    other = copy(rows)
    other.append(replace(ROUND, t_s=2.0))
    assert (len(rows), len(other)) == (1, 2)
    rows.append(replace(ROUND, t_s=3.0))
    assert [one.t_s for one in rows] == [1.0, 3.0]
    assert [one.t_s for one in other] == [1.0, 2.0]


def test_lists_stay_lists_when_more_are_put_behind_them():
    samples = [
        HostSample(1.0, "a", core_percent=(1.0, 2.0)),
        HostSample(2.0, "a"),
        HostSample(3.0, "b", 5.0, ()),
    ]
    rows = Rows(HostSample)
    for one in samples:
        rows.append(one)
        rows.subjects()
    assert rows == samples


def test_a_table_is_called_after_its_type():
    assert [table_name(one) for one in (Round, MemoryReading, RewardBatch)] == [
        "round",
        "memory_reading",
        "reward_batch",
    ]


def raw(**columns):
    """A reward batch's table of one row as a file holds it, with some columns changed or (None) left out."""
    record = RewardBatch(1.0, "feeding", "w", "a", "parallel", 8, 16, 0, 0, 0, 0, 0.1)
    typed = Rows.of_records(RewardBatch, [record])
    kinds = {one.name: one.kind for one in kinds_of(RewardBatch)}
    held = dict(typed.columns)
    for name, column in columns.items():
        del kinds[name], held[name]
        if column is not None:
            kinds[name], held[name] = column
    return Rows(None, held, kinds)


def test_a_table_gives_records_of_the_type_that_is_asked_for():
    (one,) = raw().typed(RewardBatch)
    assert (one.mode, one.processes, one.matches) == ("parallel", 8, None)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"seconds": None}, "column seconds is missing"),
        ({"seconds": (str, Coded.of(["x"]))}, "column seconds holds str, not float"),
        ({"processes": (int, Coded.of([None]))}, "a row has no processes"),
        ({"mode": (str, Coded.of(["both"]))}, "mode = 'both' is not one of sequential, parallel"),
    ],
)
def test_a_table_of_something_else_is_refused_where_its_records_are_asked_for(changed, expected):
    with pytest.raises(TableError, match=expected):
        raw(**changed).typed(RewardBatch)
