"""Two ends in threads, over loopback: what they measure, and what keeps them from it."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from rigproof.devices import meeting
from rigproof.host.addresses import free_ports
from rigproof.records.crews import Member
from rigproof.records.measurements import Round
from rigproof.stages.lan import streams, workload
from rigproof.stages.lan.counting import End, Moment, segments
from rigproof.stages.lan.stage import LanEnd, LanLatency, LanSpec, LanTraffic
from rigproof.stages.lan.workload import Exchange
from support.devices import NodeContext

HERE = "127.0.0.1"
TCP_S = 0.3
LIMIT_S = 60.0  # for a busy machine


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Only what is about silence may find any."""
    monkeypatch.setattr(workload, "MEET_S", LIMIT_S)
    for module in (streams, workload):
        monkeypatch.setattr(module, "SILENT_S", LIMIT_S)


def context_of(rank, place):
    context = NodeContext()
    context.crew = Member("pc1+pc2", rank, 2, place)
    context.worker = f"pc{rank + 1}/gpu0#0"
    return context


def exchange(context, tcp_s=TCP_S):
    Exchange(LanSpec("lan", f"pc{context.crew.rank + 1}", False, tcp_s, 0.0, 0.0, 0.01), context).run()


def both(*places, tcp_s=TCP_S):
    """Two ends at work, the first at the first place, the other by the last; their contexts afterwards."""
    contexts = [context_of(rank, places[-rank]) for rank in (0, 1)]
    with ThreadPoolExecutor(2) as ends:
        for done in [ends.submit(exchange, one, tcp_s) for one in contexts]:
            done.result(2 * LIMIT_S)
    return contexts


@pytest.fixture
def place():
    return HERE, free_ports(HERE, 1)[0]


def test_every_way_is_measured_by_its_receiver_and_verified(place):
    first, second = both(place)
    ways = {(one.label("direction"), one.label("company")) for one in first.rounds}
    assert ways == {("back", "alone"), ("back", "together")}
    ways = {(one.label("direction"), one.label("company")) for one in second.rounds}
    assert ways == {("out", "alone"), ("out", "together")}
    for context in (first, second):
        assert {one.subject for one in context.records} == {"pc1+pc2"}
        assert all(one.verified and one.unit == "MB" for one in context.rounds)
        assert {one.phase for one in context.rounds} == {"warmup", "measure"}
        [end] = [one for one in context.records if isinstance(one, LanEnd)]
        assert (end.kind, end.link_mbit) == ("loopback", None)
    counted = [one for context in (first, second) for one in context.records if isinstance(one, LanTraffic)]
    assert len(counted) == 8
    for one in counted:
        own = [two.mb for two in counted if (two.direction, two.company) == (one.direction, one.company)]
        assert own == [pytest.approx(one.mb)] * 2  # both ends agree
        assert one.card_mb is None or one.card_mb >= 0.9 * one.mb  # it may begin to count a moment later
        assert (one.sent is not None and one.sent > 0) is (one.role == "sender")
    latencies = [one for one in first.records if isinstance(one, LanLatency)]
    assert [one.size for one in latencies] == [4, 1024]
    assert all(0 < one.median_ms <= one.p99_ms and one.count >= 100 for one in latencies)


@pytest.fixture
def through(place):
    """A place that passes all on to the other one, and flips a bit of each connection's first large piece."""
    with ExitStack() as open_, socket.create_server((HERE, 0)) as server:

        def passed(source, target):
            spoiled = False
            with suppress(OSError):
                while data := bytearray(source.recv(65536)):
                    if len(data) > 4096 and not spoiled:  # a message is shorter, and none follows unanswered
                        data[-1] ^= 1
                        spoiled = True
                    target.sendall(data)
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)

        def connected():
            while True:  # the end there may begin later
                with suppress(ConnectionRefusedError):
                    return socket.create_connection(place)
                time.sleep(0.01)

        def serve():
            with suppress(OSError):
                while True:
                    near = open_.enter_context(server.accept()[0])
                    far = open_.enter_context(connected())
                    for pair in ((near, far), (far, near)):
                        threading.Thread(target=passed, args=pair, daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()
        server.shutdown(socket.SHUT_RDWR)


def test_a_flipped_bit_is_found_each_way(place, through, monkeypatch):
    monkeypatch.setattr(meeting, "LOOK_S", 0.5)
    first, second = both(place, through, tcp_s=1.5)
    for context, way in ((first, "back"), (second, "out")):
        wrong = context.events("lan_wrong")
        streams_ = [one.message for one in wrong if "message" not in one.message]
        assert len(streams_) == 2, streams_  # alone and together, once each
        assert all(f"of a stream {way} differ" in one for one in streams_)
        assert not all(one.verified for one in context.rounds)


def test_whoever_else_calls_is_sent_away(place):
    done = []

    def strange():
        for greeting in (b"GET / HTTP/1.1\r\n\r\n", b'["rigproof other+pair messages", "pc9"]\n', b""):
            while True:
                with suppress(OSError):
                    line = socket.create_connection(place, 1.0)
                    break
            line.sendall(greeting)
            line.settimeout(LIMIT_S)
            with suppress(OSError):
                done.append(line.recv(100))
            line.close()

    context = context_of(0, place)
    with ThreadPoolExecutor(3) as ends:
        first = ends.submit(exchange, context)
        ends.submit(strange).result(LIMIT_S)
        ends.submit(exchange, context_of(1, place)).result(LIMIT_S)
        first.result(LIMIT_S)
    assert set(done) <= {b""}
    assert {one.label("direction") for one in context.rounds} == {"back"}


@pytest.mark.parametrize(
    ("rank", "said"), [(0, "nobody came to 127.0.0.1:"), (1, "could not be reached for 0.3 s: refused")]
)
def test_one_that_never_comes_is_silence_not_an_error(place, monkeypatch, rank, said):
    monkeypatch.setattr(workload, "MEET_S", 0.3)
    context = context_of(rank, place)
    exchange(context)
    [event] = context.events("lan_silent")
    assert said in event.message


def test_one_that_says_nothing_any_more_is_given_up(place, monkeypatch):
    monkeypatch.setattr(streams, "SILENT_S", 0.3)
    stuck = threading.Event()

    def silent():
        """It comes, and then does nothing."""
        context = context_of(1, place)
        with meeting.Meeting(context) as other:
            line = other.line("messages")
            stuck.wait(LIMIT_S)
            line.close()

    context = context_of(0, place)
    with ThreadPoolExecutor(1) as ends:
        other = ends.submit(silent)
        exchange(context)
        stuck.set()
        other.result(LIMIT_S)
    [event] = context.events("lan_silent")
    assert event.message == "tcp: nothing came from pc2 for 0.3 s"


def test_one_that_hangs_up_is_reported_unless_the_crew_has_ended(place, monkeypatch):
    monkeypatch.setattr(workload, "SILENT_S", 0.3)

    def leaves():
        context = context_of(1, place)
        with meeting.Meeting(context) as other:
            other.line("messages").close()

    context = context_of(0, place)
    with ThreadPoolExecutor(1) as ends:
        ends.submit(leaves)
        exchange(context)
    [event] = context.events("lan_silent")
    assert "pc2 ended the connection" in event.message


def test_a_crew_that_has_ended_is_left_without_a_word(place):
    context = context_of(0, place)
    context.stopped = lambda: True
    exchange(context)
    assert context.records == []


def test_counts_are_differences_and_the_kernel_is_asked(place):
    end = End.at(HERE, HERE)
    before = Moment.now(end)
    with socket.create_server(place) as server, socket.create_connection(place) as line:
        other, _ = server.accept()
        line.sendall(b"x" * 100_000)
        got = 0
        while got < 100_000:
            got += len(other.recv(65536))
        other.close()
        assert segments(line)[0] > 0
        assert segments(line)[1] == 0
    spent = Moment.now(end).since(before)
    assert spent.seconds > 0
    assert spent.sent_mb is None or spent.sent_mb >= 0.1
    assert End.at("203.0.113.1", "203.0.113.2").interface is None
    assert Moment.now(End(None)).since(before).sent_mb is None


def test_rounds_are_of_the_stage(place):
    first, _ = both(place)
    assert {one.stage for one in first.records if isinstance(one, Round)} == {"lan"}
