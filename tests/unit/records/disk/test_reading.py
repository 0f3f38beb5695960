"""A run's files are read as far as they are its own and valid; an error says what is wrong with which."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rigproof.records.disk.reading import (
    PARQUET_FILE,
    RECORDING_FILE,
    RECORDING_LINE_BYTES_MAX,
    record_of_line,
)
from rigproof.records.disk.store import RecordingError, RecordingWriter, read_recording
from rigproof.records.measurements import Event, GpuCounters
from rigproof.records.processes import GpuProcess
from support.short_run import GPU_SAMPLE, HAPPENED, ROUND, RUN, written


@pytest.mark.parametrize("torn", [b'{"type":"round","t_s":1', b"\0\0\0\0\0", b"\xff\xfe"])
def test_a_torn_last_line_is_left_out_and_reported(tmp_path, torn):
    written(tmp_path)
    with (tmp_path / RECORDING_FILE).open("ab") as file:
        file.write(torn)
    found = read_recording(tmp_path)
    assert found.rounds == [ROUND]
    happened, event = found.events
    assert (happened, event.kind) == (HAPPENED, "storage")
    assert "recording.jsonl is cut off in line 3" in event.message


BEGUN = b'{"type":"event","t_s":1,"kind":"oom","subject":"x","message":"y"'
LONG_LINE = b'{"type":"event","message":"' + b"x" * RECORDING_LINE_BYTES_MAX + b'"}'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"type":"round"', "line 3: "),
        (b'{"type":"sonnet"}', "type = 'sonnet' is not one of run, plan, node"),
        (b'{"no":"type"}', "type = None is not one of"),
        (b"[1, 2]", "type = None is not one of"),
        (b'{"type":"event","t_s":"late","kind":"oom","subject":"x","message":"y"}', "t_s: Input should be"),
        (b'{"type":"event","t_s":1,"kind":"oom","subject":"x"}', "message: Field required"),
        (b'{"type":"event","t_s":NaN,"kind":"oom","subject":"x","message":"y"}', "line 3: "),
        (BEGUN + b',"data":{"a":NaN}}', "line 3: "),
        (BEGUN + b',"data":{"a":[-Infinity]}}', "line 3: "),
        (BEGUN + b',"type":"ode"}', "type = 'ode' is not"),
        (BEGUN + b',"type":"run"}', "schema_version = None"),
        (BEGUN + rb',"t\u0079pe":"ode"}', "type = 'ode' is not"),
        (b"[" * 100000, "line 3: "),
        (b'{"type":"run"}', "schema_version = None: this rigproof reads 1"),
        (LONG_LINE, f"is longer than {RECORDING_LINE_BYTES_MAX} bytes"),
        (b"\x89PNG\r\n", "line 3: "),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path, line, words):
    written(tmp_path)
    with (tmp_path / RECORDING_FILE).open("ab") as file:
        file.write(line + b"\n" + b'{"type":"event","t_s":1,"kind":"oom","subject":"x","message":"y"}\n')
    with pytest.raises(RecordingError) as caught:
        read_recording(tmp_path)
    assert words in str(caught.value)
    assert str(tmp_path / RECORDING_FILE) in str(caught.value)
    assert "or name another run" in str(caught.value)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b'{"type":"event","t_s":1,"kind":"k","subject":"s","message":"m"}\n', "the first line"),
        (b"# A text\n", "line 1"),
        (bytes(range(200, 256)), "line 1"),
    ],
)  # fmt: skip
def test_a_file_of_somebody_else_is_refused(tmp_path, content, words):
    (tmp_path / RECORDING_FILE).write_bytes(content)
    with pytest.raises(RecordingError, match=words):
        read_recording(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"event","t_s":1.0,"kind":"oom","subject":"pc1/gpu0","message":"12 MiB wanted"}',
        b'{"type": "event", "t_s": 1.0, "kind": "oom", "subject": "pc1/gpu0", "message": "12 MiB wanted"}',
        b' {"message":"12 MiB wanted","subject":"pc1/gpu0","kind":"oom","t_s":1.0,"type":"event"} ',
        b'{"type":"gpu","t_s":1,"kind":"oom","subject":"pc1/gpu0","message":"12 MiB wanted","type":"event"}',
    ],
)
def test_a_line_is_read_however_its_json_is_spelled(line):
    assert record_of_line(line) == HAPPENED


def test_what_looks_like_a_type_or_a_number_that_is_not_finite_may_be_text():
    said = Event(1.0, "oom", "pc1/gpu0", "NaN or Infinity", data={"type": "run"})
    line = (
        b'{"type":"event","t_s":1.0,"kind":"oom","subject":"pc1/gpu0","message":"NaN or Infinity",'
        b'"data":{"type":"run"}}'
    )
    assert record_of_line(line) == said


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(RecordingError, match=r"recording\.jsonl: No such file.*give the folder of a run"):
        read_recording(tmp_path)
    (tmp_path / RECORDING_FILE).mkdir()
    with pytest.raises(RecordingError, match="is a folder, not a file; give the folder of a run"):
        read_recording(tmp_path)


def test_a_file_larger_than_any_run_is_refused(tmp_path, monkeypatch):
    written(tmp_path)
    monkeypatch.setattr("rigproof.records.disk.reading.RECORDING_BYTES_MAX", 100)
    with pytest.raises(RecordingError, match="bytes are more than the 100 it can have"):
        read_recording(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(range(256)) + b"PAR1", b"no table at all"])
def test_a_damaged_parquet_is_refused(tmp_path, content):
    written(tmp_path)
    (tmp_path / PARQUET_FILE).write_bytes(content)
    with pytest.raises(RecordingError, match=r"telemetry\.parquet: .*; restore the file"):
        read_recording(tmp_path)


def test_another_table_is_refused_by_what_it_lacks(tmp_path):
    written(tmp_path)
    pq.write_table(pa.table({"a": [1]}), tmp_path / PARQUET_FILE)
    with pytest.raises(RecordingError, match="schema_version = absent: this rigproof reads 1"):
        read_recording(tmp_path)
    pq.write_table(
        pa.table({"kind": [1]}).replace_schema_metadata({"schema_version": "1"}), tmp_path / PARQUET_FILE
    )
    with pytest.raises(RecordingError, match="column t_s is missing, or does not hold double"):
        read_recording(tmp_path)


def test_rows_that_no_sampler_writes_are_refused(tmp_path):
    written(tmp_path)
    table = pq.read_table(tmp_path / PARQUET_FILE)
    strange = table.set_column(0, table.schema.field("kind"), pa.array(["gpu", "toaster"]))
    pq.write_table(strange, tmp_path / PARQUET_FILE)
    with pytest.raises(RecordingError, match="1 of 2 rows have a `kind` other than gpu, host"):
        read_recording(tmp_path)
    field = table.schema.get_field_index("t_s")
    timeless = table.set_column(field, pa.field("t_s", pa.float64()), pa.array([None, 1.0], pa.float64()))
    pq.write_table(timeless, tmp_path / PARQUET_FILE)
    with pytest.raises(RecordingError, match="a row has no t_s"):
        read_recording(tmp_path)
    endless = table.set_column(field, table.schema.field("t_s"), pa.array([float("nan"), 1.0], pa.float64()))
    pq.write_table(endless, tmp_path / PARQUET_FILE)
    with pytest.raises(RecordingError, match="a row has no t_s"):
        read_recording(tmp_path)


def test_a_table_that_was_lost_is_named(tmp_path):
    """Without its rounds a sound rig would have worked nothing: that is the copy's fault."""
    written(tmp_path)
    (tmp_path / "round.parquet").unlink()
    with pytest.raises(RecordingError, match=r"round\.parquet: is missing, though the run wrote it; restore"):
        read_recording(tmp_path)


def test_the_samples_of_another_run_are_refused(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    written(first)
    writer = RecordingWriter(second, replace(RUN, run_id="run-2"))
    writer.close()
    (second / PARQUET_FILE).write_bytes((first / PARQUET_FILE).read_bytes())
    with pytest.raises(RecordingError, match="run_id = run-1 is not the run"):
        read_recording(second)


def test_a_run_without_its_samples_says_so(tmp_path):
    written(tmp_path)
    (tmp_path / PARQUET_FILE).unlink()
    found = read_recording(tmp_path)
    assert found.gpu_samples == []
    assert "no samples to judge" in found.events[-1].message


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """The folder of the parts of a run that goes on, which has three."""
    monkeypatch.setattr("rigproof.records.disk.store.PART_ROWS", 1)
    writer = RecordingWriter(tmp_path, RUN, flush_s=0)
    writer.extend(replace(GPU_SAMPLE, t_s=float(number)) for number in range(3))
    yield tmp_path / "gpu_sample"
    writer.close()


def test_a_part_that_is_missing_between_others_is_named(tmp_path, parts):
    (parts / "000001.parquet").unlink()
    with pytest.raises(RecordingError, match=r"gpu_sample: the part before 000002\.parquet is missing"):
        read_recording(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no table at all"])
def test_a_damaged_part_is_refused(tmp_path, parts, content):
    (parts / "000001.parquet").write_bytes(content)
    with pytest.raises(RecordingError, match=r"gpu_sample: .*; restore the file"):
        read_recording(tmp_path)


def test_parts_that_are_a_link_out_of_their_run_are_refused_unread(tmp_path, parts):
    kept = tmp_path.parent / f"{tmp_path.name}-kept"
    parts.rename(kept)
    parts.symlink_to(kept)
    with pytest.raises(RecordingError, match=f"a symbolic link leads out of {tmp_path}; "):
        read_recording(tmp_path)


def test_what_is_no_part_is_passed_over(tmp_path, parts):
    for name in ("000003.parquet.part", "notes.txt", "x.parquet"):
        (parts / name).write_bytes(b"something else")
    assert [one.t_s for one in read_recording(tmp_path).gpu_samples] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("name", [RECORDING_FILE, PARQUET_FILE])
def test_a_file_that_is_a_link_out_of_its_run_is_refused_unread(tmp_path, name):
    run = tmp_path / "run"
    run.mkdir()
    written(run)
    (run / name).rename(tmp_path / name)
    (run / name).symlink_to(tmp_path / name)
    with pytest.raises(RecordingError, match=f"{name}: a symbolic link leads out of {run}; "):
        read_recording(run)


def test_a_link_inside_the_run_and_one_to_it_are_followed(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    written(run)
    (run / RECORDING_FILE).rename(run / "kept")
    (run / RECORDING_FILE).symlink_to("kept")
    (tmp_path / "latest").symlink_to("run")
    assert read_recording(tmp_path / "latest").run == RUN


@pytest.mark.parametrize("record", ["processes", "counters", "data of an event"])
def test_a_whole_number_that_no_column_can_hold_is_named(tmp_path, record):
    made = {
        "processes": (GpuProcess(1.0, "pc1/gpu0", 77), b'"pid":77', b'"pid":', "pid"),
        "counters": (GpuCounters(1.0, "pc1/gpu0", "before", 7), b'_uncorrected":7', b'_uncorrected":', "ecc"),
        "data of an event": (
            Event(1.0, "rank_stuck", "pc1", "x", data={"told": [{"limit_s": 7}]}),
            *(b'"limit_s":7', b'"limit_s":', "limit_s"),
        ),
    }
    one, old, new, name = made[record]
    writer = RecordingWriter(tmp_path, RUN)
    writer.add(one)
    writer.close()
    content = (tmp_path / RECORDING_FILE).read_bytes()
    assert old in content
    (tmp_path / RECORDING_FILE).write_bytes(content.replace(old, new + b"9" * 30))
    with pytest.raises(RecordingError, match=f"line 2: {name}.* does not fit into 64 bits"):
        read_recording(tmp_path)


def test_a_sensor_that_a_run_did_not_sample_reads_as_unsupported(tmp_path):
    written(tmp_path)
    table = pq.read_table(tmp_path / PARQUET_FILE)
    before = read_recording(tmp_path)
    pq.write_table(table.drop_columns(["thermal_margin_c", "energy_j"]), tmp_path / PARQUET_FILE)
    recording = read_recording(tmp_path)
    assert [(one.thermal_margin_c, one.energy_j) for one in recording.gpu_samples] == [(None, None)]
    assert [one.power_w for one in recording.gpu_samples] == [one.power_w for one in before.gpu_samples]
