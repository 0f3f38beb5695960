"""An open NVML: one per process, from `open_nvml`."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Literal

from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import Event, ForeignMemory, GpuCounters
from rigproof.records.samples import GpuSample
from rigproof.telemetry.nvml.counters import read_counters, read_foreign_memory
from rigproof.telemetry.nvml.device import GpuQueries, NvmlDevice, Problems
from rigproof.telemetry.nvml.errors import GpuLost, NvmlError, unavailable
from rigproof.telemetry.nvml.identity import read_identity
from rigproof.telemetry.nvml.library import Library
from rigproof.telemetry.nvml.processes import Listed, read_processes, read_sm_use
from rigproof.telemetry.nvml.protocol import LOST
from rigproof.telemetry.nvml.sampling import read_sample
from rigproof.telemetry.nvml.xid import XidListener


class Nvml:
    """The GPUs of this host through NVML. Its methods may be called from several threads.

    If MIG is enabled, the parent GPU is reported: NVML lists no MIG device here.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._problems = Problems()
        self._devices: dict[str, NvmlDevice] = {}
        self._lock = threading.Lock()
        self._listeners: list[XidListener] = []
        self.driver_version: str = library.call("nvmlSystemGetDriverVersion")
        self.driver_cuda = _driver_cuda(library)

    def gpus(self, hostname: str, t_s: float = 0.0) -> tuple[GpuIdentity, ...]:
        """All GPUs in NVML order, which is PCI bus order; subjects are `<hostname>/gpuN`.

        A GPU that is lost, or whose name or memory cannot be read, is left out and noted in
        `problems`; if the profile promises it, it counts as missing.

        Raises:
            NvmlUnavailable: not even their number can be read.
        """
        try:
            count = self._library.call("nvmlDeviceGetCount")
        except NvmlError as error:
            raise unavailable(error) from error
        found = [self._identity(index, f"{hostname}/gpu{index}", t_s) for index in range(count)]
        return tuple(identity for identity in found if identity is not None)

    def parent_of(self, mig_uuid: str) -> str | None:
        """The UUID of the GPU that a MIG device is a part of; None if NVML knows no such device."""
        try:
            device = self._library.call("nvmlDeviceGetHandleByUUID", mig_uuid)
            parent = self._library.call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", device)
            return str(self._library.call("nvmlDeviceGetUUID", parent))
        except NvmlError:
            return None

    def sample(self, uuid: str, subject: str, t_s: float, lateness_s: float) -> GpuSample:
        """A sample of one GPU (see `sampling`). Raises GpuLost."""
        return read_sample(self._queries(uuid, subject, t_s), lateness_s)

    def counters(
        self, uuid: str, subject: str, moment: Literal["before", "after"], t_s: float
    ) -> GpuCounters:
        """Error counters of one GPU (see `counters`). Raises GpuLost."""
        return read_counters(self._queries(uuid, subject, t_s), moment)

    def foreign_memory(self, uuid: str, subject: str, own_pids: frozenset[int], t_s: float) -> ForeignMemory:
        """VRAM that processes other than `own_pids` hold. Raises GpuLost."""
        return read_foreign_memory(self._queries(uuid, subject, t_s), own_pids)

    def processes(self, uuid: str, subject: str, t_s: float) -> tuple[Listed, ...] | None:
        """The processes on one GPU (see `processes`); None if the driver has no list. Raises GpuLost."""
        return read_processes(self._queries(uuid, subject, t_s))

    def sm_use(self, uuid: str, subject: str, t_s: float) -> Mapping[int, float] | None:
        """Recent percent of the SMs by pid; None if the driver does not report it. Raises GpuLost."""
        return read_sm_use(self._queries(uuid, subject, t_s))

    def xids(
        self, uuids: Mapping[str, str], now_s: Callable[[], float], *, by_itself: bool = True
    ) -> XidListener:
        """A listener for the Xids of the GPUs in `uuids` (UUID to subject); see XidListener.

        GPUs that are lost or do not report Xids are not in its `supported`.
        """
        devices = {}
        for uuid, subject in uuids.items():
            try:
                devices[subject] = self._device(uuid, subject)
            except GpuLost:
                continue  # not in `supported`
        listener = XidListener(self._library, devices, self._problems, now_s, by_itself=by_itself)
        self._listeners.append(listener)
        return listener

    def give_up(self, uuid: str, reason: str) -> None:
        """Make no further NVML call for this GPU: for one whose last call never returned."""
        with self._lock:
            self._devices.setdefault(uuid, NvmlDevice(uuid, None)).unreachable = reason

    def problems(self) -> list[Event]:
        """Unexpected errors since the last call, each kind of each GPU once, as "nvml_error" events."""
        return self._problems.drain()

    def close(self) -> None:
        """Stop the listeners and NVML; NVML is not shut down if one of its calls hangs."""
        stopped = [listener.stop() for listener in self._listeners]
        if all(stopped) and self._library.in_flight == 0:
            with suppress(NvmlError):  # nothing can be done about it here
                self._library.call("nvmlShutdown")

    def _queries(self, uuid: str, subject: str, t_s: float) -> GpuQueries:
        return GpuQueries(self._library, self._device(uuid, subject), self._problems, subject, t_s)

    def _device(self, uuid: str, subject: str) -> NvmlDevice:
        """The GPU of that UUID, which is looked up the first time. Raises GpuLost if that fails."""
        known = self._devices.get(uuid)
        if known is not None:
            return known
        try:
            device = NvmlDevice(uuid, self._library.call("nvmlDeviceGetHandleByUUID", uuid))
        except NvmlError as error:
            device = NvmlDevice(uuid, None, unreachable=str(error))
        with self._lock:
            device = self._devices.setdefault(uuid, device)
        if device.unreachable is not None:
            raise GpuLost(subject, uuid, device.unreachable)
        return device

    def _identity(self, index: int, subject: str, t_s: float) -> GpuIdentity | None:
        try:
            handle = self._library.call("nvmlDeviceGetHandleByIndex", index)
            uuid = self._library.call("nvmlDeviceGetUUID", handle)
            with self._lock:
                device = self._devices.setdefault(uuid, NvmlDevice(uuid, handle))
            identity = read_identity(GpuQueries(self._library, device, self._problems, subject, t_s), index)
        except NvmlError as error:
            self._problems.note(t_s, subject, error)
            return None
        except GpuLost as error:
            self._problems.note(t_s, subject, NvmlError("identity", min(LOST), str(error)))
            return None
        if identity is None:
            self._problems.note(
                t_s, subject, NvmlError("identity", 0, "its name or memory size cannot be read")
            )
        return identity


def _driver_cuda(library: Library) -> str | None:
    """The newest CUDA that the driver supports, such as "13.0"; None if it does not say so."""
    try:
        version = int(library.call("nvmlSystemGetCudaDriverVersion_v2"))
    except NvmlError:
        return None
    return f"{version // 1000}.{version % 1000 // 10}"


@contextmanager
def open_nvml() -> Iterator[Nvml]:
    """NVML, started, and shut down at the end.

    Raises:
        NvmlUnavailable: no library, no driver, a driver/library mismatch, no permission.
    """
    library = Library()
    try:
        library.call("nvmlInit")
        nvml = Nvml(library)
    except NvmlError as error:
        raise unavailable(error) from error
    try:
        yield nvml
    finally:
        nvml.close()
