"""What was added is on the disk soon, whoever adds it and whatever kills the run."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rigproof
from rigproof.records.disk.reading import PARQUET_FILE, RECORDING_FILE
from rigproof.records.disk.store import RecordingWriter, read_recording
from rigproof.records.identity import GpuIdentity, NodeIdentity, WorkerIdentity
from rigproof.records.measurements import Event, ForeignMemory, GpuCounters, MemoryReading, Round, Stage
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.recording import RecordedPlan
from rigproof.records.samples import GpuSample, HostSample
from rigproof.stages.feeding.stage import RewardBatch
from support.short_run import GPU_SAMPLE, HOST_SAMPLE, ROUND, RUN

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
    writer.extend([*added, GPU_SAMPLE])
    if ended:
        writer.close()
    else:
        writer.flush()
    assert writer.error is None
    assert read_recording(folder) == writer.recording
    writer.close()


def test_close_joins_the_parts_of_the_samples_into_one_parquet_table(tmp_path):
    writer = RecordingWriter(tmp_path, RUN)
    writer.extend([GPU_SAMPLE, HOST_SAMPLE, replace(GPU_SAMPLE, t_s=1.1)])
    assert sorted(path.name for path in tmp_path.iterdir()) == [RECORDING_FILE]
    writer.flush()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu_sample", "host_sample", RECORDING_FILE]
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


def test_a_part_grows_until_it_is_long_enough(tmp_path, monkeypatch):
    """A soak of days would leave tens of thousands of files otherwise."""
    monkeypatch.setattr("rigproof.records.disk.store.PART_ROWS", 3)
    writer = RecordingWriter(tmp_path, RUN, flush_s=0)
    writer.extend(replace(GPU_SAMPLE, t_s=float(number)) for number in range(8))
    parts = sorted((tmp_path / "gpu_sample").iterdir())
    assert [path.name for path in parts] == ["000000.parquet", "000001.parquet", "000002.parquet"]
    assert [len(pq.read_table(path)) for path in parts] == [3, 3, 2]
    assert [one.t_s for one in read_recording(tmp_path).gpu_samples] == [float(number) for number in range(8)]
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
