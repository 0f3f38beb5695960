"""Tables of samples from anywhere: what a few bytes can declare, and lengths that are not true."""

import contextlib
import io
import struct
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rigproof.records.disk import sample_tables, tables
from rigproof.records.disk.tables import ROWS_FREE, DamagedError, samples_from_parquet, samples_from_stream
from rigproof.records.samples import GpuSample, HostSample

SAMPLE = GpuSample(1.0, "pc1/gpu0", power_w=300.0, core_temperature_c=61.0)
HOST = HostSample(1.0, "pc1", core_percent=(1.0, 2.0))
LAYOUT = sample_tables.schema("run-1")


def batch(rows=3):
    return sample_tables.batch([*(replace(SAMPLE, t_s=float(row)) for row in range(rows)), HOST], "run-1")


def stream(*batches, compression=None):
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, LAYOUT, options=options) as writer:
        for one in batches:
            writer.write_batch(one)
    return sink.getvalue().to_pybytes()


def parquet(table):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", row_group_size=1 << 30, data_page_size=1 << 30)
    return io.BytesIO(sink.getvalue().to_pybytes())


def test_a_stream_and_a_table_hold_the_same():
    table = pa.Table.from_batches([batch()])
    read = samples_from_parquet(parquet(table))
    assert read == samples_from_stream(io.BytesIO(stream(batch())))
    assert (read.rows, read.run_id, read.host) == (4, "run-1", [HOST])


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_compressed_batch_is_not_unpacked(compression):
    """A kilobyte of it could be gigabytes; no run writes one."""
    data = stream(batch(), batch(50), compression=compression)
    read = samples_from_stream(io.BytesIO(data))
    assert (read.rows, read.whole) == (0, False)


def test_a_batch_of_more_rows_than_it_holds_is_where_the_stream_breaks_off():
    """Arrow's reader believes the length and would read behind the end of its buffers."""
    whole = stream(batch(3), batch(4))
    stated = struct.pack("<qq", 5, 0)  # the length and null count of the second batch's first column
    lying = whole.replace(stated, struct.pack("<qq", 5_000_000, 0))
    assert lying != whole
    read = samples_from_stream(io.BytesIO(lying))
    assert (read.rows, read.whole) == (4, False)


def test_a_dictionary_in_a_stream_is_nothing_that_a_run_writes():
    extra = pa.DictionaryArray.from_arrays(pa.array([0, 0, 0, 0]), pa.array(["x"]))
    layout = LAYOUT.append(pa.field("extra", extra.type))
    rows = pa.RecordBatch.from_arrays([*batch().columns, extra], schema=layout)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, layout) as writer:
        writer.write_batch(rows)
    read = samples_from_stream(io.BytesIO(sink.getvalue().to_pybytes()))
    assert (read.rows, read.whole) == (0, False)


def repeated(rows):
    """A table that says the same again and again."""
    (first,) = batch(1).slice(0, 1).to_pylist()
    return pa.table([pa.repeat(pa.scalar(first[one.name], one.type), rows) for one in LAYOUT], schema=LAYOUT)


def test_rows_without_end_in_a_few_bytes_are_refused_before_they_are_read():
    bomb = parquet(repeated(500_000))
    assert len(bomb.getvalue()) < 50_000
    with pytest.raises(DamagedError, match=r"500000 rows in \d+ bytes are more than any run writes"):
        samples_from_parquet(bomb)


def test_lists_without_end_are_refused_too():
    lists = pa.ListArray.from_arrays(pa.array([0, 0, 0, 0, 3_000_000]), pa.array(np.zeros(3_000_000)))
    place = LAYOUT.get_field_index("core_percent")
    bomb = parquet(pa.Table.from_batches([batch()]).set_column(place, LAYOUT.field(place), lists))
    assert len(bomb.getvalue()) < 50_000
    with pytest.raises(DamagedError, match=r"30000\d\d values of lists in \d+ bytes are more than"):
        samples_from_parquet(bomb)


def test_a_table_whose_samples_differ_as_real_ones_do_is_read_whatever_its_length():
    rows = ROWS_FREE + 20_000
    times = pa.array(np.random.default_rng(0).normal(size=rows))
    table = repeated(rows).set_column(LAYOUT.get_field_index("t_s"), LAYOUT.field("t_s"), times)
    assert samples_from_parquet(parquet(table)).rows == rows


@pytest.mark.parametrize("name", ["kind", "subject", "t_s", "power_w", "core_percent"])
@pytest.mark.parametrize("kind", [pa.int8(), pa.large_string(), pa.list_(pa.string()), pa.null(), pa.bool_()])
def test_a_column_of_another_type_is_named(name, kind):
    table = pa.Table.from_batches([batch()])
    place = LAYOUT.get_field_index(name)
    with pytest.raises(DamagedError, match=f"column {name} holds "):
        samples_from_parquet(parquet(table.set_column(place, pa.field(name, kind), pa.nulls(4, kind))))


def test_text_that_is_no_text_is_refused():
    table = pa.Table.from_batches([batch()])
    place = LAYOUT.get_field_index("subject")
    wrong = pa.array([b"\xff\xfe"] * 4, pa.binary()).view(pa.string())
    with pytest.raises(DamagedError, match="utf-8"):
        samples_from_parquet(parquet(table.set_column(place, LAYOUT.field(place), wrong)))


def test_a_stream_that_does_not_begin_with_its_schema_is_where_it_breaks_off():
    """Arrow ends the process where it is told to read another message as a schema."""
    whole = stream(batch(1))
    headless = whole[whole.index(b"\xff\xff\xff\xff", 4) :]
    read = samples_from_stream(io.BytesIO(headless))
    assert (read.rows, read.whole) == (0, False)


def test_a_column_that_is_neither_optional_nor_required_does_not_end_the_process():
    """Found by bench/fuzz.py: pyarrow lets a C++ exception through where it is asked for a chunk of such."""
    whole = parquet(pa.Table.from_batches([batch(50)])).getvalue()
    optional_number = b"\x15\x0a\x25\x02"
    assert whole.count(optional_number) > 1
    with pytest.raises(DamagedError, match="histogram size mismatch"):
        samples_from_parquet(io.BytesIO(whole.replace(optional_number, b"\x15\x0a\x25\x42", 1)))


@pytest.mark.parametrize("first", [0, 100, 200, 300])
def test_a_footer_with_a_bit_that_flipped_is_read_or_refused(first):
    whole = parquet(pa.Table.from_batches([batch(50)])).getvalue()
    footer = whole.index(b"schema_version") - 4000
    for place in range(footer + first, len(whole), 401):
        with contextlib.suppress(DamagedError):
            samples_from_parquet(io.BytesIO(whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :]))


def test_lists_in_many_pieces_are_those_of_their_rows(monkeypatch):
    """Host samples among those of GPUs, some without a list, one with an empty one."""
    monkeypatch.setattr(tables, "LISTS_AT_ONCE", 3)
    delays = [(0.1, 0.2), None, (), (0.3,), (0.1, 7.5, 0.1), None, (2.5,)]
    hosts = [replace(HOST, t_s=float(row), wakeup_delays_ms=one) for row, one in enumerate(delays)]
    samples = [one for host in hosts for one in (SAMPLE, host, SAMPLE)]
    table = pa.Table.from_batches([sample_tables.batch(samples, "run-1")])
    assert samples_from_parquet(parquet(table)).host == hosts
    several = stream(*(sample_tables.batch(samples[begin : begin + 4], "run-1") for begin in range(0, 21, 4)))
    assert samples_from_stream(io.BytesIO(several)).host == hosts


def test_lists_are_read_from_the_file_once_they_are_needed(monkeypatch):
    monkeypatch.setattr(sample_tables, "EAGER_ROWS", 0)
    file = parquet(pa.Table.from_batches([batch()]))
    content, opened = file.getvalue(), []

    def again():
        opened.append(io.BytesIO(content))
        return opened[-1]

    read = samples_from_parquet(file, again)
    file.close()
    assert not opened
    for _ in range(2):
        assert read.host.of("pc1") == [HOST]
        assert all(one.closed for one in opened)
        assert len(opened) == 2  # columns of lists
