"""Names that say nothing, the same each time, by a key that only its owner can read."""

import os
import re
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.report.published.pseudonyms import Key, Pseudonyms, ShareError, read_key, require_key

ONE, OTHER = Pseudonyms(Key(b"1" * 32)), Pseudonyms(Key(b"2" * 32))


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path):
    first = read_key(tmp_path)
    path = tmp_path / "share.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(first.secret) == 32
    assert first.remark is None
    assert read_key(tmp_path) == first
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_does_not_depend_on_the_umask(tmp_path):
    before = os.umask(0)
    try:
        read_key(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "share.key").stat().st_mode) == 0o600


def test_every_folder_has_a_key_of_its_own(tmp_path):
    (tmp_path / "other").mkdir()
    assert read_key(tmp_path).secret != read_key(tmp_path / "other").secret


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660])
def test_a_key_that_others_could_read_is_closed_and_reported(tmp_path, mode):
    key = read_key(tmp_path)
    (tmp_path / "share.key").chmod(mode)
    again = read_key(tmp_path)
    assert again.secret == key.secret
    assert f"its mode was {mode:04o} and is 0600 now" in again.remark
    assert stat.S_IMODE((tmp_path / "share.key").stat().st_mode) == 0o600
    assert read_key(tmp_path).remark is None


def test_a_key_is_checked_before_a_run_and_left_as_it_is(tmp_path):
    require_key(tmp_path)
    assert list(tmp_path.iterdir()) == []
    read_key(tmp_path)
    path = tmp_path / "share.key"
    path.chmod(0o644)
    require_key(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644  # the run that uses it closes it, and says so
    path.write_text("no key")
    with pytest.raises(ShareError, match=r"share\.key: holds no key; move it away"):
        require_key(tmp_path)


@pytest.mark.parametrize("content", [b"", b"00", b"zz" * 32, b"\xff" * 64, b"00" * 31, b"0" * 10_000])
def test_a_file_that_holds_no_key_is_refused_and_left(tmp_path, content):
    path = tmp_path / "share.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ShareError, match=r"share\.key: holds no key; move it away"):
        read_key(tmp_path)
    assert path.read_bytes() == content


def test_a_key_elsewhere_is_neither_read_nor_made(tmp_path):
    outside = tmp_path / "outside"
    for there in (False, True):
        if there:
            outside.write_text("00" * 32)
        link = tmp_path / "reports" / "share.key"
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(outside)
        with pytest.raises(ShareError, match="is a symbolic link"):
            read_key(link.parent)
        assert outside.exists() == there


def test_a_folder_or_a_pipe_in_its_place_is_refused(tmp_path):
    os.mkfifo(tmp_path / "share.key", 0o600)
    with pytest.raises(ShareError, match="is not a file of this user"):
        read_key(tmp_path)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_name_is_the_same_for_one_key_and_another_for_another(one, other):
    assert ONE.of("host", one) == ONE.of("host", one)
    assert ONE.of("host", one) != OTHER.of("host", one)
    assert ONE.of("host", one) != ONE.of("user", one).replace("user", "host")
    if one.lower() != other.lower():
        assert ONE.of("host", one) != ONE.of("host", other)
    assert re.fullmatch(r"host-[0-9a-f]{8}", ONE.of("host", one))


def test_case_does_not_matter():
    assert ONE.of("host", "Lab.Local") == ONE.of("host", "lab.local")


@pytest.mark.parametrize(
    ("original", "shape"),
    [
        ("GPU-11111111-2222-3333-4444-555555555555", r"GPU-"),
        ("MIG-11111111-2222-3333-4444-555555555555", r"MIG-"),
        ("GPU-pc1/gpu0", r"GPU-"),
        ("11111111-2222-3333-4444-555555555555", ""),
    ],
)
def test_a_uuid_stays_one_in_shape(original, shape):
    found = ONE.uuid(original)
    assert re.fullmatch(shape + r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", found)
    assert found != OTHER.uuid(original)
