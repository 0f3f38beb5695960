"""A recording context, and the CPU as a real device."""

import gc
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from rigproof.devices.cpu import CpuDevice, CpuMark
from rigproof.devices.device import Mark, Matrix
from rigproof.devices.specs import Spec
from rigproof.records.crews import Member
from rigproof.records.measurements import Event, MemoryReading, Round


class RecordingContext:
    """Keeps what is emitted; stops once `stop_when` says so of what it has.

    Its clock moves by 5 ms whenever it is read, so that a slow machine changes no test's course.
    """

    worker = "host/cpu0#0"
    subject = "host/cpu0"

    def __init__(self, stop_when: Callable[["RecordingContext"], bool] = lambda context: False) -> None:
        self.records: list[object] = []
        self._stop_when = stop_when
        self._now_s = 0.0

    def now_s(self) -> float:
        self._now_s += 0.005
        return self._now_s

    def emit(self, record: object) -> None:
        self.records.append(record)

    def alive(self) -> None:
        """A sign of life is no record."""

    def stopped(self) -> bool:
        return self._stop_when(self)

    @property
    def rounds(self) -> list[Round]:
        return [record for record in self.records if isinstance(record, Round)]

    @property
    def memory(self) -> list[MemoryReading]:
        return [record for record in self.records if isinstance(record, MemoryReading)]

    def events(self, kind: str) -> list[Event]:
        return [record for record in self.records if isinstance(record, Event) and record.kind == kind]


class NodeContext(RecordingContext):
    """A worker that stands for its node; by the real clock."""

    crew = Member("host")

    def now_s(self) -> float:
        return time.monotonic()


class FaultyCpu(CpuDevice):
    """Really multiplies; `fault(call, out)` may then spoil the result, or raise."""

    def __init__(self, fault: Callable[[int, Matrix], None]) -> None:
        super().__init__(cpu_threads=1)
        self.calls = 0
        self.fault: Callable[[int, Matrix], None] = lambda call, out: None
        self._armed_fault = fault

    def arm(self) -> None:
        """From here on: the probe at start-up is not to be hit."""
        self.calls, self.fault = 0, self._armed_fault

    def multiply(self, a: Matrix, b: Matrix, out: Matrix) -> None:
        super().multiply(a, b, out)
        if "fault" in self.__dict__:
            self.calls += 1
            self.fault(self.calls, out)


# Reads specs from stdin, one after the other, and runs each in a fork of its own: torch is imported once.
ALONE = """
import os, pickle, resource, sys, time, traceback
from rigproof.devices.opening import open_device
from rigproof.devices.reporting import run_workload
from rigproof.stages.sustained.stage import SustainedSpec

class Context:
    worker, subject, records = "w", "host/cpu0", []
    now_s = staticmethod(time.monotonic)
    stopped = staticmethod(lambda: False)
    emit = records.append

device = open_device("cpu", 1)
warm = SustainedSpec("sustained", 256, 4.0, 0.1, 0.1, 0.02)  # sets the libraries up
run_workload(warm, device, Context)
Context.records.clear()

def result(spec):
    before, error = resource.getrlimit(resource.RLIMIT_DATA), None
    try:
        run_workload(spec, device, Context)
    except MemoryError as raised:
        error = str(raised)
    except Exception:
        return traceback.format_exc()
    return error, Context.records, before, resource.getrlimit(resource.RLIMIT_DATA)

while True:
    try:
        spec = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    if not (pid := os.fork()):
        sys.stdout.buffer.write(pickle.dumps(result(spec)))
        sys.stdout.buffer.flush()
        os._exit(0)
    os.waitpid(pid, 0)
"""


@dataclass
class Alone:
    """What a workload left behind that ran in a process of its own."""

    error: str | None
    records: list[Any]
    limit_before: tuple[int, int]
    limit_after: tuple[int, int]

    def events(self, kind: str) -> list[Event]:
        return [one for one in self.records if isinstance(one, Event) and one.kind == kind]

    def decided(self, technique: str) -> list[tuple[Any, Any]]:
        """Before and after of each decision of the policy."""
        decisions = [one.data for one in self.events("memory_policy")]
        return [(data["before"], data["after"]) for data in decisions if data["technique"] == technique]

    @property
    def rounds(self) -> list[Round]:
        return [one for one in self.records if isinstance(one, Round)]

    @property
    def left_mib(self) -> float:
        return self.records[-1].allocated_mib


@pytest.fixture(autouse=True)
def own_garbage() -> None:
    """Workloads collect garbage again and again: not through all that thousands of tests hold, each time."""
    gc.collect()  # or garbage would stay
    gc.freeze()


@pytest.fixture(scope="module")
def run_alone() -> Iterator[Callable[[Spec], Alone]]:
    """Runs a workload on the CPU in a process of its own, whose memory may run out."""
    server = subprocess.Popen([sys.executable, "-c", ALONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None

    def run(spec: Spec) -> Alone:
        pickle.dump(spec, server.stdin)
        server.stdin.flush()
        done = pickle.load(server.stdout)
        assert not isinstance(done, str), done
        return Alone(*done)

    with server:
        yield run
        server.stdin.close()


class QueuedMark(CpuMark):
    """Tells no time before it, or a later one, was waited for, as on a GPU."""

    def __init__(self, device: "QueuedCpu") -> None:
        super().__init__()
        self._device = device

    def wait(self) -> None:
        self._device.waited_s = max(self._device.waited_s, self.clock_s)

    def seconds_since(self, earlier: Mark) -> float:
        assert self.clock_s <= self._device.waited_s, "this work may not be done yet"
        return super().seconds_since(earlier)


class QueuedCpu(CpuDevice):
    """Its work is only done once it was waited for."""

    waited_s = 0.0

    def mark(self) -> QueuedMark:
        return QueuedMark(self)


@pytest.fixture(scope="session")
def cpu() -> CpuDevice:
    return QueuedCpu(cpu_threads=1)


@pytest.fixture
def context() -> RecordingContext:
    return RecordingContext()


@pytest.fixture
def stopping_context() -> Callable[[Callable[[RecordingContext], bool]], RecordingContext]:
    return RecordingContext


@pytest.fixture
def faulty_cpu() -> Callable[[Callable[[int, Matrix], None]], FaultyCpu]:
    def make(fault: Callable[[int, Matrix], None]) -> FaultyCpu:
        device = FaultyCpu(fault)
        device.arm()
        return device

    return make
