"""The worker: one Ray actor per planned worker process. Its device has a thread of its own."""

import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import cached_property
from typing import Any

from rigproof.cluster.actors.messages import WorkerReply, WorkerSetup, WorkerState
from rigproof.cluster.ray.gpu_probe import Probed, probe_gpu
from rigproof.devices import allocator
from rigproof.devices.device import Device
from rigproof.devices.specs import Objects, Spec
from rigproof.host import processes
from rigproof.profiles.planning.plan import MemoryPlan
from rigproof.records.crews import Member
from rigproof.records.identity import DeviceKind, GpuIdentity, WorkerIdentity
from rigproof.records.measurements import Event, Round
from rigproof.records.recording import Record

ERROR_CHARACTERS = 2000


class RigproofWorker:
    """The actor of one planned worker: it answers the driver, and is the WorkerContext of its workloads.

    Lists of processes show it by its class: `ray::RigproofWorker`.

    Its process may be started before it is known which worker it will be: it loads torch at once, and opens
    its device when `become` says so. No call from the driver waits for the device.

    `memory` has the allocator's settings, which torch reads while it is loaded. None: they are not known
    yet, and torch is loaded after `become`.
    """

    def __init__(self, device: DeviceKind, memory: MemoryPlan | None = None) -> None:
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # before CUDA starts: indices as NVML counts them
        _see_own_gpu_alone(device)
        self._device = device
        self._memory = memory
        self._setup: WorkerSetup | None = None
        self._appointed = threading.Event()
        self._process = processes.own_process()
        self._began_s = time.monotonic() - processes.age_s()
        self._lock = threading.Lock()
        self._records: list[Record] = []
        self._state: WorkerState = "opening"
        self._task = 0
        self._progress = 0
        self._error: str | None = None
        self._crew = Member("")
        self._stop = threading.Event()
        self._tasks: queue.SimpleQueue[tuple[Spec, float, int]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="rigproof-device", daemon=True)
        self._thread.start()

    def gpu(self) -> Probed:
        """The card that Ray gave this process."""
        return probe_gpu()

    def become(self, setup: WorkerSetup) -> None:
        """Be this worker from now on, and open its device."""
        self._setup = setup
        self._crew = Member(setup.plan.subject)
        self._appointed.set()

    @property
    def setup(self) -> WorkerSetup:
        """The worker that this process is."""
        assert self._setup is not None, "a process works once it is known which worker it is"
        return self._setup

    @property
    def worker(self) -> str:
        return self.setup.plan.worker

    @property
    def subject(self) -> str:
        return self.setup.plan.subject

    @property
    def crew(self) -> Member:
        return self._crew

    @cached_property
    def objects(self) -> Objects:
        from rigproof.cluster.actors.objects import RayObjects  # noqa: PLC0415 - loads Ray, as below

        return RayObjects()

    def offered(self) -> list[Any]:
        """A reference to what this worker offers to others."""
        return self.objects.offered()

    def now_s(self) -> float:
        return time.monotonic() + self.setup.clock_offset_s

    def emit(self, record: Record) -> None:
        with self._lock:
            self._records.append(record)
            self._progress += isinstance(record, Round)

    def alive(self) -> None:
        with self._lock:
            self._progress += 1

    def stopped(self) -> bool:
        return self._stop.is_set()

    def start(self, task: int, spec: Spec, start_at_s: float, crew: Member, ahead: int = 0) -> None:
        """Begin a task at run time `start_at_s`, so that all workers begin together.

        `ahead`: also make so many processes ready, which later tasks will use.
        """
        with self._lock:
            self._crew = crew
            self._task, self._progress, self._error, self._state = task, 0, None, "working"
        self._stop.clear()
        self._tasks.put((spec, start_at_s, ahead))

    def stop(self) -> None:
        """Let the task end after its current round."""
        self._stop.set()

    def poll(self) -> WorkerReply:
        """Records since the last poll, and how far the task is."""
        with self._lock:
            records, self._records = tuple(self._records), []
            return WorkerReply(self._process, self._state, self._task, self._progress, records, self._error)

    def _serve(self) -> None:
        """Open the device, then do tasks: every call of torch is made by this thread."""
        opened: list[Device] = []
        if not self._ended(lambda: opened.append(self._open()), "ready", "broken"):
            return
        from rigproof.devices.own_process import make_ready  # noqa: PLC0415 - the driver needs neither
        from rigproof.devices.reporting import run_workload  # noqa: PLC0415 - torch is there by now

        while True:
            spec, start_at_s, ahead = self._tasks.get()
            make_ready(ahead)
            while not self.stopped() and (left_s := start_at_s - self.now_s()) > 0:
                time.sleep(min(left_s, 0.05))

            def work(spec: Spec = spec) -> None:
                run_workload(spec, opened[0], self)

            self._ended(work, "finished", "failed")

    def _open(self) -> Device:
        if self._memory is None and self._device == "cuda":
            self._appointed.wait()
        if self._device == "cuda":
            allocator.configure(self._memory or self.setup.plan.memory, os.environ)
        from rigproof.devices.opening import load, open_device  # noqa: PLC0415 - keeps the import beside its cost

        load(self._device)
        loaded_s = time.monotonic()
        self._appointed.wait()
        device = open_device(self._device, max(1, round(self.setup.plan.cpus)))
        self._introduce(device)
        offset_s = self.setup.clock_offset_s
        data = {"process_s": self._began_s + offset_s, "torch_s": loaded_s + offset_s}
        message = f"its device was open {time.monotonic() - self._began_s:.1f} s after its process began"
        self.emit(Event(self.now_s(), "worker_up", self.subject, message, worker=self.worker, data=data))
        return device

    def _introduce(self, device: Device) -> None:
        plan = self.setup.plan
        torch_version = sys.modules["torch"].version  # the device has loaded it; only workloads import it
        self.emit(
            WorkerIdentity(
                worker=plan.worker,
                subject=plan.subject,
                node=plan.node,
                device=plan.device,
                uuid=device.uuid,
                pid=self._process.pid,
                t_s=self.now_s(),
                torch_version=torch_version.__version__,
                cuda_version=torch_version.cuda,
                precisions=tuple(device.precisions),
                generation=self.setup.generation,
                sms=device.sms,
            )
        )
        if plan.device == "cpu":  # no NVML knows the CPU, so its worker says what it is
            total_mib = device.memory().device_total_mib
            self.emit(GpuIdentity(plan.subject, "cpu", device.uuid, device.name, 0, total_mib or 0.0))

    def _ended(self, work: Callable[[], object], well: WorkerState, badly: WorkerState) -> bool:
        """Do `work`; the state is then `well`, or `badly` if it raised. Returns whether it ended well.

        The error is kept as text, since torch's errors cannot always be pickled.
        """
        try:
            work()
        except BaseException as error:  # whatever a device does, the driver hears of it
            with self._lock:
                self._error = _text(error)
                self._state = badly
            return False
        with self._lock:
            self._state = well
        return True


def _text(error: BaseException) -> str:
    """An error's first line, and where it came from: torch's advice behind it is for authors of kernels."""
    first_line = "".join(traceback.format_exception_only(error)).strip().partition("\n")[0]
    where = traceback.extract_tb(error.__traceback__)[-1:]
    places = "".join(f" ({frame.name}, {frame.filename}:{frame.lineno})" for frame in where)
    return (first_line + places)[:ERROR_CHARACTERS]


def _see_own_gpu_alone(device: DeviceKind) -> None:
    """Show CUDA the GPU that Ray gave this worker, also where Ray was told not to do so itself."""
    if device != "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the CPU as device needs no context on anybody's GPU
        return
    import ray  # noqa: PLC0415 - the unit tests of this module need none

    ids = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    if ids:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(ids)
