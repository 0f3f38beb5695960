"""A file that has no name: what it keeps, what it refuses, that nothing is left of it, and its process."""

import errno
import os

import pytest

from rigproof.stages.disk import workload
from rigproof.stages.disk.scratch import Place, ScratchFile
from rigproof.stages.disk.stage import DiskSpec, DiskTest
from rigproof.stages.disk.workload import PAGE_BYTES, DiskWork, aligned
from support.devices import NodeContext

CHUNK = 16 * PAGE_BYTES


def spec(path, most_mib=1.0, duration_s=60.0):
    return DiskSpec("disk", str(path), most_mib=most_mib, reserve_mib=1.0, duration_s=duration_s)


@pytest.fixture
def context():
    return NodeContext()


@pytest.fixture
def work(context, tmp_path):
    """Tests a folder in this process; returns what was tested. No file is left, and none ever has a name."""

    def test(path=tmp_path, duration_s=60.0):
        DiskWork(spec(path, duration_s=duration_s), context, CHUNK).run()
        assert not list(tmp_path.glob(".rigproof*"))
        return context.records[-1]

    return test


def opening(monkeypatch, refuse):
    """`refuse(flags)` gives the error with which opening a file ends, or None."""
    really = os.open

    def opened(path, flags, mode=0o777, **more):
        if code := refuse(flags):
            raise OSError(code, os.strerror(code), str(path))
        return really(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", opened)


def failing_writes(monkeypatch, code, fails):
    """The n-th write fails if `fails(n)`."""
    really, calls = os.pwritev, []

    def written(file, buffers, at):
        calls.append(at)
        if fails(len(calls)):
            raise OSError(code, os.strerror(code))
        return really(file, buffers, at)

    monkeypatch.setattr(os, "pwritev", written)


def test_what_was_written_is_read_back(tmp_path, work, context):
    tested = work()
    assert (tested.written_mib, tested.verified_mib, tested.wrong) == (1.0, 1.0, 0)
    assert (tested.trouble, tested.error, tested.path) == ("", "", str(tmp_path.resolve()))
    assert tested.how in ("direct", "synced")
    rounds = context.rounds
    assert [one.label("operation") for one in rounds] == ["write"] * 16 + ["read"] * 16
    assert all(one.verified for one in rounds)
    assert [one.phase for one in rounds].count("warmup") == 2


def test_the_file_has_no_name_while_it_is_written(tmp_path, monkeypatch, work):
    """So that not even SIGKILL leaves one."""
    seen = []
    monkeypatch.setattr(os, "fdatasync", lambda file: seen.append(list(tmp_path.iterdir())))
    work()
    assert seen
    assert not any(seen)


def test_a_file_system_without_nameless_files_has_one_that_is_unlinked_at_once(monkeypatch, work):
    opening(monkeypatch, lambda flags: errno.EOPNOTSUPP if flags & os.O_TMPFILE == os.O_TMPFILE else None)
    tested = work()
    assert (tested.verified_mib, tested.trouble) == (1.0, "")


def test_a_file_system_without_direct_access_is_synced_and_dropped_from_the_cache(monkeypatch, work):
    opening(monkeypatch, lambda flags: errno.EINVAL if flags & os.O_DIRECT else None)
    synced, dropped, fadvise = [], [], os.posix_fadvise
    monkeypatch.setattr(os, "fdatasync", synced.append)
    monkeypatch.setattr(os, "posix_fadvise", lambda *args: (dropped.append(args[1]), fadvise(*args)))
    tested = work()
    assert (tested.how, tested.verified_mib, tested.trouble) == ("synced", 1.0, "")
    assert len(synced) == 17
    assert dropped == [0, *range(0, 16 * CHUNK, CHUNK)]


def test_direct_access_that_is_refused_at_the_first_write_is_given_up(monkeypatch, work):
    failing_writes(monkeypatch, errno.EINVAL, lambda number: number == 1)
    tested = work()
    assert (tested.how, tested.verified_mib, tested.trouble) == ("synced", 1.0, "")


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the user's quota is used up"),
        (errno.EIO, "the disk reports an input/output error; see `sudo dmesg`"),
        (errno.EROFS, "its file system is read-only; if it should not be, see `sudo dmesg`"),
        (errno.EACCES, "the user who runs Ray there may not write to it"),
        (errno.EINVAL, "Invalid argument"),
    ],
)
def test_an_error_of_the_disk_is_a_sentence(monkeypatch, work, code, trouble):
    failing_writes(monkeypatch, code, lambda number: number > 3)
    tested = work()
    assert (tested.trouble, tested.error) == (trouble, errno.errorcode[code])
    assert tested.written_mib < 1.0


def test_a_folder_of_others_is_refused(unwritable, work):
    assert work(unwritable).error == "EACCES"


def test_a_folder_that_is_not_there_or_no_folder_is_refused(tmp_path, work):
    assert work(tmp_path / "gone").trouble == "there is no such folder"
    (tmp_path / "file").touch()
    assert work(tmp_path / "file").trouble == "it is not a folder"


def test_memory_is_no_disk(monkeypatch, work):
    monkeypatch.setattr(workload, "place_of", lambda path: Place(path, "tmpfs", free=2**40))
    tested = work()
    assert (tested.trouble, tested.how) == ("tmpfs keeps files in memory: that is no disk", "")


@pytest.mark.parametrize(("free_mib", "chunks"), [(10, 16), (2, 8), (1.4, 0), (0.5, 0), (0, 0)])
def test_no_more_than_half_of_what_is_free_beside_the_reserve_is_written(monkeypatch, work, free_mib, chunks):
    monkeypatch.setattr(workload, "place_of", lambda path: Place(path, "ext4", free=int(free_mib * 2**20)))
    tested = work()
    assert (tested.written_mib, tested.free_gib) == (chunks / 16, int(free_mib * 2**20) / 2**30)
    assert tested.trouble == (
        f"{free_mib / 1024:.2f} GiB are free, too little to write beside the {1 / 1024:g} GiB that stay free"
        if not chunks
        else ""
    )


def test_a_slow_disk_is_written_for_half_of_the_time_and_a_few_chunks_at_least(work):
    tested = work(duration_s=0.0)
    assert tested.written_mib == tested.verified_mib == 4 / 16


def changed_byte(place):
    def spoil(data, read):
        data[place] ^= 0x20

    return spoil


@pytest.mark.parametrize(
    ("spoil", "place"),
    [
        (changed_byte(0), 0),
        (changed_byte(77), 77),
        (changed_byte(CHUNK - 1), CHUNK - 1),
        (lambda data, read: read(data, 4 * CHUNK), 0),  # the pages of another chunk
    ],
)
def test_a_disk_that_returns_other_data_is_caught(monkeypatch, work, context, spoil, place):
    really = ScratchFile.read

    def spoiled(file, data, at):
        really(file, data, at)
        if at == 5 * CHUNK:
            spoil(data, lambda data, at: really(file, data, at))

    monkeypatch.setattr(ScratchFile, "read", spoiled)
    assert work().wrong == 1
    [event] = context.events("disk_error")
    assert event.data["offset"] == 5 * CHUNK + place
    assert event.message == (
        f"other data were read back than written, from byte {5 * CHUNK + place:#x} of the file on"
    )
    assert [one.verified for one in context.rounds].count(False) == 1


def test_a_file_that_is_shorter_than_written_is_an_error(tmp_path):
    file = ScratchFile(str(tmp_path))
    with pytest.raises(OSError, match="shorter than what was written"):
        file.read(aligned(CHUNK), 0)
    file.close()


def test_a_hosts_disk_is_measured_by_a_process_of_its_own(tmp_path, context):
    spec(tmp_path, most_mib=64.0).run(None, context)
    assert {one.subject for one in context.records} == {"host"}
    [test] = [one for one in context.records if isinstance(one, DiskTest)]
    assert (test.written_mib, test.verified_mib, test.wrong, test.trouble) == (64.0, 64.0, 0, "")
    done = [(one.label("operation"), one.unit) for one in context.rounds]
    assert done == [("write", "MB")] * 4 + [("read", "MB")] * 4
    assert not list(tmp_path.iterdir())


def test_a_worker_that_is_stopped_leaves_no_file(tmp_path):
    spec(tmp_path, most_mib=64.0).run(None, NodeContext(lambda context: bool(context.records)))
    assert not list(tmp_path.iterdir())


def test_a_disk_that_does_not_answer_is_given_up(tmp_path, monkeypatch, context):
    monkeypatch.setattr(workload, "STALL_S", 0.2)
    monkeypatch.setattr(workload, "MODULE", "rigproof.telemetry.responsiveness")
    with pytest.raises(RuntimeError, match=r"the disk did not answer for 0.2 s"):
        spec(tmp_path).run(None, context)
