"""A recording context, and the CPU as a real device."""

from collections.abc import Callable

import pytest

from rigproof.records.measurements import Event, MemoryReading, Round
from rigproof.workloads.cpu import CpuDevice
from rigproof.workloads.device import Matrix


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


@pytest.fixture(scope="session")
def cpu() -> CpuDevice:
    return CpuDevice(cpu_threads=1)


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
