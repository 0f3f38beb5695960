import errno
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rigproof
from rigproof.records.disk.durable import GrowingFile
from rigproof.records.disk.reading import (
    PARQUET_FILE,
    RECORDING_FILE,
    RECORDING_LINE_BYTES_MAX,
    STREAM_FILE,
    record_of_line,
)
from rigproof.records.disk.store import RecordingError, RecordingWriter, read_recording
from rigproof.records.identity import GpuIdentity, NodeIdentity, RunInfo, WorkerIdentity
from rigproof.records.measurements import (
    Event,
    ForeignMemory,
    GpuCounters,
    MemoryReading,
    Round,
    Stage,
)
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.recording import RecordedPlan
from rigproof.records.samples import GpuSample, HostSample
from rigproof.stages.feeding.records import RewardBatch
from support.recordings import gemm_round

RUN = RunInfo(
    "run-1", "2026-01-02T03:04:05Z", "quick", "0.1.0", "3.11.7", {"name": "lab"}, ("gemm", "sustained")
)
ROUND = gemm_round(12.5)
HAPPENED = Event(1.0, "oom", "pc1/gpu0", "12 MiB wanted")
GPU_SAMPLE = GpuSample(
    1.0, "pc1/gpu0", 99.0, 2048.0, 61.0, None, 345.5, None, 1e6, 1695.0, 9751.0, 4, 4, 16, 0, 0.002
)
HOST_SAMPLE = HostSample(1.1, "pc1", 71.5, (70.0, 73.0), 12.5, 9000.0, 55000.0, 0.0, None, (0.1, 0.2), 0.001)


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(rigproof.__file__).parents[1])}


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


numbers = st.floats(allow_nan=False, allow_infinity=False)
small = st.integers(min_value=0, max_value=2**62)
texts = st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_tables = st.dictionaries(texts, json_values, max_size=3)
optional_numbers = st.none() | numbers
optional_small = st.none() | small
labels = st.fixed_dictionaries(
    {}, optional={"precision": texts, "size": small, "part": texts, "batch": small}
)
records = st.one_of(
    st.builds(
        GpuSample,
        numbers,
        texts,
        optional_numbers,
        *[optional_numbers] * 8,
        *[optional_small] * 4,
        lateness_s=numbers,
    ),
    st.builds(
        HostSample,
        numbers,
        texts,
        optional_numbers,
        st.none() | st.lists(numbers, max_size=4).map(tuple),
        *[optional_numbers] * 5,
        st.none() | st.lists(numbers, max_size=4).map(tuple),
        numbers,
    ),
    st.builds(
        Round, numbers, texts, texts, texts, st.sampled_from(["warmup", "measure"]), numbers, numbers, texts,
        st.booleans(), labels, st.none() | st.sampled_from(["cuda", "cpu"]),
    ),
    st.builds(RecordedPlan, json_tables),
    st.builds(
        RewardBatch, numbers, texts, texts, texts, st.sampled_from(["sequential", "parallel"]),
        *[small] * 6, numbers, st.none() | st.booleans(),
    ),
    st.builds(Event, numbers, texts, texts, texts, st.none() | texts, st.none() | texts, json_tables),
    st.builds(
        MemoryReading, numbers, texts, texts, texts, numbers, numbers, numbers, optional_numbers,
        optional_numbers, optional_small, optional_small,
    ),
    st.builds(
        GpuCounters, numbers, texts, st.sampled_from(["before", "after"]), optional_small, optional_small,
        remap_pending=st.none() | st.booleans(),
    ),
    st.builds(ForeignMemory, numbers, texts, optional_numbers, st.none() | st.tuples(small, small)),
    st.builds(
        GpuProcess, numbers, texts, small, st.booleans(), st.booleans(), optional_numbers, optional_numbers,
        st.none() | texts, st.none() | texts, st.lists(small, max_size=3).map(tuple),
    ),
    st.builds(ProcessWatch, numbers, texts, numbers, small, numbers, st.booleans()),
    st.builds(
        Stage, texts, numbers, optional_numbers, st.sampled_from(["running", "finished", "partial"]),
        st.lists(texts, max_size=3).map(tuple), optional_numbers, optional_numbers, json_tables,
    ),
    st.builds(
        NodeIdentity, texts, texts, texts, numbers, numbers, texts, texts, texts, st.none() | texts,
        st.none() | texts, st.none() | texts, small, numbers, numbers,
    ),
    st.builds(
        GpuIdentity, texts, st.sampled_from(["cuda", "cpu"]), texts, texts, small, numbers,
        compute_capability=st.none() | st.tuples(small, small), power_limit_w=optional_numbers,
    ),
    st.builds(
        WorkerIdentity, texts, texts, texts, st.sampled_from(["cuda", "cpu"]), texts, small, numbers, texts,
        st.none() | texts, st.lists(texts, max_size=4).map(tuple), small,
    ),
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(records, max_size=12), st.booleans())
def test_what_was_added_is_what_is_read(tmp_path_factory, added, ended):
    folder = tmp_path_factory.mktemp("run")
    writer = RecordingWriter(folder, RUN, flush_s=0)
    writer.extend(added)
    if ended:
        writer.close()
    else:
        writer.flush()
    assert writer.error is None
    assert read_recording(folder) == writer.recording
    writer.close()


def test_close_turns_the_stream_into_one_parquet_table(tmp_path):
    writer = RecordingWriter(tmp_path, RUN)
    writer.extend([GPU_SAMPLE, HOST_SAMPLE, replace(GPU_SAMPLE, t_s=1.1)])
    assert sorted(path.name for path in tmp_path.iterdir()) == [RECORDING_FILE, STREAM_FILE]
    writer.close()
    writer.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [RECORDING_FILE, PARQUET_FILE]
    table = pq.read_table(tmp_path / PARQUET_FILE)
    assert table.column("kind").to_pylist() == ["gpu", "gpu", "host"]
    assert table.column("subject").to_pylist() == ["pc1/gpu0", "pc1/gpu0", "pc1"]
    assert table.column("core_percent").to_pylist() == [None, None, [70.0, 73.0]]
    assert table.schema.metadata[b"run_id"] == b"run-1"
    assert table.schema.metadata[b"schema_version"] == b"1"
    units = {field.name: field.metadata[b"unit"].decode() for field in table.schema if field.metadata}
    assert units["power_w"] == "W"
    assert units["core_temperature_c"] == "°C"
    assert units["wakeup_delays_ms"] == "ms"
    assert units["memory_used_mib"] == "MiB"


def test_nothing_waits_longer_than_the_flush_interval(tmp_path):
    clock = Clock()
    writer = RecordingWriter(tmp_path, RUN, clock=clock, flush_s=4.0)
    writer.extend([ROUND, GPU_SAMPLE])
    assert read_recording(tmp_path).rounds == []
    clock.now_s += 4.0
    writer.add(HOST_SAMPLE)
    on_disk = read_recording(tmp_path)
    assert on_disk.rounds == [ROUND]
    assert on_disk.gpu_samples == [GPU_SAMPLE]
    assert on_disk.host_samples == [HOST_SAMPLE]
    writer.close()


def test_a_stage_is_on_the_disk_at_once_with_what_came_before_it(tmp_path):
    writer = RecordingWriter(tmp_path, RUN, flush_s=1e9)
    stage = Stage("gemm", 1.0)
    writer.extend([ROUND, stage])
    on_disk = read_recording(tmp_path)
    assert on_disk.rounds == [ROUND]
    assert on_disk.stages == {stage.name: stage}
    writer.close()


def test_a_number_that_is_not_finite_is_no_reading(tmp_path):
    writer = RecordingWriter(tmp_path, RUN)
    writer.add(replace(GPU_SAMPLE, power_w=float("nan"), core_temperature_c=float("inf")))
    writer.add(replace(HOST_SAMPLE, core_percent=(1.0, float("nan"))))
    writer.add(Event(1.0, "oom", "pc1/gpu0", "x", data={"requested_mib": float("nan"), "sizes": (1, 2)}))
    writer.close()
    assert writer.recording.gpu_samples == [replace(GPU_SAMPLE, power_w=None, core_temperature_c=None)]
    assert writer.recording.host_samples == [replace(HOST_SAMPLE, core_percent=None)]
    assert writer.recording.events[0].data == {"requested_mib": None, "sizes": [1, 2]}
    assert read_recording(tmp_path) == writer.recording


def test_a_round_without_a_duration_is_refused_and_reported(tmp_path):
    writer = RecordingWriter(tmp_path, RUN)
    writer.add(replace(ROUND, seconds=float("nan")))
    writer.close()
    assert writer.recording.rounds == []
    (event,) = writer.recording.events
    assert (event.kind, event.subject, event.t_s) == ("storage", "pc1/gpu0", 12.5)
    assert "Round.seconds = nan is not a finite number" in event.message
    assert read_recording(tmp_path) == writer.recording


def test_text_that_is_not_unicode_does_not_stop_the_writer(tmp_path):
    writer = RecordingWriter(tmp_path, RUN)
    writer.add(Event(1.0, "worker_failed", "pc1/gpu0", b"caf\xe9".decode("utf-8", "surrogateescape")))
    writer.close()
    assert writer.error is None
    assert read_recording(tmp_path).events[0].message == "caf?"


class FullDisk(GrowingFile):
    """A file on a disk that is full from the second piece on."""

    number = errno.ENOSPC

    def append(self, write):
        if self.file.tell() > 0:
            self.file.write(b'{"type":"round","t_s"')  # what fitted
            self.file.flush()
            raise OSError(self.number, os.strerror(self.number))
        super().append(write)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "No space left on device; free some space"),
        (errno.EIO, "Input/output error; check that disk"),
    ],
)
def test_a_failing_disk_is_an_error_and_memory_goes_on(tmp_path, monkeypatch, number, words):
    monkeypatch.setattr("rigproof.records.disk.store.GrowingFile", FullDisk)
    monkeypatch.setattr(FullDisk, "number", number)
    writer = RecordingWriter(tmp_path, RUN, flush_s=0)
    writer.add(ROUND)
    writer.add(GPU_SAMPLE)
    first = writer.error
    assert words in first
    assert str(tmp_path) in first
    writer.add(HOST_SAMPLE)
    writer.flush()
    assert writer.error == first
    writer.close()
    assert writer.error == first
    assert (writer.recording.rounds, writer.recording.host_samples) == ([ROUND], [HOST_SAMPLE])
    # The disk took whole files again at the end, so nothing is lost.
    assert read_recording(tmp_path) == writer.recording


def test_a_disk_that_stays_full_leaves_no_exception_and_no_open_file(tmp_path, monkeypatch):
    opened = []

    class Remembering(FullDisk):
        def __init__(self, path):
            super().__init__(path)
            opened.append(self.file)

    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("rigproof.records.disk.store.GrowingFile", Remembering)
    writer = RecordingWriter(tmp_path, RUN, flush_s=0)
    writer.extend([ROUND, HAPPENED])
    monkeypatch.setattr("rigproof.records.disk.store.replacing", no_space)
    writer.close()
    assert "No space left on device" in writer.error
    assert all(file.closed for file in opened)
    (event,) = read_recording(tmp_path).events
    assert "is cut off in line 2" in event.message


def test_the_real_full_device_is_survived(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    (tmp_path / RECORDING_FILE).symlink_to("/dev/full")
    writer = RecordingWriter(tmp_path, RUN, flush_s=0)
    writer.add(ROUND)
    writer.close()
    assert "No space left on device" in writer.error
    assert writer.recording.rounds == [ROUND]


def test_a_folder_that_is_gone_is_an_error_not_an_exception(tmp_path):
    writer = RecordingWriter(tmp_path / "absent", RUN)
    writer.add(ROUND)
    writer.close()
    assert "No such file or directory" in writer.error
    assert writer.recording.rounds == [ROUND]


def test_an_interrupted_write_is_done_again(tmp_path, monkeypatch):
    writer = RecordingWriter(tmp_path, RUN)
    writer.add(ROUND)
    writer.add(GPU_SAMPLE)
    real = os.fsync

    def interrupted(_):
        monkeypatch.setattr("rigproof.records.disk.durable.os.fsync", real)
        raise KeyboardInterrupt

    monkeypatch.setattr("rigproof.records.disk.durable.os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.flush()
    writer.flush()
    on_disk = read_recording(tmp_path)
    assert on_disk.rounds == [ROUND]
    assert on_disk.gpu_samples == [GPU_SAMPLE]
    writer.close()


def test_a_signal_handler_may_add_in_the_middle_of_an_add(tmp_path):
    writer = RecordingWriter(tmp_path, RUN, flush_s=0)
    event = Event(2.0, "interrupted", "rig", "stopped by SIGUSR1")
    before = signal.signal(signal.SIGUSR1, lambda *_: writer.add(event))
    try:
        with writer._lock, writer._io:  # as if the signal came while both are held
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    writer.close()
    assert read_recording(tmp_path).events == [event]


def test_threads_add_at_the_same_time_and_nothing_is_lost(tmp_path):
    writer = RecordingWriter(tmp_path, RUN, flush_s=0)

    def add(worker):
        for number in range(50):
            writer.add(replace(ROUND, worker=f"w{worker}", labels={"size": number}))
            writer.add(replace(GPU_SAMPLE, subject=f"pc1/gpu{worker}", t_s=float(number)))

    threads = [threading.Thread(target=add, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.flush()
    found = read_recording(tmp_path)
    for worker in range(4):
        assert [one.label("size") for one in found.rounds if one.worker == f"w{worker}"] == list(range(50))
        mine = [one.t_s for one in found.gpu_samples if one.subject == f"pc1/gpu{worker}"]
        assert mine == [float(number) for number in range(50)]
    writer.close()


CHILD = """
import sys, time
from dataclasses import replace
from pathlib import Path
from rigproof.records.identity import RunInfo
from rigproof.records.measurements import Round
from rigproof.records.samples import GpuSample
from rigproof.records.disk.store import RecordingWriter
run = RunInfo("killed", "2026-01-02T03:04:05Z", "quick", "0", "3", {}, ("gemm",))
step = [0.0]  # a tenth of a second of the run, however fast this machine is
writer = RecordingWriter(Path(sys.argv[1]), run, clock=lambda: step[0])
for number in range(1_000_000):
    step[0] = number / 10
    writer.add(GpuSample(step[0], "pc1/gpu0", power_w=300.0))
    writer.add(Round(step[0], "gemm", "w", "pc1/gpu0", "measure", 0.1, 5.0, "TFLOP", True, {"size": 64}))
    if number == 300:
        print("thirty seconds are recorded", flush=True)
        time.sleep(600)
"""


def test_a_killed_process_loses_at_most_ten_seconds(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        assert child.stdout.readline() == "thirty seconds are recorded\n"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(30)
        child.stdout.close()
    found = read_recording(tmp_path)
    assert found.run.run_id == "killed"
    assert 20.0 <= found.gpu_samples[-1].t_s <= 30.0
    assert 20.0 <= found.rounds[-1].t_s <= 30.0
    assert len(found.gpu_samples) == round(found.gpu_samples[-1].t_s * 10) + 1


def written(folder):
    writer = RecordingWriter(folder, RUN)
    writer.extend([ROUND, HAPPENED, GPU_SAMPLE, HOST_SAMPLE])
    writer.close()
    return folder


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
    with pytest.raises(RecordingError, match="column kind holds int64, not string; column t_s is missing"):
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
    with pytest.raises(RecordingError, match="1 gpu rows have no t_s"):
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


def test_a_stream_is_read_as_far_as_it_goes(tmp_path):
    writer = RecordingWriter(tmp_path, RUN, flush_s=0)
    for number in range(5):
        writer.add(replace(GPU_SAMPLE, t_s=float(number)))
    whole = (tmp_path / STREAM_FILE).read_bytes()
    for length in range(0, len(whole) + 1, 97):
        (tmp_path / STREAM_FILE).write_bytes(whole[:length])
        found = read_recording(tmp_path)
        times = [sample.t_s for sample in found.gpu_samples]
        assert times == [0.0, 1.0, 2.0, 3.0, 4.0][: len(times)]
    (tmp_path / STREAM_FILE).write_bytes(whole[:-100])
    found = read_recording(tmp_path)
    assert len(found.gpu_samples) == 4
    assert "telemetry.arrows is cut off after 4 samples" in found.events[-1].message
    (tmp_path / STREAM_FILE).write_bytes(b"no stream, but a text that somebody put here")
    with pytest.raises(RecordingError, match=r"telemetry\.arrows"):
        read_recording(tmp_path)
    writer.close()


def test_planning_a_run_needs_no_pyarrow():
    code = "import sys, rigproof.records.disk.store; print('pyarrow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout == "False\n"


def test_many_samples_take_little_space(tmp_path):
    writer = RecordingWriter(tmp_path, RUN, flush_s=1e9)
    for number in range(1800):  # three minutes of eight GPUs
        for gpu in range(8):
            writer.add(
                replace(GPU_SAMPLE, subject=f"pc1/gpu{gpu}", t_s=number / 10, power_w=300 + number % 7)
            )
    writer.close()
    assert read_recording(tmp_path) == writer.recording
    assert (tmp_path / PARQUET_FILE).stat().st_size < 100_000


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


@pytest.mark.parametrize("record", ["processes", "counters"])
def test_a_whole_number_that_no_column_can_hold_is_named(tmp_path, record):
    made = {
        "processes": (GpuProcess(1.0, "pc1/gpu0", 77), b'"pid":77', b'"pid":', "pid"),
        "counters": (GpuCounters(1.0, "pc1/gpu0", "before", 7), b'_uncorrected":7', b'_uncorrected":', "ecc"),
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
