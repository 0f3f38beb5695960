"""A worker's task in a process of its own: what hangs there, or takes the host's memory, ends with it.

The process runs the workload with a context of its own, whose records the worker emits.
"""

import json
import queue
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar, cast

from rigproof.devices.specs import Spec, WorkerContext
from rigproof.host import parent
from rigproof.host.child import Child, Message
from rigproof.host.parent import Orders
from rigproof.records.crews import Member
from rigproof.records.measurements import Event, Round
from rigproof.records.recording import Record

WAIT_S = 0.1
ALIVE_S = 0.5  # between two signs of life
KILLED = "; the kernel killed it since memory ran out, or somebody did"

Task = TypeVar("Task", bound=Spec)


def run_apart(
    module: str,
    spec: Spec,
    context: WorkerContext,
    *,
    records: tuple[type, ...],
    test: str,
    silent: str,
    stall_s: float,
    environment: Mapping[str, str] = {},
) -> None:
    """Run `module`, which ends in `serve_apart`, and emit its rounds, events and `records`.

    `environment`: variables that the process has instead of, or beside, this one's.

    Returns when it is done, or the task is stopped. RuntimeError if the process fails, dies, or says nothing
    for `stall_s` (`silent` says so); `test` is its name in errors. It is not left running, unless the kernel
    holds it.
    """
    kinds = {one.__name__: one for one in (Round, Event, *records)}
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    told = {
        "spec": asdict(spec),
        "worker": context.worker,
        "subject": context.subject,
        "crew": asdict(context.crew),
        "clock_offset_s": context.now_s() - time.monotonic(),
    }
    child = Child(
        module,
        json.dumps(told),
        hear=inbox.put,
        ended=lambda status: inbox.put({"what": "gone", "status": status}),
        environment=environment,
    )
    try:
        heard_s = time.monotonic()
        while not context.stopped():
            try:
                message = inbox.get(timeout=WAIT_S)
            except queue.Empty:
                if time.monotonic() - heard_s > stall_s:
                    raise RuntimeError(f"{silent} for {stall_s:g} s") from None
                continue
            heard_s = time.monotonic()
            context.alive()
            match message.get("what"):
                case "record":
                    context.emit(kinds[message["kind"]](**message["fields"]))
                case "done":
                    return
                case "error":
                    raise RuntimeError(f"the {test} failed: {message['message']}")
                case "gone":
                    why = KILLED if message["status"] == -signal.SIGKILL else ""
                    raise RuntimeError(f"the {test} ended with status {message['status']}{why}")
    finally:
        child.stop()


def serve_apart(work: Callable[[Task, WorkerContext], None], kind: type[Task]) -> int:
    """Do the work that `run_apart` started this process for; returns the exit status."""
    told = json.loads(sys.argv[1])
    return parent.serve(lambda orders: work(kind(**told["spec"]), _ApartContext(told, orders)))


class _ApartContext:
    """The worker's context in its process: a record is a message to the worker."""

    def __init__(self, told: dict[str, Any], orders: Orders) -> None:
        self.worker: str = told["worker"]
        self.subject: str = told["subject"]
        self.crew = Member(**told["crew"])
        self._clock_offset_s: float = told["clock_offset_s"]
        self._orders = orders
        self._alive_s = time.monotonic()

    def now_s(self) -> float:
        return time.monotonic() + self._clock_offset_s

    def emit(self, record: Record) -> None:
        parent.tell(what="record", kind=type(record).__name__, fields=asdict(cast("Any", record)))

    def alive(self) -> None:
        if time.monotonic() - self._alive_s >= ALIVE_S:
            self._alive_s = time.monotonic()
            parent.tell(what="alive")

    def stopped(self) -> bool:
        return self._orders.closed.is_set()
