"""The first visible NVIDIA GPU as a device."""

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from rigproof.devices.device import Mark, MemoryState
from rigproof.devices.torch_device import TorchDevice
from rigproof.host.proc import PROC, own_files
from rigproof.records.identity import DeviceKind

MIB = 2**20
FP8_ROWS = 1024  # drawn at a time in bf16, so that little memory is needed beside the matrix
WARM_UP_SIZE = 256
SHOWN_SETTINGS = ("expandable_segments", "max_split_size", "roundup_power2_divisions")


class CudaMark:
    """A CUDA event on the stream that the work runs on.

    Blocking, so that a waiting host thread sleeps: a spinning one would show as CPU load.
    """

    def __init__(self) -> None:
        self.event = torch.cuda.Event(enable_timing=True, blocking=True)
        self.event.record()

    def wait(self) -> None:
        self.event.synchronize()

    def reached(self) -> bool:
        return bool(self.event.query())

    def seconds_since(self, earlier: Mark) -> float:
        assert isinstance(earlier, CudaMark)
        return float(earlier.event.elapsed_time(self.event)) / 1e3


def cuda_precisions(capability: tuple[int, int]) -> tuple[str, ...]:
    """Precisions that GPUs of a compute capability multiply in hardware, as far as this torch can.

    fp32 everywhere, fp16 from 7.0 (Volta), tf32 and bf16 from 8.0 (Ampere), fp8 from 8.9 (Ada); source: CUDA
    C++ Programming Guide, "Compute Capabilities".
    """
    if capability >= (8, 9) and hasattr(torch, "_scaled_mm"):
        return ("fp32", "tf32", "fp16", "bf16", "fp8")
    if capability >= (8, 0):
        return ("fp32", "tf32", "fp16", "bf16")
    if capability >= (7, 0):
        return ("fp32", "fp16")
    return ("fp32",)


def best_half(precisions: tuple[str, ...]) -> str:
    """bf16 if the GPU has it, else fp16, else fp32."""
    return next(precision for precision in ("bf16", "fp16", "fp32") if precision in precisions)


def set_tf32(allowed: bool) -> None:
    """Let fp32 products round their operands to tf32, or not, through this torch's API."""
    settings: Any = torch.backends.cuda.matmul
    if hasattr(settings, "fp32_precision"):  # torch 2.9 on; the older name warns there
        settings.fp32_precision = "tf32" if allowed else "ieee"
    else:
        settings.allow_tf32 = allowed


@cache
def cublas_version(proc_root: Path = PROC) -> str | None:
    """Version of the cuBLAS that this process has loaded, such as "13.1.0"; None if it has none.

    torch at most reports the version that it was built for, and a
    package manager's record may be for another copy, so the library itself is asked (cublasGetProperty).
    """
    for path in own_files(proc_root):
        if path.rpartition("/")[2].startswith("libcublas.so"):
            return _reported_version(path)
    return None


def _reported_version(path: str) -> str | None:
    """The version that the library itself reports: major, minor and patch."""
    number, numbers = ctypes.c_int(), []
    try:
        ask = ctypes.CDLL(path).cublasGetProperty
    except (OSError, AttributeError):
        return None
    for part in range(3):
        if ask(part, ctypes.byref(number)) != 0:
            return None
        numbers.append(str(number.value))
    return ".".join(numbers)


def _in_short(setting: Any) -> Any:
    """A setting of the allocator; one kept per size with the same value for all sizes is shown once."""
    values = list(setting.values()) if isinstance(setting, dict) else []
    return values[0] if values and values.count(values[0]) == len(values) else setting


class CudaDevice(TorchDevice):
    """CUDA device 0 of this process: Ray and CUDA_VISIBLE_DEVICES decide which card that is."""

    kind: DeviceKind = "cuda"
    queue_depth = 2

    def __init__(self, cpu_threads: int) -> None:
        if not torch.cuda.is_available():
            raise RuntimeError(
                "torch sees no CUDA device: check the driver, CUDA_VISIBLE_DEVICES and torch's build"
            )
        super().__init__(torch.device("cuda", 0), cpu_threads)
        torch.cuda.set_device(self.where)
        properties = torch.cuda.get_device_properties(self.where)
        self.name = str(properties.name)
        self._total_bytes = int(properties.total_memory)
        self.sms = int(properties.multi_processor_count)
        self._capability = f"{properties.major}.{properties.minor}"
        self.uuid = f"GPU-{properties.uuid}"  # as NVML writes it
        self.precisions = cuda_precisions((properties.major, properties.minor))
        self.half = best_half(self.precisions)
        self._one = torch.ones((), device=self.where)  # the scale of fp8 operands
        # Printed 16-bit peaks mean 32-bit accumulation; torch may split sums and add the parts in 16-bit.
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        self._warm_up()

    def _warm_up(self) -> None:
        """Make the context, cuBLAS, its workspace and the kernels' code, which a first product waits for.

        So the first stage's clock starts with them done. A card without room for that is left to the stages,
        which report what does not fit.
        """
        try:
            for precision in dict.fromkeys(("fp32", self.half)):
                self.use(precision)
                matrix, out = self.normal(WARM_UP_SIZE, precision, 0), self.empty(WARM_UP_SIZE, precision)
                self.multiply(matrix, matrix, out)
                sums = self.checksums(1)
                sums.add(out)
                sums.fetch()
                self.mark().wait()
        except RuntimeError as error:
            if not self.is_out_of_memory(error):
                raise
        torch.cuda.empty_cache()

    def use(self, precision: str) -> None:
        set_tf32(precision == "tf32")

    def normal(self, size: int, precision: str, seed: int) -> torch.Tensor:
        """Random normal data, made on the device."""
        matrix = self.empty(size, precision)
        self.fill_normal(matrix, seed)
        return matrix

    def fill_normal(self, matrix: torch.Tensor, seed: int) -> None:
        """Write the data of `normal` again: torch's generator on a GPU needs the seed alone."""
        generator = torch.Generator(self.where).manual_seed(seed)
        if matrix.element_size() > 1:
            matrix.normal_(generator=generator)
            return
        for rows in matrix.split(FP8_ROWS):  # torch draws no fp8
            rows.copy_(torch.randn(rows.shape, dtype=torch.bfloat16, device=self.where, generator=generator))

    def multiply(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        """Queue out = a · bᵀ; fp8 with 32-bit accumulation, and without scales."""
        if a.element_size() > 1:
            torch.mm(a, b.t(), out=out)
            return
        torch._scaled_mm(  # noqa: SLF001 - the only one for fp8
            a, b.t(), self._one, self._one, out_dtype=out.dtype, use_fast_accum=False, out=out
        )

    def multiply_exactly(self, left: torch.Tensor, right: torch.Tensor, precision: str) -> torch.Tensor:
        """left · rightᵀ by ordinary fp32 arithmetic; for a product in fp32 on the tensor cores (tf32)."""
        set_tf32(precision == "fp32" and "tf32" in self.precisions)
        product = left @ right.t()
        self.use(precision)
        return product

    def launched_at_once(
        self, work: Callable[[], None], random: torch.Generator
    ) -> Callable[[], None] | None:
        """The work as a CUDA graph. Before 2.4 torch captures no draws of a generator of one's own."""
        graph = torch.cuda.CUDAGraph()
        if not hasattr(graph, "register_generator_state"):
            return None
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):  # what libraries set up at their first call cannot be captured
            work()
        torch.cuda.current_stream().wait_stream(beside)
        graph.register_generator_state(random)
        # Other threads of this process may ask for the memory meanwhile.
        with torch.cuda.graph(graph, stream=beside, capture_error_mode="thread_local"):
            work()
        launch: Callable[[], None] = graph.replay
        return launch

    def arithmetic(self) -> dict[str, Any]:
        """The card's kind, and the libraries that choose its kernels."""
        return {
            "device": self.name,
            "torch": self.torch_version,
            "cublas": cublas_version(),
            "multiprocessors": self.sms,
            "capability": self._capability,
        }

    def mark(self) -> CudaMark:
        return CudaMark()

    def memory(self) -> MemoryState:
        free, total = torch.cuda.mem_get_info(self.where)
        native = torch.cuda.get_allocator_backend() == "native"  # other backends count neither
        counts = torch.cuda.memory_stats(self.where) if native else {}
        return MemoryState(
            allocated_mib=torch.cuda.memory_allocated(self.where) / MIB,
            reserved_mib=torch.cuda.memory_reserved(self.where) / MIB,
            peak_reserved_mib=torch.cuda.max_memory_reserved(self.where) / MIB,
            device_free_mib=free / MIB,
            device_total_mib=total / MIB,
            ooms=counts.get("num_ooms"),
            alloc_retries=counts.get("num_alloc_retries"),
        )

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats(self.where)

    def empty_cache(self) -> None:
        torch.cuda.empty_cache()

    def cached_mib(self) -> float:
        """Blocks that the caching allocator keeps."""
        return float(torch.cuda.memory_reserved(self.where) - torch.cuda.memory_allocated(self.where)) / MIB

    def limit_memory(self, mib: float | None) -> bool:
        """Cap the caching allocator, by a share of the card; the CUDA context is not included."""
        share = 1.0 if mib is None else min(1.0, mib * MIB / self._total_bytes)
        torch.cuda.set_per_process_memory_fraction(share, self.where)
        return share < 1

    def allocator_settings(self) -> dict[str, Any]:
        """The allocator's settings, from torch's snapshot of it."""
        try:
            settings = torch.cuda.memory._snapshot()["allocator_settings"]  # noqa: SLF001 - no public way
        except (AttributeError, KeyError, RuntimeError):
            return {}
        return {name: _in_short(settings[name]) for name in SHOWN_SETTINGS if name in settings}

    def is_out_of_memory(self, error: BaseException) -> bool:
        """The allocator's own error, and those of libraries without room for their handles."""
        if isinstance(error, torch.OutOfMemoryError):
            return True
        text = str(error)
        return isinstance(error, RuntimeError) and (
            "CUDA error: out of memory" in text or "CUBLAS_STATUS_ALLOC_FAILED" in text
        )
