"""The disk stage's workload: a process of its own writes a file and reads it back.

A disk that does not answer, such as a server of files that is down, hangs that process and not the worker.
"""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from rigproof.devices.context import WorkerContext
from rigproof.devices.own_process import messages_of
from rigproof.devices.reporting import Reporter
from rigproof.host.child import Message
from rigproof.stages.disk.records import DiskTest
from rigproof.stages.disk.settings import MB

if TYPE_CHECKING:  # at run time it imports this module
    from rigproof.stages.disk.specs import DiskSpec

MODULE = "rigproof.stages.disk.child"
STALL_S = 25.0  # without a message: a chunk takes as long at 0.7 MB/s


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

    def run(self) -> None:
        """Start it, take its messages, and end it."""
        with messages_of(
            MODULE,
            asdict(self._spec),
            self._context,
            test="disk test",
            silent=f"{self._spec.path}: the disk did not answer",
            stall_s=STALL_S,
            isolated=True,
        ) as messages:
            for message in messages:
                self._take(message)

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


def wrong_text(offset: int) -> str:
    """What is wrong with a chunk."""
    return f"other data were read back than written, from byte {offset:#x} of the file on"
