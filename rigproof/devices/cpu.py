"""The host's CPU as a device."""

import contextlib
import ctypes
import math
import platform
import resource
import time
import uuid
import weakref
from typing import Any

import torch

from rigproof.devices.device import Mark, MemoryState
from rigproof.devices.torch_device import DTYPES, TorchDevice
from rigproof.host.cgroup import memory_limit, usable_memory
from rigproof.host.proc import cpu_name, own_data_bytes, own_memory
from rigproof.records.identity import DeviceKind

MIB = 2**20
PROBE_S = 0.05
PROBE_SIZE = 256
PROBE_PRODUCTS = 5  # at least, however long one takes
SHIFTS = 2**20  # distinct matrices that are cut from one random buffer
# Beside the device's own cap: an allocation that fails in one of Ray's threads ends the process.
OTHERS_MIB = 256


class CpuMark:
    """A moment on the CPU, which has finished its work when the call returns."""

    def __init__(self) -> None:
        self.clock_s = time.perf_counter()

    def wait(self) -> None:
        """Nothing to wait for."""

    def reached(self) -> bool:
        return False

    def seconds_since(self, earlier: Mark) -> float:
        assert isinstance(earlier, CpuMark)
        return self.clock_s - earlier.clock_s


class CpuDevice(TorchDevice):
    """torch on `cpu_threads` threads.

    fp16 is left out: few CPUs multiply it in hardware, and elsewhere one product takes seconds.
    """

    kind: DeviceKind = "cpu"
    queue_depth = 1
    precisions: tuple[str, ...] = ("fp32", "bf16")

    def __init__(self, cpu_threads: int) -> None:
        super().__init__(torch.device("cpu"), cpu_threads)
        if torch.get_num_interop_threads() != 1:
            with contextlib.suppress(RuntimeError):  # torch reads it once, before its first parallel work
                torch.set_num_interop_threads(1)
        self.name = cpu_name()
        # Constant for the host, so that a history finds its earlier runs.
        self.uuid = f"CPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{platform.node()}/{self.name}')}"
        self._memory_limit = memory_limit()  # of the container or other cgroup of this process
        self._random: dict[tuple[int, torch.dtype], torch.Tensor] = {}
        self._allocated_bytes = 0
        self._cap_bytes: int | None = None
        self._data_limit: int | None = None  # the soft limit before ours
        self.half = self._probe_half()

    def use(self, precision: str) -> None:
        """Do nothing: on the CPU the operands' type alone selects the precision."""

    def normal(self, size: int, precision: str, seed: int) -> torch.Tensor:
        """Random normal data, cut from one buffer at an offset given by `seed`.

        One thread draws some 10^8 numbers a second, which would take minutes for a large pool; a
        shifted copy is as random within a matrix and differs between matrices. Shifts are odd steps
        apart, so never by whole rows.
        """
        source = self._drawn(size, DTYPES[precision], seed)
        self._make_sure_of(source.numel() * source.element_size())
        return self._counted(source.clone())

    def fill_normal(self, matrix: torch.Tensor, seed: int) -> None:
        """Write the data of `normal` again, from the same buffer."""
        matrix.copy_(self._drawn(matrix.shape[0], matrix.dtype, seed))

    def arithmetic(self) -> dict[str, Any]:
        """The CPU's model; its threads divide a product as a GPU's multiprocessors do."""
        return {
            "device": self.name,
            "torch": self.torch_version,
            "cublas": None,
            "multiprocessors": self.cpu_threads,
            "capability": None,
        }

    def empty(self, size: int, precision: str) -> torch.Tensor:
        self._make_sure_of(size * size * DTYPES[precision].itemsize)
        return self._counted(super().empty(size, precision))

    def words(self, count: int) -> torch.Tensor:
        self._make_sure_of(count * torch.int64.itemsize)
        return self._counted(super().words(count))

    def mark(self) -> CpuMark:
        return CpuMark()

    def memory(self) -> MemoryState:
        """Matrices in use, and the process's resident memory as what is reserved."""
        resident_mib = own_memory().resident / MIB
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # lags slightly
        free_mib = total_mib = None
        with contextlib.suppress(OSError, LookupError, ValueError):
            usable = usable_memory(self._memory_limit)
            free_mib, total_mib = usable.available_mib, usable.total_mib
        return MemoryState(
            allocated_mib=self._allocated_bytes / MIB,
            reserved_mib=resident_mib,
            peak_reserved_mib=max(peak_mib, resident_mib),
            device_free_mib=free_mib,
            device_total_mib=total_mib,
            ooms=None,
            alloc_retries=None,
        )

    def reset_peak(self) -> None:
        """Do nothing: the kernel keeps one peak for the process's whole life."""

    def empty_cache(self) -> None:
        """Drop the buffer that random data is cut from, and have the C library return what it holds."""
        self._random.clear()
        with contextlib.suppress(AttributeError):  # glibc's alone
            ctypes.CDLL(None).malloc_trim(0)

    def cached_mib(self) -> float:
        """The buffers that random data is cut from; what the C library caches is not known."""
        return self._cached_bytes() / MIB

    def limit_memory(self, mib: float | None) -> bool:
        """Cap matrices and their random data here, and further data mappings of the process (RLIMIT_DATA).

        The process's limit leaves `OTHERS_MIB` for code in the process that does not check the cap.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if self._data_limit is None:
            self._data_limit = soft
        if mib is None:
            resource.setrlimit(resource.RLIMIT_DATA, (self._data_limit, hard))
            self._data_limit = self._cap_bytes = None
            return False
        used = own_data_bytes()
        before = self._data_limit
        if resource.RLIM_INFINITY != before <= used + int(mib * MIB):
            return False
        wanted = used + int((mib + OTHERS_MIB) * MIB)
        resource.setrlimit(
            resource.RLIMIT_DATA, (wanted if before == resource.RLIM_INFINITY else min(wanted, before), hard)
        )
        self._cap_bytes = self._held_bytes() + int(mib * MIB)
        return True

    def allocator_settings(self) -> dict[str, Any]:
        """Empty: the C library's allocator reports none."""
        return {}

    def is_out_of_memory(self, error: BaseException) -> bool:
        """torch's CPU allocator raises a plain RuntimeError; libraries below it std::bad_alloc."""
        if isinstance(error, MemoryError | torch.OutOfMemoryError):
            return True
        text = str(error)
        return isinstance(error, RuntimeError) and ("can't allocate memory" in text or "bad_alloc" in text)

    def _drawn(self, size: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
        """A view of the part of the buffer that belongs to a seed."""
        key = (size, dtype)
        if key not in self._random:
            self._make_sure_of((size * size + SHIFTS) * dtype.itemsize)
            generator = torch.Generator().manual_seed(size)
            row = torch.randn(size * size + SHIFTS, generator=generator)
            self._random[key] = row.to(dtype)
        return self._random[key].narrow(0, seed * 7919 % SHIFTS, size * size).view(size, size)

    def _cached_bytes(self) -> int:
        return sum(row.numel() * row.element_size() for row in self._random.values())

    def _held_bytes(self) -> int:
        return self._allocated_bytes + self._cached_bytes()

    def _make_sure_of(self, count: int) -> None:
        """Raise torch.OutOfMemoryError if so many more bytes exceed the cap."""
        if self._cap_bytes is not None and self._held_bytes() + count > self._cap_bytes:
            raise torch.OutOfMemoryError(
                f"the CPU's cap of {self._cap_bytes} bytes, {self._held_bytes()} in use: "
                f"you tried to allocate {count} bytes"
            )

    def _counted(self, matrix: torch.Tensor) -> torch.Tensor:
        count = matrix.numel() * matrix.element_size()
        self._allocated_bytes += count
        weakref.finalize(matrix, self._freed, count).atexit = False
        return matrix

    def _freed(self, count: int) -> None:
        self._allocated_bytes -= count

    def _probe_half(self) -> str:
        """bf16 if it is at least half as fast as fp32: a slower one is emulated."""
        rates = {precision: self._probe(precision) for precision in ("fp32", "bf16")}
        return "bf16" if rates["bf16"] >= rates["fp32"] / 2 else "fp32"

    def _probe(self, precision: str) -> float:
        """Products of a small size in a second, by the fastest one: others may have waited for a CPU."""
        a, out = (torch.ones(PROBE_SIZE, PROBE_SIZE, dtype=DTYPES[precision]) for _ in range(2))
        self.multiply(a, a, out)  # the first call initialises the library
        start = before = CpuMark()
        fastest_s, count = math.inf, 0
        while before.seconds_since(start) < PROBE_S / 2 or count < PROBE_PRODUCTS:
            self.multiply(a, a, out)
            after = CpuMark()
            fastest_s = min(fastest_s, after.seconds_since(before))
            before, count = after, count + 1
        return 1 / fastest_s
