"""Tables of samples from anywhere: what a few bytes can declare, and lengths that are not true."""

import contextlib
import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rigproof.records.columns import columns_of
from rigproof.records.disk import table_files
from rigproof.records.disk.table_files import ROWS_FREE, DamagedError, read_parts, read_table
from rigproof.records.disk.tables import KINDS, TELEMETRY, batches, schema_of, telemetry_schema
from rigproof.records.measurements import Round
from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample, HostSample
from support.stage_records import gemm_round

SAMPLE = GpuSample(1.0, "pc1/gpu0", power_w=300.0, core_temperature_c=61.0)
HOST = HostSample(1.0, "pc1", core_percent=(1.0, 2.0))
LAYOUT = telemetry_schema("run-1")


def batch(rows=3):
    return of_samples([*(replace(SAMPLE, t_s=float(row)) for row in range(rows)), HOST])


def of_samples(samples):
    """Samples in this order: a run writes those of GPUs first."""
    found = []
    for sample in samples:
        (kind,) = (kind for kind, record in KINDS.items() if isinstance(sample, record))
        rows = Rows(type(sample), columns_of(type(sample), [sample]))
        found += batches(rows, LAYOUT, kind)
    return pa.Table.from_batches(found).combine_chunks().to_batches()[0]


def parquet(table):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", row_group_size=1 << 30, data_page_size=1 << 30)
    return io.BytesIO(sink.getvalue().to_pybytes())


def samples(file):
    """The samples of GPUs and of hosts in a telemetry.parquet."""
    return list(read_table(lambda: file, TELEMETRY).rows.values())


def part(*rounds, run_id="run-1"):
    """A part of a table of rounds."""
    rows = Rows(Round, columns_of(Round, rounds))
    table = pa.Table.from_batches(batches(rows, schema_of(rows, "round", run_id)))
    return parquet(table).getvalue()


def rounds_of(*parts):
    found = read_parts([lambda one=one: io.BytesIO(one) for one in parts], "round")
    return list(found.rows["round"].typed(Round))


ROUND = gemm_round(1.0)
LABELLED = replace(ROUND, t_s=2.0, labels={"precision": "bf16", "batch": 3})


def test_a_table_holds_the_samples_that_were_written():
    read = read_table(lambda: parquet(pa.Table.from_batches([batch()])), TELEMETRY)
    gpus, hosts = read.rows.values()
    assert (len(gpus), list(hosts), read.run_id) == (3, [HOST], "run-1")


def test_parts_with_other_labels_are_one_table():
    assert rounds_of(part(ROUND), part(LABELLED), part(ROUND)) == [ROUND, LABELLED, ROUND]


def test_parts_of_two_runs_are_no_table():
    with pytest.raises(DamagedError, match="its parts are of several runs"):
        rounds_of(part(ROUND), part(ROUND, run_id="run-2"))


def test_parts_whose_columns_contradict_each_other_are_no_table():
    other = replace(LABELLED, labels={"batch": "three"})
    with pytest.raises(DamagedError, match=r"labels\.batch"):
        rounds_of(part(LABELLED), part(other))


def test_parts_that_hold_more_than_their_length_allows_are_refused(monkeypatch):
    monkeypatch.setattr(table_files, "PARTS_FREE", 100)
    monkeypatch.setattr(table_files, "PARTS_PER_BYTE", 0)
    with pytest.raises(DamagedError, match=r"\d+ bytes in its parts are more than any run writes"):
        rounds_of(part(ROUND), part(ROUND))


def repeated(rows):
    """A table that says the same again and again."""
    (first,) = batch(1).slice(0, 1).to_pylist()
    return pa.table([pa.repeat(pa.scalar(first[one.name], one.type), rows) for one in LAYOUT], schema=LAYOUT)


def test_rows_without_end_in_a_few_bytes_are_refused_before_they_are_read():
    bomb = parquet(repeated(500_000))
    assert len(bomb.getvalue()) < 50_000
    with pytest.raises(DamagedError, match=r"500000 rows in \d+ bytes are more than any run writes"):
        samples(bomb)


def test_lists_without_end_are_refused_too():
    lists = pa.ListArray.from_arrays(pa.array([0, 0, 0, 0, 3_000_000]), pa.array(np.zeros(3_000_000)))
    place = LAYOUT.get_field_index("core_percent")
    bomb = parquet(pa.Table.from_batches([batch()]).set_column(place, LAYOUT.field(place), lists))
    assert len(bomb.getvalue()) < 50_000
    with pytest.raises(DamagedError, match=r"30000\d\d values of lists in \d+ bytes are more than"):
        samples(bomb)


def test_a_table_whose_samples_differ_as_real_ones_do_is_read_whatever_its_length():
    rows = ROWS_FREE + 20_000
    times = pa.array(np.random.default_rng(0).normal(size=rows))
    table = repeated(rows).set_column(LAYOUT.get_field_index("t_s"), LAYOUT.field("t_s"), times)
    assert sum(map(len, samples(parquet(table)))) == rows


@pytest.mark.parametrize("name", ["kind", "subject", "t_s", "power_w", "core_percent"])
@pytest.mark.parametrize("kind", [pa.int8(), pa.large_string(), pa.list_(pa.string()), pa.null(), pa.bool_()])
def test_a_column_of_another_type_is_named(name, kind):
    table = pa.Table.from_batches([batch()])
    place = LAYOUT.get_field_index(name)
    with pytest.raises(DamagedError, match=f"column {name} (holds|is missing, or does not hold) "):
        samples(parquet(table.set_column(place, pa.field(name, kind), pa.nulls(4, kind))))


def test_text_that_is_no_text_is_refused():
    table = pa.Table.from_batches([batch()])
    place = LAYOUT.get_field_index("subject")
    wrong = pa.array([b"\xff\xfe"] * 4, pa.binary()).view(pa.string())
    with pytest.raises(DamagedError, match="utf-8"):
        samples(parquet(table.set_column(place, LAYOUT.field(place), wrong)))


def test_a_column_that_is_neither_optional_nor_required_does_not_end_the_process():
    """Found by bench/fuzz.py: pyarrow lets a C++ exception through where it is asked for a chunk of such."""
    whole = parquet(pa.Table.from_batches([batch(50)])).getvalue()
    optional_number = b"\x15\x0a\x25\x02"
    assert whole.count(optional_number) > 1
    with pytest.raises(DamagedError, match="histogram size mismatch"):
        samples(io.BytesIO(whole.replace(optional_number, b"\x15\x0a\x25\x42", 1)))


@pytest.mark.parametrize("first", [0, 100, 200, 300])
def test_a_footer_with_a_bit_that_flipped_is_read_or_refused(first):
    whole = parquet(pa.Table.from_batches([batch(50)])).getvalue()
    footer = whole.index(b"schema_version") - 4000
    for place in range(footer + first, len(whole), 401):
        with contextlib.suppress(DamagedError):
            samples(io.BytesIO(whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :]))


def test_lists_in_many_pieces_are_those_of_their_rows(monkeypatch):
    """Host samples among those of GPUs, some without a list, one with an empty one."""
    monkeypatch.setattr(table_files, "LISTS_AT_ONCE", 3)
    delays = [(0.1, 0.2), None, (), (0.3,), (0.1, 7.5, 0.1), None, (2.5,)]
    hosts = [replace(HOST, t_s=float(row), wakeup_delays_ms=one) for row, one in enumerate(delays)]
    every = [one for host in hosts for one in (SAMPLE, host, SAMPLE)]
    _, found = samples(parquet(pa.Table.from_batches([of_samples(every)])))
    assert found == hosts


def test_lists_are_read_from_the_file_once_they_are_needed(monkeypatch):
    monkeypatch.setattr(table_files, "EAGER_ROWS", 0)
    content, opened = parquet(pa.Table.from_batches([batch()])).getvalue(), []

    def opening():
        opened.append(io.BytesIO(content))
        return opened[-1]

    hosts = read_table(opening, TELEMETRY).rows["host_sample"]
    assert len(opened) == 1
    for _ in range(2):
        assert hosts.of("pc1") == [HOST]
        assert all(one.closed for one in opened)
        assert len(opened) == 3  # columns of lists


def test_lists_that_turn_out_to_be_damaged_later_are_refused_too(monkeypatch):
    monkeypatch.setattr(table_files, "EAGER_ROWS", 0)
    files = [parquet(pa.Table.from_batches([batch()])), io.BytesIO(b"something else")]
    hosts = read_table(lambda: files.pop(0), TELEMETRY).rows["host_sample"]
    with pytest.raises(DamagedError):
        hosts.of("pc1")
