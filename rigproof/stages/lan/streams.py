"""One TCP stream there, back, and both at once, every byte verified; and how long small messages take."""

import math
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median
from typing import Literal

import numpy as np

from rigproof.devices.meeting import Meeting
from rigproof.devices.reporting import Reporter
from rigproof.records.measurements import MB, Phase
from rigproof.stages.lan.counting import End, Moment, Spent, segments
from rigproof.stages.lan.stage import (
    ALONE,
    BACK,
    LATENCY_BYTES,
    OUT,
    SEND,
    TCP,
    TOGETHER,
    LanLatency,
    LanSpec,
    LanTraffic,
)

Role = Literal["sender", "receiver"]
Moved = tuple[Role, float]  # MB
StringLabels = Mapping[str, str]
Counted = tuple[int, int] | tuple[None, None]  # segments sent, and sent again

SILENT_S = 5.0  # without a byte, of a way on which bytes are due: TCP itself tries again after 0.2 to 3 s
CHUNK = 2**20  # bytes that are sent, or received, at a time at most
PERIOD = CHUNK + 4099  # of the data: a prime more than a chunk, so that chunks differ
UNSENT = 2**18  # bytes that wait in the sender's kernel, so that a slow link is over soon after the last one
LATENCY_SHARE = 0.1  # of TCP's time; each way alone, and both, have a third of the rest
WARM_SHARE = 0.2  # of a stream's time: TCP finds out what the link carries
FEWEST_WINDOWS = 5
MOST_MESSAGES, FEWEST_MESSAGES = 1000, 100

DATA = np.random.default_rng(29).integers(0, 256, PERIOD, np.uint8)
TWICE = np.concatenate([DATA, DATA[:CHUNK]])  # so that a chunk can begin anywhere in the period


class Streams:
    """TCP between two ends. `mbps`: what this end received while nothing went back, MB/s."""

    def __init__(self, spec: LanSpec, meeting: Meeting, reporter: Reporter) -> None:
        self.mbps = 0.0
        self.end: End
        self.first = reporter.context.crew.rank == 0
        self.other = other_node(spec, reporter)
        self._spec = spec
        self._meeting = meeting
        self._reporter = reporter

    def run(self, begun: Callable[[], None]) -> None:
        """All of it; `begun` is called as soon as it is known which interface it goes through."""
        whole_s = self._spec.tcp_s
        self._messages(LATENCY_SHARE * whole_s, begun)
        each_s = (1 - LATENCY_SHARE) * whole_s / 3
        for direction in (OUT, BACK):
            with self._meeting.line(direction).sock as line:
                if self._sends(direction):
                    self._reporter.context.emit(self._send(line, direction, ALONE, each_s))
                else:
                    self._receive(line, direction, ALONE, each_s)
        lines = (self._meeting.line(f"{direction} {TOGETHER}").sock for direction in (OUT, BACK))
        with next(lines) as out, next(lines) as back, ThreadPoolExecutor(1) as beside:
            mine, other = (out, back) if self._sends(OUT) else (back, out)
            own, its = (OUT, BACK) if self._sends(OUT) else (BACK, OUT)
            sent = beside.submit(self._send, mine, own, TOGETHER, each_s)
            self._receive(other, its, TOGETHER, each_s)
            self._reporter.context.emit(sent.result())

    def _sends(self, direction: str) -> bool:
        """Whether this end sends in that direction."""
        return self.first == (direction == OUT)

    def _send(self, line: socket.socket, direction: str, company: str, length_s: float) -> LanTraffic:
        """Send for so long; the record counts what the other end has received."""
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
        before = Moment.now(self.end)
        data, sent, end_s = TWICE.data, 0, time.monotonic() + length_s
        while time.monotonic() < end_s:
            chunk = data[sent % PERIOD :][:CHUNK]
            sent += self._meeting.patiently(
                partial(line.send, chunk), lambda: f"{self.other} took nothing", SILENT_S
            )
        line.shutdown(socket.SHUT_WR)
        answer = bytearray(8)
        if self.some(line, memoryview(answer)) != len(answer):
            raise ConnectionError("it ended before it said how much had come")
        counted = segments(line)
        spent = Moment.now(self.end).since(before)
        got = int.from_bytes(answer, "big")
        if got != sent:
            self._wrong(f"of {sent} bytes that were sent {direction}, {got} came")
        labels = {"direction": direction, "company": company}
        return self._record(("sender", got / 1e6), spent, labels, counted)

    def some(self, line: socket.socket, room: memoryview) -> int:
        """Receive some bytes; how many, 0 at the end of the line. SilentError, EndedError."""
        return self._meeting.patiently(
            lambda: line.recv_into(room), lambda: f"nothing came from {self.other}", SILENT_S
        )

    def _receive(self, line: socket.socket, direction: str, company: str, length_s: float) -> None:
        """Receive until the other end has sent all; a round for each window of time. Verifies every byte."""
        room = np.empty(CHUNK, np.uint8)
        view, received, right, all_right = room.data, 0, True, True
        before = Moment.now(self.end)
        window_s = min(self._spec.round_s, (1 - WARM_SHARE) * length_s / FEWEST_WINDOWS)
        begun_s = from_s = time.monotonic()
        in_window, measured_mb, measured_s = 0, 0.0, 0.0
        while count := self.some(line, view):
            place = received % PERIOD
            if not np.array_equal(room[:count], TWICE[place : place + count]):
                if all_right:
                    self._wrong(f"bytes {received} to {received + count} of a stream {direction} differ")
                right = all_right = False
            received, in_window = received + count, in_window + count
            now_s = time.monotonic()
            if now_s - from_s >= window_s:
                phase: Phase = "warmup" if from_s - begun_s < WARM_SHARE * length_s else "measure"
                if phase == "measure":
                    measured_mb, measured_s = measured_mb + in_window / 1e6, measured_s + now_s - from_s
                self._reporter.round(
                    phase=phase,
                    seconds=now_s - from_s,
                    work=in_window / 1e6,
                    unit=MB,
                    verified=right,
                    labels={"traffic": TCP, "operation": SEND, "direction": direction, "company": company},
                )
                from_s, in_window, right = now_s, 0, True
        line.sendall(received.to_bytes(8, "big"))
        spent = Moment.now(self.end).since(before)
        if company == ALONE and measured_s:
            self.mbps = measured_mb / measured_s
        labels = {"direction": direction, "company": company}
        self._reporter.context.emit(self._record(("receiver", received / 1e6), spent, labels, (None, None)))

    def _messages(self, length_s: float, begun: Callable[[], None]) -> None:
        """Small messages there and back, one after the other."""
        with self._meeting.line("messages").sock as line:
            self.end = End.at(self._meeting.own_address, line.getpeername()[0])
            begun()
            if self.first:
                for size in LATENCY_BYTES:
                    self._sent_and_back(line, size, length_s / len(LATENCY_BYTES))
                return
            room = memoryview(bytearray(max(LATENCY_BYTES)))
            while count := self.some(line, room):
                line.sendall(room[:count])

    def _sent_and_back(self, line: socket.socket, size: int, length_s: float) -> None:
        times_s: list[float] = []
        end_s = time.monotonic() + length_s
        while len(times_s) < FEWEST_MESSAGES or (len(times_s) < MOST_MESSAGES and time.monotonic() < end_s):
            sent = DATA[len(times_s) :][:size].tobytes()
            begun_s = time.perf_counter()
            line.sendall(sent)
            got = self._exactly(line, size)
            times_s.append(time.perf_counter() - begun_s)
            if got != sent:
                self._wrong(f"a message of {size} bytes came back changed")
        self._reporter.context.emit(latency(self._reporter, TCP, size, times_s))

    def _exactly(self, line: socket.socket, size: int) -> bytes:
        found = b""
        while len(found) < size:
            room = bytearray(size - len(found))
            count = self.some(line, memoryview(room))
            if not count:
                raise ConnectionError("it ended the connection")
            found += room[:count]
        return found

    def _wrong(self, what: str) -> None:
        self._reporter.event("lan_wrong", f"tcp: {what}", {"traffic": TCP})

    def _record(self, moved: Moved, spent: Spent, labels: StringLabels, counted: Counted) -> LanTraffic:
        labels = {"traffic": TCP, "operation": SEND, **labels}
        return traffic(self._reporter, self._spec.node, spent, moved, labels, counted=counted)


def other_node(spec: LanSpec, reporter: Reporter) -> str:
    """The node at the other end."""
    return next((name for name in reporter.subject.split("+") if name != spec.node), "the other node")


def traffic(
    reporter: Reporter,
    node: str,
    spent: Spent,
    moved: Moved,
    labels: StringLabels,
    *,
    counted: Counted = (None, None),
) -> LanTraffic:
    """The record of what an end spent on traffic, of which it moved so many MB in its role."""
    (role, mb), (sent, resent) = moved, counted
    return LanTraffic(
        **reporter.head | dict(labels),
        node=node,
        role=role,
        seconds=spent.seconds,
        mb=mb,
        card_mb=spent.sent_mb if role == "sender" else spent.received_mb,
        sent=sent,
        resent=resent,
        errors=spent.errors,
        drops=spent.drops,
        cpu_share=spent.cpu_share,
        waiting_share=spent.waiting_share,
    )


def latency(reporter: Reporter, carried_by: str, size: int, times_s: list[float]) -> LanLatency:
    """The record of how long messages took one way, from their times there and back, s."""
    ordered = sorted(times_s)
    return LanLatency(
        **reporter.head,
        traffic=carried_by,
        size=size,
        count=len(ordered),
        median_ms=1000 * median(ordered) / 2,
        p99_ms=1000 * ordered[math.ceil(0.99 * len(ordered)) - 1] / 2,
    )
