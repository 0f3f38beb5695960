"""A stage of the tests' own, whole: every two devices meet, and pass bytes to each other."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from rigproof.criteria.criterion import Criterion, Finding, Limit, pass_or_fail
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec, WorkerContext
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.levels import LevelName
from rigproof.profiles.tables.stages import StageSettings
from rigproof.records.measurements import Round
from rigproof.simulation.stage import CardWork, Records, SimulatedForm
from rigproof.simulation.timetable import MULTIPLYING, Segment
from rigproof.simulation.work.task import Task
from rigproof.stages.kind import StageKind, StageWork

Made = TypeVar("Made")

NAME = "exchange"
BYTES = b"0123456789abcdef" * 64
PATIENCE_S = 0.05  # for the other one, between two looks at whether the crew has ended
TURN_S, ROUND_S = 6.0, 0.5


@dataclass(frozen=True, slots=True)
class ExchangeSpec(Spec):
    """Pass BYTES to and fro for `seconds`. In the crew `fatal` rank 0 kills itself after the first round."""

    seconds: float
    fatal: str = ""

    def run(self, device: Device, context: WorkerContext) -> None:
        """Without torch."""
        exchange(self, context)


class Over(Exception):  # noqa: N818
    """The crew has ended."""


def exchange(spec: ExchangeSpec, context: WorkerContext) -> None:
    """A round is a message that came as it was sent. Whoever of them is lost, nobody waits for ever."""
    first = context.crew.rank == 0
    try:
        with closing(_met(context)) as line:
            end_s = time.monotonic() + spec.seconds
            while True:
                begun_s = time.monotonic()
                last = first and begun_s >= end_s
                if first:
                    line.sendall(BYTES.swapcase() if last else BYTES)
                got = _received(line, context)
                if not first:
                    line.sendall(got)
                    last = got != BYTES
                if last:
                    return
                seconds = time.monotonic() - begun_s
                context.emit(done(context.worker, context.crew.subject, context.now_s(), seconds))
                if first and context.crew.subject == spec.fatal:
                    os.kill(os.getpid(), signal.SIGKILL)
    except (Over, ConnectionError):
        while not context.stopped():  # the driver sees who is lost, and says so
            time.sleep(PATIENCE_S)


def _met(context: WorkerContext) -> socket.socket:
    assert context.crew.rendezvous is not None
    if context.crew.rank == 0:
        host, _ = context.crew.rendezvous
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server(context.crew.rendezvous, family=family) as server:
            server.settimeout(PATIENCE_S)
            return _patiently(lambda: server.accept()[0], context)
    return _patiently(lambda: socket.create_connection(context.crew.rendezvous, PATIENCE_S), context)


def _received(line: socket.socket, context: WorkerContext) -> bytes:
    line.settimeout(PATIENCE_S)
    got = b""
    while missing := len(BYTES) - len(got):
        more = _patiently(partial(line.recv, missing), context)
        if not more:
            raise Over
        got += more
    return got


def _patiently(what: Callable[[], Made], context: WorkerContext) -> Made:
    """What it gives, however often it has to be tried; Over once the crew has ended."""
    while not context.stopped():
        try:
            return what()
        except (TimeoutError, ConnectionRefusedError):
            time.sleep(PATIENCE_S / 10)
    raise Over


def done(worker: str, subject: str, t_s: float, seconds: float) -> Round:
    """A round of a crew: its subject is the crew's."""
    return Round(t_s, NAME, worker, subject, "measure", seconds, len(BYTES) / 1e9, "GB", True)


def plan(settings: StageSettings, level: LevelName, round_s: float) -> StagePlan:
    """The same at every level."""
    return StagePlan(NAME, TURN_S, 0.0, TURN_S, ROUND_S)


def spec(work: StageWork, _worker: WorkerPlan, _settings: StageSettings) -> Spec:
    """The same for every member, in every turn."""
    return ExchangeSpec(NAME, work.stage.measure_s)


def segments(plan: StagePlan, work: CardWork) -> Iterator[Segment]:
    """A card works all the time."""
    yield Segment(0.0, plan.expected_s, MULTIPLYING)


def records(task: Task, spec: ExchangeSpec) -> Records:
    """A round every half second."""
    for number in range(1, round(spec.seconds / ROUND_S) + 1):
        yield done(task.plan.worker, task.crew.subject, task.start_s + number * ROUND_S, ROUND_S)


@Criterion(
    "exchange.messages",
    title="messages",
    scope="pair",
    unit="messages",
    limit="one at least",
    severity="reseat",
    remedy="look at the cable",
    unmeasured="the two did not meet",
    stages=(NAME,),
)
def messages(pair: SharedEvidence) -> Finding:
    """What came as it was sent, of both."""
    verified = len(pair.rounds(NAME).verified)
    return pass_or_fail(verified, Limit(1, "the tests"), good=verified >= 1)


class ExchangeKind(StageKind[StageSettings]):
    """A stage without a folder that its parts could be looked up in."""

    criteria = (messages,)
    simulated = SimulatedForm(segments, records)


EXCHANGE = ExchangeKind(NAME, "bursts", StageSettings, spec=spec, crew="pairs", plan=plan, unit="GB")
