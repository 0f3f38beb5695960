"""The disk stage's workload: a process of its own writes a file and reads it back.

A disk that does not answer, such as a server of files that is down, hangs that process and not the worker.
"""

import json
import queue
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from rigproof.devices.context import WorkerContext
from rigproof.devices.reporting import Reporter
from rigproof.host.child import Child, Message
from rigproof.stages.disk.records import DiskTest
from rigproof.stages.disk.settings import MB

if TYPE_CHECKING:  # at run time it imports this module
    from rigproof.stages.disk.specs import DiskSpec

MODULE = "rigproof.stages.disk.child"
STALL_S = 25.0  # without a message: a chunk takes as long at 0.7 MB/s
WAIT_S = 0.1


def run_disk(spec: "DiskSpec", context: WorkerContext) -> None:
    """Measure the disk until done or stopped. Emits rounds, events, and a DiskTest.

    Raises RuntimeError if the process dies, hangs or fails. It is not left running, unless the kernel holds
    it.
    """
    DiskProcess(spec, context).run()


class DiskProcess:
    """The process as the worker sees it."""

    def __init__(self, spec: "DiskSpec", context: WorkerContext) -> None:
        self._spec = spec
        self._context = context
        self._reporter = Reporter(context, spec.stage, context.crew.subject)
        self._clock_offset_s = context.now_s() - time.monotonic()
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._over = False

    def run(self) -> None:
        """Start it, take its messages, and end it."""
        child = Child(
            MODULE,
            json.dumps(asdict(self._spec)),
            hear=self._inbox.put,
            ended=lambda status: self._inbox.put({"what": "gone", "status": status}),
            isolated=True,
        )
        try:
            heard_s = time.monotonic()
            while not self._over and not self._context.stopped():
                try:
                    message = self._inbox.get(timeout=WAIT_S)
                except queue.Empty:
                    if time.monotonic() - heard_s > STALL_S:
                        raise RuntimeError(
                            f"{self._spec.path}: the disk did not answer for {STALL_S:g} s"
                        ) from None
                    continue
                heard_s = time.monotonic()
                self._context.alive()
                self._take(message)
        finally:
            child.stop()

    def _take(self, message: Message) -> None:
        match message.get("what"):
            case "round":
                self._reporter.round(
                    phase=message["phase"],
                    seconds=message["seconds"],
                    work=message["mb"],
                    unit=MB,
                    verified=message["verified"],
                    labels={"operation": message["operation"]},
                    t_s=message["t_s"] + self._clock_offset_s,
                )
            case "wrong":
                offset = message["offset"]
                self._reporter.event("disk_error", wrong_text(offset), {"offset": offset})
            case "tested":
                figures = {name: value for name, value in message.items() if name != "what"}
                self._context.emit(
                    DiskTest(
                        t_s=self._context.now_s(),
                        stage=self._spec.stage,
                        worker=self._context.worker,
                        subject=self._context.crew.subject,
                        **figures,
                    )
                )
            case "done":
                self._over = True
            case "error":
                raise RuntimeError(f"the disk test failed: {message['message']}")
            case "gone":
                raise RuntimeError(f"the disk test ended with status {message['status']}")


def wrong_text(offset: int) -> str:
    """What is wrong with a chunk."""
    return f"other data were read back than written, from byte {offset:#x} of the file on"
