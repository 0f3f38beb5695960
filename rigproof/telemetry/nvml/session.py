"""An open NVML: one per process, from `open_nvml`."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Self

from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import Event
from rigproof.telemetry.nvml.errors import GpuLost, NvmlError, unavailable
from rigproof.telemetry.nvml.identity import read_identity
from rigproof.telemetry.nvml.library import Gpu, Handle, Known, Library, Problems
from rigproof.telemetry.nvml.protocol import LOST
from rigproof.telemetry.nvml.xid import XidListener


class Nvml:
    """The GPUs of this host through NVML, for a `with`. Its methods may be called from several threads.

    If MIG is enabled, the parent GPU is reported: NVML lists no MIG device here.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._problems = Problems()
        self._gpus: dict[str, tuple[Handle, Known]] = {}
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

    def gpu(self, uuid: str, subject: str, t_s: float) -> Gpu:
        """The GPU of that UUID, to be asked now, at `t_s`; it is looked up the first time."""
        found = self._gpus.get(uuid)
        if found is None:
            try:
                found = self._kept(uuid, self._library.call("nvmlDeviceGetHandleByUUID", uuid))
            except NvmlError as error:
                found = self._kept(uuid, None, str(error))
        handle, known = found
        return Gpu(uuid, handle, known, subject, t_s, self._library, self._problems)

    def xids(
        self, uuids: Mapping[str, str], now_s: Callable[[], float], *, by_itself: bool = True
    ) -> XidListener:
        """A listener for the Xids of the GPUs in `uuids` (UUID to subject); see XidListener.

        GPUs that are lost or do not report Xids are not in its `supported`.
        """
        gpus = {}
        for uuid, subject in uuids.items():
            gpus[subject] = self.gpu(uuid, subject, now_s())
        listener = XidListener(self._library, gpus, self._problems, now_s, by_itself=by_itself)
        self._listeners.append(listener)
        return listener

    def give_up(self, uuid: str, reason: str) -> None:
        """Make no further NVML call for this GPU: for one whose last call never returned."""
        self._kept(uuid, None)[1].unreachable = reason

    def problems(self) -> list[Event]:
        """Unexpected errors since the last call, each kind of each GPU once, as "nvml_error" events."""
        return self._problems.drain()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the listeners and NVML; NVML is not shut down if one of its calls hangs."""
        stopped = [listener.stop() for listener in self._listeners]
        if all(stopped) and self._library.in_flight == 0:
            with suppress(NvmlError):  # nothing can be done about it here
                self._library.call("nvmlShutdown")

    def _kept(self, uuid: str, handle: Handle, why_not: str | None = None) -> tuple[Handle, Known]:
        with self._lock:
            return self._gpus.setdefault(uuid, (handle, Known(why_not)))

    def _identity(self, index: int, subject: str, t_s: float) -> GpuIdentity | None:
        try:
            handle = self._library.call("nvmlDeviceGetHandleByIndex", index)
            uuid = self._library.call("nvmlDeviceGetUUID", handle)
            self._kept(uuid, handle)
            identity = read_identity(self.gpu(uuid, subject, t_s), index)
            problem = NvmlError("identity", 0, "its name or memory size cannot be read")
        except NvmlError as error:
            identity, problem = None, error
        except GpuLost as error:
            identity, problem = None, NvmlError("identity", min(LOST), str(error))
        if identity is None:
            self._problems.note(t_s, subject, problem)
        return identity


def _driver_cuda(library: Library) -> str | None:
    """The newest CUDA that the driver supports, such as "13.0"; None if it does not say so."""
    try:
        version = int(library.call("nvmlSystemGetCudaDriverVersion_v2"))
    except NvmlError:
        return None
    return f"{version // 1000}.{version % 1000 // 10}"


def open_nvml() -> Nvml:
    """NVML, started.

    No generator, which would shut it down where it is collected if nobody ended it: that may be inside of
    pynvml's lock, which the shutdown would wait for.

    Raises:
        NvmlUnavailable: no library, no driver, a driver/library mismatch, no permission.
    """
    library = Library()
    try:
        library.call("nvmlInit")
        return Nvml(library)
    except NvmlError as error:
        raise unavailable(error) from error
