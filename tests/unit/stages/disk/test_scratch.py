"""A file that has no name: what it keeps, what it refuses, and that nothing is left of it."""

import errno
import os

import pytest

from rigproof.stages.disk import scratch, workload
from rigproof.stages.disk.place import Place, place_of
from rigproof.stages.disk.scratch import PAGE_BYTES, Chunks, ScratchFile
from rigproof.stages.disk.stage import DiskSpec
from rigproof.stages.disk.workload import DiskWork
from support.devices import NodeContext

CHUNK = 16 * PAGE_BYTES


@pytest.fixture
def context():
    return NodeContext()


def work(path, context, duration_s=60.0):
    """What was tested."""
    spec = DiskSpec("disk", str(path), most_mib=1.0, reserve_mib=1.0, duration_s=duration_s)
    DiskWork(spec, context, CHUNK).run()
    return context.records[-1]


def test_what_was_written_is_read_back_and_no_file_is_left(tmp_path, context):
    tested = work(tmp_path, context)
    assert (tested.written_mib, tested.verified_mib, tested.wrong) == (1.0, 1.0, 0)
    assert (tested.trouble, tested.error, tested.path) == ("", "", str(tmp_path.resolve()))
    assert tested.how in ("direct", "synced")
    rounds = context.rounds
    assert [one.label("operation") for one in rounds] == ["write"] * 16 + ["read"] * 16
    assert all(one.verified for one in rounds)
    assert [one.phase for one in rounds].count("warmup") == 2
    assert not list(tmp_path.iterdir())


def test_the_file_has_no_name_while_it_is_written(tmp_path, monkeypatch, context):
    """So that not even SIGKILL leaves one."""
    seen = []
    write = ScratchFile.write

    def watched(file, buffer, at):
        write(file, buffer, at)
        seen.append(list(tmp_path.iterdir()))

    monkeypatch.setattr(ScratchFile, "write", watched)
    work(tmp_path, context)
    assert seen
    assert not any(seen)


def opening(monkeypatch, refuse):
    """`refuse(flags)` gives the error with which opening a file ends, or None."""
    really = os.open

    def opened(path, flags, mode=0o777, **more):
        code = refuse(flags)
        if code:
            raise OSError(code, os.strerror(code), str(path))
        return really(path, flags, mode, **more)

    monkeypatch.setattr(scratch.os, "open", opened)


def test_a_file_system_without_nameless_files_has_one_that_is_unlinked_at_once(
    tmp_path, monkeypatch, context
):
    opening(monkeypatch, lambda flags: errno.EOPNOTSUPP if flags & os.O_TMPFILE == os.O_TMPFILE else None)
    tested = work(tmp_path, context)
    assert (tested.verified_mib, tested.trouble) == (1.0, "")
    assert not list(tmp_path.iterdir())


def test_a_file_system_without_direct_access_is_synced_and_dropped_from_the_cache(
    tmp_path, monkeypatch, context
):
    opening(monkeypatch, lambda flags: errno.EINVAL if flags & os.O_DIRECT else None)
    tested = work(tmp_path, context)
    assert (tested.how, tested.verified_mib, tested.trouble) == ("synced", 1.0, "")
    assert not list(tmp_path.iterdir())


def test_direct_access_that_is_refused_at_the_first_write_is_given_up(tmp_path, monkeypatch, context):
    really, calls = os.pwritev, []

    def written(file, buffers, at):
        calls.append(at)
        if len(calls) == 1:
            raise OSError(errno.EINVAL, "Invalid argument")
        return really(file, buffers, at)

    monkeypatch.setattr(scratch.os, "pwritev", written)
    tested = work(tmp_path, context)
    assert (tested.how, tested.verified_mib, tested.trouble) == ("synced", 1.0, "")


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the user's quota is used up"),
        (errno.EIO, "the disk reports an input/output error; see `dmesg`"),
        (errno.EROFS, "its file system is read-only; if it should not be, see `dmesg`"),
        (errno.EACCES, "the user who runs Ray there may not write to it"),
        (errno.ETIMEDOUT, "Connection timed out"),
    ],
)
def test_an_error_of_the_disk_is_a_sentence_and_leaves_no_file(tmp_path, monkeypatch, context, code, trouble):
    really, calls = os.pwritev, []

    def written(file, buffers, at):
        calls.append(at)
        if len(calls) > 3:
            raise OSError(code, os.strerror(code))
        return really(file, buffers, at)

    monkeypatch.setattr(scratch.os, "pwritev", written)
    tested = work(tmp_path, context)
    assert (tested.trouble, tested.error) == (trouble, errno.errorcode[code])
    assert tested.written_mib < 1.0
    assert not list(tmp_path.iterdir())


def test_a_folder_of_others_is_refused(unwritable, context):
    assert work(unwritable, context).error == "EACCES"


def test_a_folder_that_is_not_there_or_no_folder_is_refused(tmp_path, context):
    assert work(tmp_path / "gone", context).trouble == "there is no such folder"
    (tmp_path / "file").touch()
    assert work(tmp_path / "file", context).trouble == "it is not a folder"


def place(**changes):
    return Place(
        **(
            {"path": "/data", "filesystem": "ext4", "device": "/dev/sda", "total": 0, "free": 0, "used": 0}
            | changes
        )
    )


def test_memory_is_no_disk(monkeypatch, context):
    monkeypatch.setattr(workload, "place_of", lambda path: place(filesystem="tmpfs", free=2**40))
    tested = work("/data", context)
    assert (tested.trouble, tested.how) == ("tmpfs keeps files in memory: that is no disk", "")


@pytest.mark.parametrize(("free_mib", "chunks"), [(10, 16), (2, 8), (1.4, 0), (0.5, 0), (0, 0)])
def test_no_more_than_half_of_what_is_free_beside_the_reserve_is_written(
    tmp_path, monkeypatch, context, free_mib, chunks
):
    found = place(path=str(tmp_path), free=int(free_mib * 2**20))
    monkeypatch.setattr(workload, "place_of", lambda path: found)
    tested = work("/data", context)
    assert tested.written_mib == chunks / 16
    assert ("too little to write" in tested.trouble) is (not chunks)


def test_a_slow_disk_is_written_for_half_of_the_time_and_a_few_chunks_at_least(tmp_path, context):
    tested = work(tmp_path, context, duration_s=0.0)
    assert tested.written_mib == tested.verified_mib == 4 / 16


@pytest.mark.parametrize("byte", [0, 1000, CHUNK - 1])
def test_a_byte_that_changed_is_located(byte):
    chunks = Chunks(CHUNK)
    read = scratch.mmap.mmap(-1, CHUNK)
    read[:] = chunks.make(3)[:]
    assert chunks.differing(read, 3) is None
    read[byte] = read[byte] ^ 1
    assert chunks.differing(read, 3) == 3 * CHUNK + byte
    read[byte] = read[byte] ^ 1
    assert chunks.differing(read, 4) == 4 * CHUNK + 8, "the page's number is another one"


def test_a_disk_that_returns_other_data_is_caught(tmp_path, monkeypatch, context):
    really = ScratchFile.read

    def spoiled(file, buffer, at):
        really(file, buffer, at)
        if at == 5 * CHUNK:
            buffer[77] ^= 0x20

    monkeypatch.setattr(ScratchFile, "read", spoiled)
    tested = work(tmp_path, context)
    assert tested.wrong == 1
    assert [one.data["offset"] for one in context.events("disk_error")] == [5 * CHUNK + 77]
    assert [one.verified for one in context.rounds].count(False) == 1


def test_a_file_that_is_shorter_than_written_is_an_error(tmp_path):
    file = ScratchFile(str(tmp_path))
    with pytest.raises(OSError, match="shorter than what was written"):
        file.read(scratch.mmap.mmap(-1, CHUNK), 0)
    file.close()


def test_the_mount_that_a_folder_is_on_is_the_nearest_and_the_last(tmp_path):
    (tmp_path / "self").mkdir()
    home = tmp_path / "with blank" / "home"
    home.mkdir(parents=True)
    escaped = str(home.parent).replace(" ", "\\040")
    (tmp_path / "self/mountinfo").write_text(
        "1 0 8:1 / / rw - ext4 /dev/root rw\n"
        f"2 1 0:5 / {escaped} rw shared:1 - xfs /dev/old rw\n"
        f"3 1 0:6 / {escaped} rw - btrfs /dev/mapper/a\\040b rw\n"
        f"4 1 0:7 / {home}-other rw - tmpfs tmpfs rw\n"
        "torn line\n"
    )
    found = place_of(str(home), tmp_path)
    assert (found.path, found.filesystem, found.device) == (str(home), "btrfs", "/dev/mapper/a b")
    assert found.total > 0
    assert place_of(str(home), tmp_path / "none").filesystem == "unknown"


def test_what_is_in_use_is_of_what_users_may_use():
    """As `df` shows it: 5 % are the administrator's."""
    assert place(total=100, free=15, used=80).used_share == pytest.approx(80 / 95)
    assert place(total=100, free=0, used=95).used_share == 1.0
    assert place().used_share == 0.0


def test_a_home_is_looked_up_where_the_disk_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert place_of("~").path == str(tmp_path.resolve())
    with pytest.raises(FileNotFoundError):
        place_of("~nobody-of-this-name/x")
