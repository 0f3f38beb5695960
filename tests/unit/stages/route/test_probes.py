"""Probes of a way, on this machine's loopback: what is told of a connection, a burst and packets."""

import socket
import threading

import pytest

from rigproof.host import connections
from rigproof.host.connections import connect
from rigproof.stages.route import probes
from rigproof.stages.route.choice import Way
from rigproof.stages.route.probes import Answers, Burst, Packets, better, burst, packets


@pytest.fixture(params=["127.0.0.1", "::1"])
def address(request):
    if request.param == "::1" and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    return request.param


@pytest.fixture
def answers(address):
    with Answers((address,)) as found:
        yield found


def test_an_open_way_carries_a_burst(answers, address):
    outcome, sock = connect((address, answers.ports[address]), 5.0, address, "lo")
    assert outcome == "open"
    with sock:
        done = burst(sock, answers.greeting)
    assert (done.outcome, done.verified) == ("open", True)
    assert done.megabytes >= probes.FIRST_BYTES / 1e6
    assert done.mbps > 0


def test_another_machine_with_that_address_is_a_stranger(answers, address):
    _, sock = connect((address, answers.ports[address]), 5.0)
    with sock:
        assert burst(sock, "0" * len(answers.greeting)).outcome == "stranger"


def test_nobody_there_is_refused(address):
    with Answers((address,)) as found:
        port = found.ports[address]
    assert connect((address, port), 5.0) == ("refused", None)


def test_no_answer_and_no_route():
    """A listener whose queue is full answers nothing; an address that is not ours leads nowhere."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        held = [connect(full.getsockname(), 0.3) for _ in range(4)]
        assert "no answer" in {outcome for outcome, _ in held}
        for _, sock in held:
            if sock is not None:
                sock.close()
    assert connect(("192.0.2.1", 9), 0.2, "203.0.113.1") == ("unreachable", None)


def test_what_takes_nothing_after_its_greeting_stalls(monkeypatch):
    monkeypatch.setattr(probes, "STALL_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        outcome, sock = connect(server.getsockname(), 5.0)
        other, _ = server.accept()
        other.sendall(b"0" * probes.GREETING_BYTES)
        assert outcome == "open"
        with sock, other:
            assert burst(sock, "0" * probes.GREETING_BYTES).outcome == "stalled"


def test_a_burst_that_arrives_changed_is_not_verified(monkeypatch):
    monkeypatch.setattr(probes.zlib, "crc32", lambda _data, start=0: threading.get_ident() & 0xFFFF)
    with Answers(("127.0.0.1",)) as found:
        _, sock = connect(("127.0.0.1", found.ports["127.0.0.1"]), 5.0)
        with sock:
            done = burst(sock, found.greeting)
    assert (done.outcome, done.verified) == ("open", False)


def test_a_careful_connection_sends_small_segments(address):
    with socket.create_server(
        (address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET
    ) as one:
        _, sock = connect(one.getsockname()[:2], 5.0, careful=True)
        with sock:
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) <= connections.SEGMENT_BYTES


def test_packets_of_the_full_size_arrive(answers, address):
    way = Way("lo", address, "lo", address, "lo")
    assert packets(way, answers.ports[address], 9000, lambda: True) == Packets(9000, 9000)


def test_without_an_answer_nothing_passed(address):
    with Answers((address,)) as found:
        port = found.ports[address]
    assert packets(Way("lo", address, "lo", address, "lo"), port, 1500, lambda: True) == Packets(1500, 0)


@pytest.mark.parametrize("most", [576, 1420, 1472, 1499, 1500, 5000])
def test_the_largest_packet_is_found(most, monkeypatch):
    probe = probes._Packet(None, 4, lambda: True)
    monkeypatch.setattr(probes._Packet, "passes", lambda _self, size: size <= most)
    assert probe.largest(576, 9000) == most


def test_the_better_burst():
    open_one, faster, stalled = Burst("open", 1.0, 10.0), Burst("open", 0.5, 10.0), Burst("stalled")
    assert better(open_one, faster) is faster
    assert better(stalled, open_one) is open_one
    assert better(Burst("no answer"), stalled) is stalled
