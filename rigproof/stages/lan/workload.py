"""The LAN stage's workload: TCP streams, then what training sends through, between the nodes of a pair.

It runs in a process of its own, since a library that waits for the other node cannot be told to stop.
"""

import time

from rigproof.devices.device import Device
from rigproof.devices.meeting import EndedError, Meeting, SilentError
from rigproof.devices.own_process import run_apart, serve_apart
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import WorkerContext
from rigproof.host import parent
from rigproof.host.addresses import free_ports
from rigproof.host.child import Message
from rigproof.records.message_text import what_it_says
from rigproof.stages.lan.objects import Transfer
from rigproof.stages.lan.stage import GLOO, NCCL, TCP, LanEnd, LanLatency, LanSpec, LanTraffic
from rigproof.stages.lan.streams import SILENT_S, Streams, other_node

MODULE = "rigproof.stages.lan.workload"
MEET_S = 20.0  # for the other one's process to start and to be reached
STALL_S = 30.0  # without a message
LOAD_S = 60.0  # for torch to be loaded at both ends: 20 s and more on a host that does much else
TIMED_OUT = ("timed out", "timeout")  # as gloo, NCCL and stores say it


def run_lan(spec: LanSpec, _device: Device, context: WorkerContext) -> None:
    """Exchange data with the other node. Emits rounds, events, a LanEnd, LanTraffic and LanLatency.

    Raises RuntimeError if the process dies, hangs or fails. It is not left running.
    """
    rates: list[float] = []  # of TCP, if all that came after it came through, too

    def hear(message: Message) -> None:
        if message["what"] == "through":
            rates.append(message["mbps"])

    run_apart(
        MODULE,
        spec,
        context,
        records=(LanEnd, LanTraffic, LanLatency),
        test="exchange over the LAN",
        silent="the exchange over the LAN was silent",
        stall_s=STALL_S,
        hear=hear,
    )
    if spec.ray_s and rates and context.objects is not None:
        Transfer(spec, context, context.objects, *rates).run()


class Exchange:
    """This end's part of it."""

    def __init__(self, spec: LanSpec, context: WorkerContext) -> None:
        self._spec = spec
        self._context = context
        self._reporter = Reporter(context, spec.stage, context.crew.subject)
        self._doing = TCP

    def run(self) -> None:
        """All of it, or as far as the way carries. What kept it from going on is an event, not an error."""
        try:
            with Meeting(self._context, meet_s=MEET_S) as meeting:
                meeting.require_all()
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
                self._silent(f"{other_node(self._spec, self._reporter)} ended the connection: {error}")

    def _exchange(self, meeting: Meeting) -> None:
        streams = Streams(self._spec, meeting, self._reporter)
        streams.run(lambda: self._tell_end(meeting, streams))
        if self._spec.library_s:
            self._libraries(meeting, streams)
        parent.tell(what="through", mbps=streams.mbps)

    def _libraries(self, meeting: Meeting, streams: Streams) -> None:
        self._doing = GLOO
        try:
            parent.tell(what="loading", limit_s=LOAD_S)
            from rigproof.stages.lan.libraries import Way, run_libraries  # noqa: PLC0415 - TCP needs no torch

            parent.tell(what="loaded", limit_s=STALL_S)
            own = {
                "address": meeting.own_address,
                "port": free_ports(meeting.own_address, 1)[0],
                "cuda": self._spec.cuda,
                "mbps": streams.mbps,
            }
            told = meeting.exchange("libraries", own, LOAD_S)  # the other one may take longer to load it
            if len(told) < 2:
                raise SilentError(f"{streams.other} did not begin in {LOAD_S:g} s")
            names = (GLOO, NCCL) if all(one["cuda"] for one in told.values()) else (GLOO,)
            mbps = min(one["mbps"] for one in told.values())
            way = Way(self._spec, self._reporter, streams.end, meeting.own_address, mbps)
            run_libraries(names, way, (told[0]["address"], told[0]["port"]), self._begin)
        except (SilentError, EndedError):
            raise
        except (RuntimeError, ImportError, AttributeError, ValueError) as error:
            self._failed(error)

    def _begin(self, doing: str) -> None:
        self._doing = doing

    def _failed(self, error: Exception) -> None:
        """A library's error: that nothing came through for long is about the way, all others are not."""
        said = what_it_says(error, 160)
        if any(one in str(error).lower() for one in TIMED_OUT):
            self._silent(said)
        else:
            message = f"{self._doing}: {said}"
            self._reporter.event("lan_unable", message, {"traffic": self._doing})

    def _silent(self, message: str) -> None:
        self._reporter.event("lan_silent", f"{self._doing}: {message}", {"traffic": self._doing})

    def _tell_end(self, meeting: Meeting, streams: Streams) -> None:
        interface = streams.end.interface
        self._context.emit(
            LanEnd(
                **self._reporter.head,
                node=self._spec.node,
                address=meeting.own_address,
                interface="" if interface is None else interface.name,
                kind="" if interface is None else interface.kind,
                link_mbit=None if interface is None else interface.speed_mbps,
                full_duplex=None if interface is None else interface.full_duplex,
                mtu=None if interface is None else interface.mtu,
            )
        )


def _serve(spec: LanSpec, context: WorkerContext) -> None:
    Exchange(spec, context).run()


if __name__ == "__main__":
    serve_apart(_serve, LanSpec)
