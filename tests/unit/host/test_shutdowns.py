"""An orderly shutdown stands in the system's log before the start that follows it; a reset does not."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.host import shutdowns
from rigproof.host.shutdowns import first_after, shut_down_after


def entry(kind, user, moment_s):
    """One entry of wtmp, as glibc lays it out (utmp(5)): 384 bytes."""
    head = struct.pack("<hxxi32s4s32s256s", kind, 0, b"~", b"~~", user, b"6.8.0")
    return head + struct.pack("<hhi", 0, 0, 0) + struct.pack("<ii", moment_s, 0) + b"\0" * 36


START, SHUTDOWN, LOGIN = (2, b"reboot"), (1, b"shutdown"), (7, b"anna")


@pytest.mark.parametrize(
    ("log", "orderly"),
    [
        ([(*START, 100)], None),
        ([(*START, 100), (*START, 1060)], False),
        ([(*START, 100), (*SHUTDOWN, 1030), (*START, 1060)], True),
        ([(*START, 100), (*LOGIN, 1020), (1, b"runlevel", 1025), (*START, 1060), (*SHUTDOWN, 5000)], False),
        ([(*SHUTDOWN, 900), (*START, 950), (*START, 1060)], False),
        ([(*SHUTDOWN, 999)], True),  # whole seconds there
        ([], None),
    ],
)
def test_the_first_thing_after_the_last_words_decides(log, orderly):
    assert first_after(1000.0, b"".join(entry(*one) for one in log)) is orderly


@given(st.binary(max_size=1000))
def test_whatever_the_log_holds_it_is_an_answer(content):
    assert first_after(0.0, content) in (True, False, None)


def test_a_log_that_is_not_there_or_of_another_layout_says_nothing(tmp_path, monkeypatch):
    path = tmp_path / "wtmp"
    assert shut_down_after(1000.0, path) is None
    path.write_bytes(entry(*SHUTDOWN, 1030) + entry(*START, 1060)[:100])  # the last one is torn
    assert shut_down_after(1000.0, path) is (True if shutdowns.platform.machine() == "x86_64" else None)
    monkeypatch.setattr(shutdowns.platform, "machine", lambda: "aarch64")
    assert shut_down_after(1000.0, path) is None
