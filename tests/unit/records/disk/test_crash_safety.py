"""What a crash, a kill or another process leaves of a run's files at the worst moment can be read."""

import shutil
import threading
from dataclasses import replace

import pytest

from rigproof.records.disk.durable import replacing
from rigproof.records.disk.reading import PARQUET_FILE, RECORDING_FILE
from rigproof.records.disk.store import RecordingError, RecordingWriter, read_recording
from rigproof.records.disk.tables import part_files
from rigproof.records.identity import RunInfo
from rigproof.records.limits import open_plain, read_bounded
from rigproof.records.measurements import Event
from rigproof.records.samples import GpuSample
from support.stage_records import gemm_round

RUN = RunInfo("run-1", "2026-01-02T03:04:05Z", "quick", "0.1.0", "3.11.7", {"name": "lab"}, ("gemm",))
ROUND = gemm_round(12.5)
HAPPENED = Event(1.0, "oom", "pc1/gpu0", "12 MiB wanted")
PARTS = "gpu_sample"
SAMPLES = [GpuSample(float(number), "pc1/gpu0", power_w=300.0 + number) for number in range(5)]


@pytest.fixture
def running(tmp_path):
    """A run that goes on, as it is on the disk."""
    writer = RecordingWriter(tmp_path, RUN, flush_s=0)
    writer.extend([ROUND, HAPPENED, *SAMPLES])
    yield tmp_path
    writer.close()


@pytest.fixture
def table(running, tmp_path_factory):
    """The table that it would have become."""
    other = tmp_path_factory.mktemp("ended")
    writer = RecordingWriter(other, RUN)
    writer.extend([ROUND, HAPPENED, *SAMPLES])
    writer.close()
    return (other / PARQUET_FILE).read_bytes()


def powers(folder):
    return [sample.power_w for sample in read_recording(folder).gpu_samples]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_a_table_that_was_being_written_leaves_the_parts_to_read(running, table, share):
    (running / f"{PARQUET_FILE}.part").write_bytes(table[: int(len(table) * share)])
    assert powers(running) == [sample.power_w for sample in SAMPLES]


def test_a_crash_between_the_table_and_the_parts_removal_counts_no_sample_twice(running, table):
    (running / PARQUET_FILE).write_bytes(table)
    assert (running / PARTS).exists()
    assert powers(running) == [sample.power_w for sample in SAMPLES]


def ends(running, table):
    (running / PARQUET_FILE).write_bytes(table)
    shutil.rmtree(running / PARTS)


@pytest.mark.parametrize("moment", [part_files, open_plain])
def test_a_run_that_ends_while_it_is_read_is_read_from_its_table(running, table, monkeypatch, moment):
    """Between the look for the table and that for the parts, or before these are opened, it replaces them."""

    def ending(path, *limit):
        if path.is_relative_to(running / PARTS) and path.exists():
            ends(running, table)
        return moment(path, *limit)

    monkeypatch.setattr(f"rigproof.records.disk.reading.{moment.__name__}", ending)
    assert powers(running) == [sample.power_w for sample in SAMPLES]


def test_records_of_any_length_are_read_or_refused(running):
    whole = (running / RECORDING_FILE).read_bytes()
    first = whole.index(b"\n") + 1
    for length in {*range(0, len(whole) + 1, 7), *range(first - 3, first + 3), len(whole) - 1, len(whole)}:
        (running / RECORDING_FILE).write_bytes(whole[:length])
        if length < first - 1:  # the line of the run is not there
            with pytest.raises(RecordingError, match=r"line 1|is empty"):
                read_recording(running)
            continue
        found = read_recording(running)
        messages = [event.message for event in found.events if event.kind == "storage"]
        complete = length in (first - 1, first, len(whole) - 1, len(whole))
        assert messages == ([] if complete else ["recording.jsonl is cut off in line 2; read up to there"])
        assert (HAPPENED in found.events) == (length >= len(whole) - 1)
        assert found.rounds == [ROUND]


@pytest.mark.parametrize("zeros", [1, 4096, 100_000])
def test_blocks_of_zeros_that_a_power_cut_leaves_at_the_end_are_a_torn_end(running, zeros):
    with (running / RECORDING_FILE).open("ab") as file:
        file.write(bytes(zeros))
    found = read_recording(running)
    assert found.rounds == [ROUND]
    assert [sample.power_w for sample in found.gpu_samples] == [sample.power_w for sample in SAMPLES]
    assert "recording.jsonl is cut off in line 3" in found.events[1].message


def test_a_table_of_another_moment_of_the_same_run_is_no_error(running, table):
    """The records were read before the run's end, the samples after it: both are true."""
    (running / RECORDING_FILE).write_bytes((running / RECORDING_FILE).read_bytes().splitlines()[0])
    (running / PARQUET_FILE).write_bytes(table)
    found = read_recording(running)
    assert found.events == []
    assert len(found.gpu_samples) == len(SAMPLES)


def test_a_file_that_is_replaced_again_and_again_is_never_read_in_part(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0" * 50_000)
    ended = threading.Event()

    def write():
        for number in range(200):
            with replacing(path) as file:
                file.write(str(number % 10).encode() * (10_000 + number * 100))
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not ended.is_set():
            assert len(set(read_bounded(path, 100_000))) == 1
    finally:
        writer.join()


def test_what_broke_off_in_the_middle_of_a_replacement_is_not_the_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def broken_off():
        with replacing(path) as file:
            file.write(b"ne")
            file.flush()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_label_that_no_round_had_before_breaks_nothing(tmp_path):
    writer = RecordingWriter(tmp_path, RUN, flush_s=0)
    rounds = [
        replace(
            ROUND, t_s=float(number), labels={"precision": "bf16"} | ({"batch": number} if number > 2 else {})
        )
        for number in range(6)
    ]
    writer.extend(rounds)
    assert read_recording(tmp_path).rounds == rounds
    writer.close()
    assert read_recording(tmp_path).rounds == rounds
    assert not (tmp_path / "round").exists()


def test_a_crash_between_the_tables_and_their_parts_removal_counts_no_round_twice(running, tmp_path_factory):
    other = tmp_path_factory.mktemp("ended")
    writer = RecordingWriter(other, RUN)
    writer.add(ROUND)
    writer.close()
    (running / "round.parquet").write_bytes((other / "round.parquet").read_bytes())
    assert read_recording(running).rounds == [ROUND]
