"""Only regular files within their size limits are read, and no other file can hang or fill the memory."""

import os
from pathlib import Path

import pytest

from rigproof.records.limits import FileRefusedError, open_plain, read_bounded


def refused(path, limit=10):
    with pytest.raises(FileRefusedError) as caught:
        read_bounded(path, limit)
    assert str(path) in str(caught.value)
    return caught.value.reason


def test_a_file_of_just_the_limit_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b"0123456789")
    assert read_bounded(tmp_path / "file", 10) == b"0123456789"


def test_a_byte_more_is_refused_with_size_and_limit(tmp_path):
    (tmp_path / "file").write_bytes(b"0123456789x")
    assert refused(tmp_path / "file") == "11 bytes are more than the 10 it can have"


def test_a_huge_sparse_file_costs_nothing(tmp_path):
    with (tmp_path / "file").open("wb") as file:
        file.truncate(2**40)
    assert "1099511627776 bytes" in refused(tmp_path / "file")


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"0")

    def grown(*arguments):
        path.write_bytes(b"0" * 100)
        return real(*arguments)

    real = os.fdopen
    monkeypatch.setattr("rigproof.records.limits.os.fdopen", grown)
    assert refused(path) == "grew to more than 10 bytes while it was read"


def test_a_pipe_does_not_wait_for_its_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe") == "is not a regular file"


def test_a_pipe_that_takes_the_place_of_the_file_does_not_wait_either(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"0")

    def swapped(*arguments):
        path.unlink()
        os.mkfifo(path)
        return real(*arguments)

    real = os.open
    monkeypatch.setattr("rigproof.records.limits.os.open", swapped)
    assert refused(path) == "is not a regular file"


def test_a_device_has_no_end_and_is_refused():
    assert refused(Path("/dev/zero")) == "is not a regular file"


def test_folders_and_what_is_absent_are_named(tmp_path):
    assert refused(tmp_path) == "is a folder, not a file"
    assert refused(tmp_path / "absent") == "No such file or directory"
    assert refused(tmp_path / ("a" * 300)) == "File name too long"
    assert refused(Path("a\0b")) == "is not a valid path"
    (tmp_path / "circle").symlink_to("circle")
    assert refused(tmp_path / "circle") == "Too many levels of symbolic links"


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_is_left_open(tmp_path):
    (tmp_path / "file").write_bytes(b"0")
    before = descriptors()
    with open_plain(tmp_path / "file", 10) as file:
        assert file.read() == b"0"
    refused(tmp_path)
    refused(tmp_path / "file", 0)
    assert descriptors() == before
