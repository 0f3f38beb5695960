"""What NCCL says of a group that hangs is read from whoever answers at the process's own address."""

import socket
import threading

import pytest

from rigproof.devices import ras
from rigproof.devices.ras import own_address, status_at


@pytest.fixture
def answering():
    """The address of a process that answers in these parts, and what it was asked."""
    with socket.create_server((ras.HOST, 0)) as server:
        asked = []

        def serve(parts, hold):
            connection, _ = server.accept()
            with connection:
                asked.append(connection.recv(100))
                for part in parts:
                    connection.sendall(part)
                hold.wait(10)

        def start(*parts, ends=True):
            hold = threading.Event()
            if ends:
                hold.set()
            threading.Thread(target=serve, args=(parts, hold), daemon=True).start()
            return f"{ras.HOST}:{server.getsockname()[1]}", hold

        yield start, asked


def test_all_that_is_said_is_read_without_the_answer_to_our_own_order(answering):
    start, asked = answering
    address, _ = start(b"OK\n", b"NCCL version 2.28.9\n", b"Job summary\n  1 node, \xff 2 processes\n")
    assert status_at(address) == "NCCL version 2.28.9\nJob summary\n  1 node, \ufffd 2 processes"
    assert asked == [b"timeout 2\nverbose status\n"]


def test_whoever_never_ends_is_left_with_what_was_said(answering, monkeypatch):
    monkeypatch.setattr(ras, "PATIENCE_S", 0.3)
    start, _ = answering
    address, hold = start(b"NCCL version", ends=False)
    assert status_at(address) == "NCCL version"
    hold.set()


def test_no_more_is_kept_than_a_recording_can_hold(answering):
    start, _ = answering
    address, _ = start(b"x" * 10_000)
    assert status_at(address) == "x" * ras.MOST_BYTES


def test_where_nobody_answers_nothing_is_said():
    assert status_at(own_address()) == ""
