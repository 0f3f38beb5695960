"""The sharing stage's workload: the same products by one process, then by several that share the device.

Each number of processes works for the same time on operands that together fill the same memory, so that the
rates can be compared. They only do 16-bit products: this does not show how sharing affects a training step.
"""

import contextlib
import json
import queue
import time
from typing import Any

from rigproof.devices.device import Device
from rigproof.devices.reporting import Reporter, product_tflop
from rigproof.devices.specs import WorkerContext
from rigproof.host.child import Child
from rigproof.stages.sharing.stage import SharingSpec

MODULE = "rigproof.stages.sharing.child"
WORK_SHARE = 0.6  # of each number's part of the stage; in the rest interpreters start and memory is filled
SETTLE_SHARE = 1 / 3  # of the work: a card that waited for processes to start has cooled down
LEFT_MIB = 256.0  # for each process, besides its operands: workspaces and kernels that are loaded late
START_S = 60.0  # for a process to start
STALL_S = 15.0  # without a message from a working process
END_S = 10.0  # to free its memory and end
HEAD_START_S = 0.3  # for the order to begin to reach all processes
WAIT_S = 0.1


def run_sharing(spec: SharingSpec, device: Device, context: WorkerContext) -> None:
    """Let each number of processes in `spec.workers` work, one number after the other, or until stopped.

    Raises RuntimeError if a process dies, hangs or gets another device, MemoryError if memory does not
    suffice. No process is left running.
    """
    reporter = Reporter(context, spec.stage)
    device.empty_cache()
    for number in spec.workers:
        if context.stopped():
            return
        SharedWork(spec, number, device, reporter).run()


class SharingProcess(Child):
    """One of the processes, until `stop`. Its messages go to the inbox, and its end as `gone` (status)."""

    def __init__(self, number: int, settings: dict[str, Any], inbox: "Inbox") -> None:
        self.number = number
        self.state = "starting"
        self.heard_s = time.monotonic()
        self.mib = 0.0
        super().__init__(
            MODULE,
            json.dumps(settings),
            hear=lambda message: inbox.put((self, message)),
            ended=lambda status: inbox.put((self, {"what": "gone", "status": status})),
            keep_stderr=True,
        )


Inbox = queue.SimpleQueue[tuple[SharingProcess, dict[str, Any]]]


class SharedWork:
    """One number of processes, from their start to their end."""

    def __init__(self, spec: SharingSpec, number: int, device: Device, reporter: Reporter) -> None:
        self._spec = spec
        self._number = number
        self._device = device
        self._reporter = reporter
        self._context = reporter.context
        # The processes report times of the host's monotonic clock; run time differs by an offset.
        self._clock_offset_s = self._context.now_s() - time.monotonic()
        self._inbox: Inbox = queue.SimpleQueue()
        self._processes: list[SharingProcess] = []
        self._precision = device.half  # of all processes: a CPU's depends on what each of them would measure

    def run(self) -> None:
        """Start the processes, let them fill their memory and work together, and end them."""
        try:
            self._start()
            self._fill()
            self._work()
        finally:
            for process in self._processes:
                process.let_go()  # all of them first, so that they end at the same time
            for process in self._processes:
                process.stop(END_S)

    def _start(self) -> None:
        settings = {
            "kind": self._device.kind,
            "threads": max(1, int(self._spec.cpus / self._number)),
            "precision": self._precision,
            "size": self._spec.size,
            "round_s": self._spec.round_s,
        }
        for number in range(self._number):
            self._processes.append(SharingProcess(number, settings, self._inbox))
        self._wait_for("opened", START_S, alive=True)

    def _fill(self) -> None:
        """Divide the memory that is free beside all their contexts."""
        if self._context.stopped():
            return
        target_mib = each_mib = self._spec.vram_mib / self._number
        free_mib = self._device.memory().device_free_mib
        if free_mib is not None:
            each_mib = min(each_mib, free_mib / self._number - LEFT_MIB)
        for process in self._processes:
            process.tell(mib=each_mib)
        self._wait_for("ready", STALL_S)
        if self._context.stopped():
            return
        filled_mib = sum(process.mib for process in self._processes)
        self._reporter.memory(self._device)
        self._reporter.event(
            "allocation",
            f"{self._number} × {filled_mib / self._number:.0f} of {target_mib:.0f} MiB",
            {"workers": self._number, "target_mib": self._spec.vram_mib, "allocated_mib": filled_mib},
        )

    def _work(self) -> None:
        if self._context.stopped():
            return
        work_s = WORK_SHARE * self._spec.duration_s / len(self._spec.workers)
        start_s = time.monotonic() + HEAD_START_S
        for process in self._processes:
            process.tell(start_s=start_s, settled_s=start_s + SETTLE_SHARE * work_s, end_s=start_s + work_s)
        self._wait_for("done", STALL_S)

    def _wait_for(self, state: str, limit_s: float, *, alive: bool = False) -> None:
        """Handle messages until all processes have reached `state`, or until stopped.

        `alive`: report signs of life, since this may take long without a round.

        Raises RuntimeError if one that has not reached it is silent for `limit_s`, or has ended.
        """
        begun_s = time.monotonic()
        while not self._context.stopped():
            late = [process for process in self._processes if process.state != state]
            if not late:
                return
            with contextlib.suppress(queue.Empty):
                self._take(*self._inbox.get(timeout=WAIT_S))
            for process in late:
                silent_s = time.monotonic() - max(begun_s, process.heard_s)
                if silent_s > limit_s:
                    self._give_up(process, f"was silent for {silent_s:.0f} s before it was {state}")
            if alive:
                self._context.alive()
            self._reporter.memory_when_due(self._device)

    def _take(self, process: SharingProcess, message: dict[str, Any]) -> None:
        process.heard_s = time.monotonic()
        match message.get("what"):
            case "opened":
                if message["uuid"] != self._device.uuid:
                    self._give_up(process, f"uses {message['uuid']}, not {self._device.uuid}")
                process.state = "opened"
            case "ready":
                process.state, process.mib = "ready", message["mib"]
                self._reporter.references(
                    self._device, self._precision, self._spec.size, message["checksums"], golden=True
                )
            case "round":
                self._report(process, message)
            case "wrong":
                self._reporter.wrong_result(message["message"], message["data"])
            case "done":
                process.state = "done"
            case "out_of_memory":
                requested_mib = self._spec.vram_mib / self._number
                self._reporter.out_of_memory(message["message"], requested_mib, recovered=False)
                raise MemoryError(f"{self._name(process)}: {message['message']}")
            case "error":
                self._give_up(process, message["message"])
            case "gone":
                self._give_up(process, f"ended with status {message['status']}{process.last_words()}")

    def _report(self, process: SharingProcess, message: dict[str, Any]) -> None:
        self._reporter.round(
            t_s=message["t_s"] + self._clock_offset_s,
            phase=message["phase"],
            seconds=message["seconds"],
            work=message["products"] * product_tflop(self._spec.size),
            verified=message["verified"],
            labels={
                "precision": self._precision,
                "size": self._spec.size,
                "processes": self._number,
                "process": process.number,
            },
            host_paced=message["host_paced"],
        )

    def _give_up(self, process: SharingProcess, why: str) -> None:
        raise RuntimeError(f"{self._name(process)}: {why}")

    def _name(self, process: SharingProcess) -> str:
        of = f"process {process.number + 1} of {self._number}"
        return f"{of} that share {self._context.subject} (pid {process.pid})"
