"""Records as columns are read like the list of the same records."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rigproof.records.disk.bulk import FEWEST, BulkReader

from rigproof.records.disk.collecting import Collector, kinds_of
from rigproof.records.disk.reading import record_of_line
from rigproof.records.identity import RunInfo
from rigproof.records.measurements import TFLOP, MemoryReading, Round, Stage
from rigproof.records.recording import Recording
from rigproof.stages.feeding.records import RewardBatch

ROUND = Round(
    1.0, "gemm", "a/gpu0#0", "a/gpu0", "measure", 0.5, 330.0, TFLOP, True, {"precision": "bf16", "size": 8192}
)
ROUNDS = st.lists(
    st.builds(
        replace,
        st.just(ROUND),
        t_s=st.floats(0, 1e4),
        subject=st.sampled_from(["a/gpu0", "b/gpu0", "c/gpu0"]),
        device=st.sampled_from([None, "cuda", "cpu"]),
        batch=st.none() | st.integers(1, 10**6),
        verified=st.booleans(),
    ),
    max_size=40,
)


def rows_of(records):
    collector = Collector(Round)
    for one in records:
        collector.add_record(one)
    return collector.rows()


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
        assert rows.values(subject, "batch") == [one.label("batch") for one in own]
        assert rows.moments(subject) == [one.t_s for one in own]
    assert rows.of("nobody") == []


def test_what_is_appended_is_behind_the_others():
    rows = rows_of([ROUND])
    later = replace(ROUND, t_s=2.0, subject="b/gpu0")
    rows.append(later)
    assert rows == [ROUND, later]
    assert rows[1] == rows[-1] == later
    assert rows.of("b/gpu0") == [later]
    assert rows.subjects() == ["a/gpu0", "b/gpu0"]
    assert rows.moments("a/gpu0") is None


def test_numbers_beyond_a_code_of_two_bytes_stay_numbers():
    records = [replace(ROUND, t_s=place / 3) for place in range(70_000)]
    rows = rows_of(records)
    assert rows.moments("a/gpu0") == [one.t_s for one in records]
    assert rows.column("t_s").tolist() == [one.t_s for one in records]
    assert rows.column("work").tolist() == [330.0] * len(records)


def test_a_record_with_other_fields_cannot_be_columns():
    with pytest.raises(TypeError, match="workers"):
        kinds_of(Stage)


def lines_of(records, *, ensure_ascii=True):
    tags = {Round: "round", MemoryReading: "memory", RewardBatch: "rewards"}
    return [
        json.dumps(
            {"type": tags[type(one)], **asdict(one)}, separators=(",", ":"), ensure_ascii=ensure_ascii
        ).encode()
        + b"\n"
        for one in records
    ]


def take(bulk, lines):
    """The lines that are left."""
    block = bulk.read(b"".join(lines))
    bulk.keep(block)
    assert block.lines == len(lines)
    return block.left


def put(bulk):
    recording = Recording(RunInfo("r", "", "quick", "", "", {}, ()))
    bulk.put_into(recording)
    return recording


def test_plain_lines_are_read_by_the_block_and_others_are_left():
    rounds = [
        replace(ROUND, t_s=float(place), device="cpu" if place % 2 else None) for place in range(FEWEST)
    ]
    reading = MemoryReading(1.0, "gemm", "a/gpu0#0", "a/gpu0", 1.0, 2.0, 3.0, None, 4.0)
    memory = [replace(reading, ooms=place) for place in range(99)]
    lines = [b'{"type":"event"}\n', *lines_of(rounds), b"no record\n", *lines_of(memory)]
    bulk = BulkReader()
    assert take(bulk, lines) == [(0, lines[0]), (FEWEST + 1, lines[FEWEST + 1])]
    recording = put(bulk)
    assert recording.rounds == rounds
    assert recording.memory == memory
    assert recording.of(RewardBatch) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('"t_s":1.0', '"t_s":null'),
        ('"t_s":1.0', '"t_s":"1"'),
        ('"t_s":1.0', '"t_s":NaN'),
        ('"t_s":1.0,', ""),
        ('"size":8192', '"size":8192.5'),
        ('"phase":"measure"', '"phase":"rest"'),
        ('"device":null', '"device":"tpu"'),
        ('"part":""', '"part":null'),
        ('"verified":true', '"verified":1'),
        ('"worker":"a/gpu0#0"', '"worker":"\udcff"'),
        ("}", ""),
        ("}", "}{}"),
    ],
)
def test_a_block_with_a_line_that_is_refused_by_itself_is_left_whole(right, wrong):
    lines = lines_of([ROUND] * FEWEST)
    lines[7] = lines[7].replace(right.encode(), wrong.encode(errors="surrogateescape"))
    bulk = BulkReader()
    assert take(bulk, lines) == list(enumerate(lines))
    with pytest.raises(ValueError, match=r"."):
        record_of_line(lines[7])


NUMBER_BYTES = frozenset(b"0123456789+-.eE")  # Arrow reads a few numbers that JSON has not, such as `1.`
ODD = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(
    st.lists(
        st.builds(
            replace,
            st.just(ROUND),
            t_s=st.floats(allow_nan=False, allow_infinity=False),
            work=st.floats(allow_nan=False, allow_infinity=False),
            worker=ODD,
            part=ODD | st.sampled_from(["", ",", '"', "\\", "\n", "é"]),
            device=st.sampled_from([None, "cpu", "cuda"]),
            steps=st.none() | st.integers(-(2**63), 2**63 - 1),
            verified=st.booleans(),
        ),
        min_size=FEWEST,
        max_size=FEWEST + 3,
    ),
    st.booleans(),
)
def test_what_is_read_by_the_block_is_what_each_line_says(records, escaped):
    bulk = BulkReader()
    for _, line in take(bulk, lines_of(records, ensure_ascii=escaped)):
        bulk.add(record_of_line(line))
    assert put(bulk).rounds == records


@given(
    st.integers(0, 10**6), st.integers(0, 255).filter(lambda byte: byte not in NUMBER_BYTES), st.booleans()
)
def test_a_block_takes_no_line_that_is_refused_by_itself(place, byte, instead):
    lines = lines_of([ROUND] * FEWEST)
    place %= len(lines[7]) - 1
    lines[7] = lines[7][:place] + bytes([byte]) + lines[7][place + instead :]
    bulk = BulkReader()
    block = bulk.read(b"".join(lines))
    if not block.left:
        bulk.keep(block)
        assert put(bulk).rounds[7] == record_of_line(lines[7])


def test_cells_that_never_come_twice_are_forgotten_and_two_threads_may_read(monkeypatch):
    monkeypatch.setattr("rigproof.records.disk.plain_lines.REMEMBERED", 8)
    rounds = [replace(ROUND, size=place) for place in range(200 * FEWEST)]
    blocks = [b"".join(lines_of(rounds[start : start + FEWEST])) for start in range(0, len(rounds), FEWEST)]
    bulk = BulkReader()
    with ThreadPoolExecutor(4) as pool:
        for block in pool.map(bulk.read, blocks):
            assert block.left == []
            bulk.keep(block)
    assert put(bulk).rounds == rounds


def test_the_last_line_may_lack_its_end():
    lines = lines_of([ROUND] * (FEWEST + 1))
    bulk = BulkReader()
    assert take(bulk, [*lines[:-1], lines[-1][:-9]]) == list(enumerate([*lines[:-1], lines[-1][:-9]]))
    assert take(bulk, []) == []
    assert take(bulk, [*lines[:-1], lines[-1][:-1]]) == []
    assert put(bulk).rounds == [ROUND] * (FEWEST + 1)


def test_a_field_with_a_default_may_be_missing():
    lines = [one.replace(b',"part":"","device":null', b"") for one in lines_of([ROUND] * FEWEST)]
    bulk = BulkReader()
    assert take(bulk, lines) == []
    assert put(bulk).rounds == [ROUND] * FEWEST
