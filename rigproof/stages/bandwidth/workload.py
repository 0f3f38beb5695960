"""The bandwidth stage's workload: each operation on one device's memory, timed by the device's own clock."""

from rigproof.devices.device import Device
from rigproof.devices.out_of_memory import within_memory
from rigproof.devices.reporting import Reporter
from rigproof.devices.round_queue import adapted
from rigproof.devices.specs import WorkerContext
from rigproof.records.measurements import GB, Phase
from rigproof.stages.bandwidth.operations import OPERATIONS, Buffers, Operation
from rigproof.stages.bandwidth.stage import BandwidthSpec

WARM_UP_SHARE = 0.2  # of each operation's time
FEWEST_ROUNDS = 4  # of an operation, even if they take long on a busy device
MOST_LAUNCHES = 2**14  # in a round, even with small buffers


def run_bandwidth(spec: BandwidthSpec, device: Device, context: WorkerContext) -> None:
    """Measure each operation until done or stopped. Emits rounds, and events for what went wrong.

    A failed allocation is reported as an event, then raised as MemoryError.
    """
    reporter = Reporter(context, spec.stage)

    def measure() -> None:
        buffers = Buffers(device, spec.size)
        if buffers.flaw:
            reporter.wrong_result(buffers.flaw, {"size": spec.size})
        for operation in OPERATIONS:
            MeasuredOperation(spec, operation(buffers), reporter).run(spec.duration_s / len(OPERATIONS))

    each_mib = spec.size**2 * 4 / 2**20
    within_memory(device, reporter, 3 * each_mib, f"three buffers of {each_mib:.0f} MiB", measure)


class MeasuredOperation:
    """One operation: rounds of equal length, each verified after its measured time."""

    def __init__(self, spec: BandwidthSpec, operation: Operation, reporter: Reporter) -> None:
        self._spec = spec
        self._operation = operation
        self._reporter = reporter
        self._device = operation.buffers.device
        self._launches = 1
        self._sums = self._device.checksums(self._launches)
        self._count = 0

    def run(self, length_s: float) -> None:
        """Warm up, then measure, for `length_s` in total or until stopped."""
        context = self._reporter.context
        begin_s, measured = context.now_s(), 0
        while not context.stopped():
            passed_s = context.now_s() - begin_s
            if passed_s >= length_s and measured >= FEWEST_ROUNDS:
                break
            phase: Phase = "warmup" if passed_s < WARM_UP_SHARE * length_s or self._count == 0 else "measure"
            seconds = self._round(phase)
            measured += phase == "measure"
            if phase == "warmup":
                self._adapt(seconds)

    def _adapt(self, seconds: float) -> None:
        """Set the launches that fill a round; at most eight times as many, since few give a rough time."""
        wanted = adapted(self._launches, seconds, self._spec.round_s)
        self._launches = max(1, min(wanted, 8 * self._launches, MOST_LAUNCHES))
        if self._launches > self._sums.capacity:
            self._sums = self._device.checksums(self._launches)

    def _round(self, phase: Phase) -> float:
        """Do one round; returns its seconds."""
        operation, sums = self._operation, self._sums
        operation.prepare()
        start = self._device.mark()
        for _ in range(self._launches):
            operation.launch(sums)
        end = self._device.mark()
        sums.fetch()
        self._device.mark().wait()
        seconds = end.seconds_since(start)
        wrong = operation.wrong(sums.take())
        if wrong:
            message = f"{operation.name}, round {self._count}: {wrong}"
            self._reporter.wrong_result(message, {"operation": operation.name, "round": self._count})
        self._count += 1
        self._reporter.round(
            phase=phase,
            seconds=seconds,
            work=self._launches * operation.passes * operation.buffers.gb,
            unit=GB,
            verified=not wrong and not operation.buffers.flaw,
            labels={"operation": operation.name, "size": self._spec.size},
        )
        return seconds
