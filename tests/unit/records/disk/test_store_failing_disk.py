"""A disk that is full or gone stops no run, and is reported."""

import errno
import os

import pytest

from rigproof.records.disk.durable import GrowingFile
from rigproof.records.disk.reading import RECORDING_FILE
from rigproof.records.disk.store import RecordingWriter, read_recording
from support.short_run import GPU_SAMPLE, HAPPENED, HOST_SAMPLE, ROUND, RUN


class FullDisk(GrowingFile):
    """A file on a disk that is full from the second piece on."""

    number = errno.ENOSPC

    def append(self, write):
        if self.file.tell() > 0:
            self.file.write(b'{"type":"event","t_s"')  # what fitted
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
    writer.add(HAPPENED)
    writer.add(ROUND)
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
    monkeypatch.setattr("rigproof.records.disk.store.write_table", no_space)
    writer.close()
    assert "No space left on device" in writer.error
    assert all(file.closed for file in opened)
    cut_off, _ = read_recording(tmp_path).events
    assert "is cut off in line 2" in cut_off.message


def test_a_disk_that_fills_up_while_a_part_is_written_keeps_those_before_it(tmp_path, monkeypatch):
    writer = RecordingWriter(tmp_path, RUN, flush_s=0)
    writer.add(ROUND)
    with monkeypatch.context() as context:
        context.setattr(
            "rigproof.records.disk.durable.os.fsync",
            lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "")),
        )
        writer.add(ROUND)
    assert writer.error is not None
    assert read_recording(tmp_path).rounds == [ROUND]
    assert [path.name for path in (tmp_path / "round").iterdir()] == ["000000.parquet"]
    writer.close()
    assert read_recording(tmp_path).rounds == [ROUND, ROUND]
    assert not (tmp_path / "round").exists()


def test_the_real_full_device_is_survived(tmp_path):
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
