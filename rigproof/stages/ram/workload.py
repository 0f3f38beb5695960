"""The RAM stage's workload: a process of its own copies and tests the host's memory.

It may take most of the host's memory, which is returned when it ends, however it does.
"""

import signal
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rigproof.devices.context import WorkerContext
from rigproof.devices.own_process import messages_of
from rigproof.devices.reporting import Reporter
from rigproof.host.child import Message
from rigproof.records.measurements import Labels
from rigproof.stages.ram.records import RamTest
from rigproof.stages.ram.settings import GB

if TYPE_CHECKING:  # at run time it imports this module
    from rigproof.stages.ram.specs import RamSpec

MODULE = "rigproof.stages.ram.child"
STALL_S = 15.0  # without a message


def run_ram(spec: "RamSpec", context: WorkerContext) -> None:
    """Measure the host's RAM until done or stopped. Emits rounds, events, and a RamTest.

    Raises RuntimeError if the process dies, hangs or fails. It is not left running.
    """
    RamProcess(spec, context).run()


class RamProcess:
    """The process as the worker sees it."""

    def __init__(self, spec: "RamSpec", context: WorkerContext) -> None:
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
            test="memory test",
            silent="the memory test was silent",
            stall_s=STALL_S,
            endings={-signal.SIGKILL: "; the kernel killed it since memory ran out, or somebody did"},
        ) as messages:
            for message in messages:
                self._take(message)

    def _take(self, message: Message) -> None:
        match message.get("what"):
            case "round":
                self._round(message)
            case "wrong":
                self._wrong(message)
            case "short":
                self._reporter.event("ram_short", message["why"], {})
            case "tested":
                figures = {name: value for name, value in message.items() if name != "what"}
                self._context.emit(
                    RamTest(
                        t_s=self._context.now_s(),
                        stage=self._spec.stage,
                        worker=self._context.worker,
                        subject=self._context.crew.subject,
                        **figures,
                    )
                )

    def _round(self, message: Message) -> None:
        labels: Labels = {name: message[name] for name in ("operation", "content") if message[name]} | {
            "threads": self._spec.threads
        }
        self._reporter.round(
            phase=message["phase"],
            seconds=message["seconds"],
            work=message["gb"],
            unit=GB,
            verified=message["verified"],
            labels=labels,
            t_s=message["t_s"] + self._clock_offset_s,
        )

    def _wrong(self, message: Message) -> None:
        count, words = message["count"], message["words"]
        data: dict[str, Any] = {"count": count, "words": words}
        self._reporter.event("ram_error", in_words(count, words), data)


def in_words(count: int, words: list[dict[str, Any]]) -> str:
    """How many words were wrong, and the first of them: its place, its bits, and whether it stayed wrong."""
    number = "1 word" if count == 1 else f"{count} words"
    if not words:
        return f"{number} wrong"
    first = words[0]
    where = f"at offset {first['offset']:#x}"
    if first["physical"] is not None:
        where += f" (physical address {first['physical']:#x})"
    bits = ", ".join(map(str, first["bits"][:4])) + (", …" if len(first["bits"]) > 4 else "")
    kind = "hard" if first["hard"] else "soft: right when read again"
    return (
        f"{number} wrong, the first {where}: {first['read']} in place of {first['expected']}, "
        f"bit{'' if len(first['bits']) == 1 else 's'} {bits} ({first['content']}; {kind})"
    )
