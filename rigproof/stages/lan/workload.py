"""The LAN stage's workload: TCP streams, then what training sends through, between the nodes of a pair.

It runs in a process of its own, since a library that waits for the other node cannot be told to stop.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rigproof.devices.device import Device
from rigproof.devices.own_process import run_apart, serve_apart
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import WorkerContext
from rigproof.host.addresses import free_ports
from rigproof.stages.lan.meeting import SILENT_S, EndedError, Meeting, SilentError
from rigproof.stages.lan.stage import (
    GLOO,
    NCCL,
    TCP,
    LanEnd,
    LanLatency,
    LanSpec,
    LanTraffic,
)
from rigproof.stages.lan.streams import Streams

MODULE = "rigproof.stages.lan.workload"
STALL_S = 30.0  # without a message
LOAD_S = 60.0  # for torch to be loaded at both ends: 20 s and more on a host that does much else
TIMED_OUT = ("timed out", "timeout")  # as gloo, NCCL and stores say it


def run_lan(spec: LanSpec, _device: Device, context: WorkerContext) -> None:
    """Exchange data with the other node. Emits rounds, events, a LanEnd, LanTraffic and LanLatency.

    Raises RuntimeError if the process dies, hangs or fails. It is not left running.
    """
    run_apart(
        MODULE,
        spec,
        context,
        records=(LanEnd, LanTraffic, LanLatency),
        test="exchange over the LAN",
        silent="the exchange over the LAN was silent",
        stall_s=STALL_S,
    )


class Exchange:
    """This end's part of it."""

    def __init__(self, spec: LanSpec, context: WorkerContext) -> None:
        self._spec = spec
        self._context = context
        self._reporter = Reporter(context, spec.stage, context.crew.subject)
        self._doing = TCP

    def run(self) -> None:
        """All of it, or as far as the way carries. What kept it from going on is an event, not an error."""
        with Meeting(self._context, self._spec.node) as meeting:
            try:
                self._exchange(meeting)
            except EndedError:
                return
            except SilentError as error:
                self._silent(str(error))
            except ConnectionError as error:
                # Its process may have died: then the driver knows, and this one is told to stop.
                end_s = time.monotonic() + SILENT_S
                while time.monotonic() < end_s and not self._context.stopped():
                    self._context.alive()
                    time.sleep(0.1)
                if not self._context.stopped():
                    self._silent(f"{meeting.other} ended the connection: {error}")

    def _exchange(self, meeting: Meeting) -> None:
        streams = Streams(self._spec, meeting, self._reporter)
        streams.run(lambda: self._tell_end(meeting, streams))
        if not self._spec.library_s:
            return
        self._doing = GLOO
        try:
            with self._alive():
                # TCP needs no torch
                from rigproof.stages.lan.libraries import Way, run_libraries  # noqa: PLC0415

            with meeting.line("libraries", LOAD_S) as line:  # the other one may take longer to load it
                port = free_ports(meeting.address, 1)[0] if meeting.first else 0
                mbps = min(streams.rates.values(), default=0.0)
                other = meeting.told(line, port=port, cuda=self._spec.cuda, mbps=mbps)
                first = meeting.address if meeting.first else line.getpeername()[0]
            names = (GLOO, NCCL) if self._spec.cuda and other["cuda"] else (GLOO,)
            way = Way(self._spec, meeting, self._reporter, streams.end, min(mbps, other["mbps"]))
            run_libraries(names, way, (first, port or other["port"]), self._begin)
        except (SilentError, EndedError):
            raise
        except (RuntimeError, ImportError, AttributeError, ValueError) as error:
            self._failed(error)

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """Give signs of life for LOAD_S while something takes its time."""
        over = threading.Event()

        def tick() -> None:
            for _ in range(int(LOAD_S)):
                self._context.alive()
                if over.wait(1.0):
                    return

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _begin(self, doing: str) -> None:
        self._doing = doing

    def _failed(self, error: Exception) -> None:
        """A library's error: that nothing came through for long is about the way, all others are not."""
        lines = str(error).strip().splitlines() or [type(error).__name__]
        if any(one in str(error).lower() for one in TIMED_OUT):
            self._silent(lines[0][:160])
        else:
            message = f"{self._doing}: {lines[0][:160]}"
            self._reporter.event("lan_unable", message, {"traffic": self._doing})

    def _silent(self, message: str) -> None:
        self._reporter.event("lan_silent", f"{self._doing}: {message}", {"traffic": self._doing})

    def _tell_end(self, meeting: Meeting, streams: Streams) -> None:
        interface = streams.end.interface
        self._context.emit(
            LanEnd(
                t_s=self._context.now_s(),
                stage=self._spec.stage,
                worker=self._context.worker,
                subject=self._reporter.subject,
                node=self._spec.node,
                address=meeting.address,
                interface="" if interface is None else interface.name,
                kind="" if interface is None else interface.kind,
                link_mbit=streams.end.link_mbps,
                full_duplex=None if interface is None else interface.full_duplex,
                mtu=None if interface is None else interface.mtu,
            )
        )


def _serve(spec: LanSpec, context: WorkerContext) -> None:
    Exchange(spec, context).run()


if __name__ == "__main__":
    sys.exit(serve_apart(_serve, LanSpec))
