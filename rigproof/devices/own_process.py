"""A worker's task in a process of its own: what hangs there, or takes the host's memory, ends with it.

The process runs the workload with a context of its own, whose records the worker emits.
"""

import json
import math
import os
import queue
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Literal, NoReturn, TypeVar, cast

from rigproof.devices.specs import Spec, WorkerContext
from rigproof.host import parent
from rigproof.host.child import Child, Message
from rigproof.host.parent import Orders
from rigproof.host.processes import stat_of
from rigproof.records.crews import Member
from rigproof.records.measurements import Event, Round
from rigproof.records.recording import Record

WAIT_S = 0.1
ALIVE_S = 0.5  # between two signs of life
LEAST_S = 5.0  # that a process may be silent after each message, however late it is
KILLED = "; the kernel killed it since memory ran out, or somebody did"

READY = "rigproof.devices.ready"
HELD = "T"  # the state of a process that a signal has stopped (proc(5))

Task = TypeVar("Task", bound=Spec)
How = Literal["silent", "failed", "died"]


class ApartError(RuntimeError):
    """A process that said nothing for too long, failed, or died.

    `status`: its exit status if it died. `held`: whether a signal (SIGSTOP) had stopped a silent one.
    `limit_s`: how long a silent one said nothing, else how long it would have been waited for. `t_s`: when it
    ended, or was found silent, run time.
    """

    def __init__(
        self,
        how: How,
        message: str,
        *,
        limit_s: float,
        t_s: float,
        status: int | None = None,
        held: bool = False,
    ) -> None:
        super().__init__(message)
        self.how = how
        self.limit_s = limit_s
        self.t_s = t_s
        self.status = status
        self.held = held


def unheard(_message: Message) -> None:
    """For a process that sends no messages of its own."""


Inbox = queue.SimpleQueue[Message]


class Apart(Child):
    """A process whose messages, and then its end as `gone` (status), go to its inbox."""

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] = {}) -> None:
        self.inbox: Inbox = queue.SimpleQueue()
        super().__init__(
            module,
            *arguments,
            hear=self.inbox.put,
            ended=lambda status: self.inbox.put({"what": "gone", "status": status}),
            keep_stderr=True,
            environment=environment,
        )


_ready: list[Apart] = []  # the oldest, which has loaded the most, first
_wanted = 0  # how many later tasks need one


def make_ready(number: int) -> None:
    """Start processes that load torch for the `run_apart` of so many later tasks; others as they are taken.

    They end with the thread that calls this.
    """
    global _wanted  # noqa: PLW0603 - of this process's one device
    _wanted = number
    prepare(number)


def prepare(number: int = 1) -> None:
    """Start processes that load torch until there are so many: by default for this task alone."""
    while len(_ready) < number:
        _ready.append(Apart(READY))


def _taken(module: str, told: str, environment: Mapping[str, str]) -> Apart | None:
    """The process that is ready, given this task; None if there is none, or it has ended."""
    if not _ready:
        return None
    process = _ready.pop(0)
    make_ready(_wanted)
    if process.tell(module=module, arguments=[told], environment=dict(environment)):
        return process
    process.stop(0)
    return None


def run_apart(
    module: str,
    spec: Spec,
    context: WorkerContext,
    *,
    records: tuple[type, ...],
    test: str,
    silent: str,
    stall_s: float,
    most_s: float = math.inf,
    held_s: float = math.inf,
    environment: Mapping[str, str] = {},
    hear: Callable[[Message], None] = unheard,
    examine: Callable[[], None] = lambda: None,
    torch: bool = False,
) -> None:
    """Run `module`, which ends in `serve_apart`, and emit its rounds, events and `records`.

    `environment`: variables that the process has instead of, or beside, this one's. `hear` gets the messages
    that it sends by itself (`parent.tell`). One with `limit_s` states how soon each later one must follow the
    one before, in place of `stall_s`: a process knows best how long its next step may take, but each must
    follow within `most_s` of the start, or LEAST_S of the one before. `examine` is called before a silent one
    is ended that no signal has stopped. `torch`: it loads torch, and one that has done so is taken if there
    is one (`make_ready`).

    Returns when it is done, or the task is stopped. ApartError if the process fails, dies, says nothing for
    too long (`silent` says so), or a signal holds it for `held_s`; `test` is its name in errors. It is not
    left running, unless the kernel holds it.
    """
    kinds = {one.__name__: one for one in (Round, Event, *records)}
    told = {
        "spec": asdict(spec),
        "worker": context.worker,
        "subject": context.subject,
        "crew": asdict(context.crew),
        "clock_offset_s": context.now_s() - time.monotonic(),
    }
    task = json.dumps(told)
    child = _taken(module, task, environment) if torch else None
    child = child or Apart(module, task, environment=environment)
    try:
        begun_s = heard_s = ran_s = time.monotonic()
        limit_s = min(stall_s, max(LEAST_S, most_s))
        while not context.stopped():
            try:
                message = child.inbox.get(timeout=WAIT_S)
            except queue.Empty:
                now_s, found = time.monotonic(), stat_of(child.pid)
                held = found is not None and found.state == HELD
                ran_s = ran_s if held else now_s
                if now_s - heard_s > limit_s or now_s - ran_s > held_s:
                    silent_s, t_s = min(now_s - heard_s, limit_s), context.now_s()
                    if not held:
                        examine()
                    child.stop(0)  # it has had its time
                    why = f"{silent} for {silent_s:.3g} s"
                    raise ApartError("silent", why, limit_s=silent_s, t_s=t_s, held=held) from None
                context.alive()  # this process is: it waits for the other's own deadline
                continue
            heard_s = ran_s = time.monotonic()
            limit_s = min(message.get("limit_s", limit_s), max(LEAST_S, begun_s + most_s - heard_s))
            context.alive()
            match message.get("what"):
                case "record":
                    context.emit(kinds[message["kind"]](**message["fields"]))
                case "alive":
                    pass
                case "done":
                    return
                case "error":
                    why = f"the {test} failed: {message['message']}"
                    raise ApartError("failed", why, limit_s=limit_s, t_s=context.now_s())
                case "gone":
                    status = message["status"]
                    t_s, why = context.now_s(), KILLED if status == -signal.SIGKILL else child.last_words()
                    why = f"the {test} ended with status {status}{why}"
                    raise ApartError("died", why, limit_s=limit_s, t_s=t_s, status=status)
                case _:
                    hear(message)
    finally:
        child.stop()


def serve_apart(work: Callable[[Task, WorkerContext], None], kind: type[Task]) -> NoReturn:
    """Do the work that `run_apart` started this process for, and end it.

    At once: a group's threads would wait for other ranks, and what torch takes down the kernel does, too.
    """
    told = json.loads(sys.argv[1])
    os._exit(parent.serve(lambda orders: work(kind(**told["spec"]), _ApartContext(told, orders))))


class _ApartContext:
    """The worker's context in its process: a record is a message to the worker."""

    def __init__(self, told: dict[str, Any], orders: Orders) -> None:
        self.worker: str = told["worker"]
        self.subject: str = told["subject"]
        self.objects = None
        crew = told["crew"]
        place = crew["rendezvous"]
        whole = {"rendezvous": None if place is None else tuple(place), "workers": tuple(crew["workers"])}
        self.crew = Member(**{**crew, **whole})
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
