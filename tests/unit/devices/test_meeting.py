"""The nodes' talk, between threads on this machine: who comes, what they say, and how it ends."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.devices import meeting
from rigproof.devices.meeting import EndedError, Line, Meeting
from rigproof.host.addresses import free_ports
from rigproof.records.crews import Member
from support.devices import NodeContext


def contexts(size):
    place = ("127.0.0.1", *free_ports("127.0.0.1", 1))
    made = [NodeContext() for _ in range(size)]
    for rank, one in enumerate(made):
        one.crew = Member("rig", rank, size, place)
    return made


def together(members, work):
    """What `work` returns of each member, all at the same time."""
    with ThreadPoolExecutor(len(members)) as pool:
        return list(pool.map(work, members))


def test_all_say_and_hear_everything():
    def work(context):
        with Meeting(context) as met:
            said = [met.exchange(topic, [topic, context.crew.rank], 20.0) for topic in ("a", "b")]
            return said, met.present, met.trouble, met.own_address, met.ahead_s, met.ahead_error_s

    for said, present, trouble, address, ahead_s, error_s in together(contexts(3), work):
        assert said == [{rank: [topic, rank] for rank in range(3)} for topic in ("a", "b")]
        assert 0 in present
        assert (trouble, address) == (None, "127.0.0.1")
        assert abs(ahead_s) <= error_s + 0.01


def test_a_clock_is_read(monkeypatch):
    real, offset = meeting.wall_clock, threading.local()
    monkeypatch.setattr(meeting, "wall_clock", lambda: real() + getattr(offset, "s", 0.0))

    def work(context):
        offset.s = 90.0 * context.crew.rank
        with Meeting(context) as met:
            met.exchange("end", None, 20.0)
            return met.ahead_s

    first, second = together(contexts(2), work)
    assert first == 0.0
    assert second == pytest.approx(90.0, abs=0.5)


def test_one_that_never_comes_is_left_out(monkeypatch):
    monkeypatch.setattr(meeting, "MEET_S", 1.0)

    def work(context):
        with Meeting(context) as met:
            return met.exchange("a", context.crew.rank, 5.0), met.present

    first, second = together(contexts(3)[:2], work)
    assert first == ({0: 0, 1: 1}, {0, 1})
    assert second[0] == {0: 0, 1: 1}


def test_one_that_says_nothing_any_more_is_left_out(monkeypatch):
    monkeypatch.setattr(meeting, "MEET_S", 1.0)
    silent = threading.Event()

    def work(context):
        with Meeting(context) as met:
            if context.crew.rank == 1:
                silent.wait(20.0)
                return None
            try:
                return [met.exchange(topic, context.crew.rank, 0.5) for topic in ("a", "b")]
            finally:
                silent.set() if context.crew.rank == 0 else None

    first, _, last = together(contexts(3), work)
    assert first == last == [{0: 0, 2: 2}, {0: 0, 2: 2}]


def test_where_nobody_listens_it_says_so(monkeypatch):
    monkeypatch.setattr(meeting, "MEET_S", 0.3)
    _, context = contexts(2)
    with Meeting(context) as met:
        assert (met.trouble, met.present, met.ahead_s) == ("refused", {1}, None)


def test_it_ends_with_its_crew():
    first, second = contexts(2)
    for one in (first, second):
        one.stopped = lambda: True
    with pytest.raises(EndedError), Meeting(first):
        pass
    with pytest.raises(EndedError), Meeting(second):
        pass


def test_strangers_are_ignored(monkeypatch):
    """Anybody on the LAN can connect: what is no member's is dropped."""
    first, second = contexts(2)
    said = [
        b"GET / HTTP/1.0\r\n\r\n",
        b"[]\n",
        b'{"rank": 7, "crew": "rig"}\n',
        b'{"rank": 1, "crew": "x"}\n',
    ]

    def work(context):
        if context is not second:
            with Meeting(context) as met:
                return met.exchange("a", 0, 5.0)
        for line in said:
            with socket.create_connection(first.crew.rendezvous, 5.0) as sock:
                sock.sendall(line)
        with Meeting(context) as met:
            return met.exchange("a", 1, 5.0)

    ready = threading.Event()
    original = socket.create_server

    def create_server(*args, **kwargs):
        made = original(*args, **kwargs)
        ready.set()
        return made

    monkeypatch.setattr(socket, "create_server", create_server)

    def later(context):
        if context is second:
            ready.wait(20.0)
        return work(context)

    assert together([first, second], later) == [{0: 0, 1: 1}, {0: 0, 1: 1}]


def test_a_line_ends_where_it_is_closed():
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname(), 5.0)
        other, _ = server.accept()
    left, right = Line(one), Line(other)
    assert left.send({"a": 1})
    assert right.receive(lambda: True) == {"a": 1}
    other.sendall(b"no json\n")
    assert left.receive(lambda: True) is None
    other.sendall(json.dumps({"b": 2}).encode())
    right.close()
    assert left.receive(lambda: True) is None
    assert not all(left.send("x" * 2**20) for _ in range(3))
    left.close()


MESSAGES = st.lists(st.dictionaries(st.text(max_size=3), st.integers()), max_size=4)


@given(MESSAGES, st.binary(max_size=50), st.lists(st.integers(1, 20), max_size=10))
def test_whatever_the_pieces_messages_come_whole_and_what_is_behind_them_stays(messages, behind, pieces):
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname(), 20.0)
        other, _ = server.accept()
    text = b"".join(json.dumps(message).encode() + b"\n" for message in messages) + behind

    def send():
        place = 0
        for size in (*pieces, len(text)):
            other.sendall(text[place : place + size])
            place += size

    with one, other, ThreadPoolExecutor(1) as pool:
        pool.submit(send)
        line = Line(one)
        assert [line.receive(lambda: True) for _ in messages] == messages
        one.settimeout(20.0)
        got = b""
        while len(got) < len(behind):
            got += one.recv(100)
        assert got == behind


def test_a_pair_has_connections_for_data_beside_its_talk():
    def work(context):
        with Meeting(context) as met:
            met.require_all()
            line = met.line("data")
            with line.sock as sock:
                sock.sendall(b"%d" % context.crew.rank)
                got = met.patiently(lambda: sock.recv(1), lambda: "nothing", 20.0)
            return got, met.exchange("end", None, 20.0)

    assert together(contexts(2), work) == [(b"1", {0: None, 1: None}), (b"0", {0: None, 1: None})]


def test_who_is_not_there_is_told_by_address(monkeypatch):
    monkeypatch.setattr(meeting, "MEET_S", 0.3)
    first, second = contexts(2)
    for context, said in (
        (first, "nobody came to 127.0.0.1:"),
        (second, "could not be reached for 0.3 s: refused"),
    ):
        with Meeting(context) as met, pytest.raises(meeting.SilentError, match=said):
            met.require_all()
