"""The memory that a training step may take, and the peak that it took."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import torch

from rigproof.devices.device import Device, MemoryState

if TYPE_CHECKING:  # at run time it imports the workload
    from rigproof.stages.training.stage import TrainingSpec


MIB_BYTES = 2**20


def limit_mib(spec: "TrainingSpec", device: Device) -> float:
    """The most that this process may hold, MiB.

    `target_share` of the device's memory, or all but `reserve_mib`, whichever is less; minus what others (and
    this process's CUDA context) hold. Never more than the worker's cap; on the CPU never more than the
    worker's share of the RAM, since filling a host's RAM stops the host.
    """
    limits = [_of_device_mib(spec, device.memory())]
    if spec.memory.cap_mib is not None:
        limits.append(spec.memory.cap_mib)
    if device.kind == "cpu":
        limits.append(spec.vram_mib)
    return max(0.0, min(limits))


def _of_device_mib(spec: "TrainingSpec", state: MemoryState) -> float:
    free_mib, total_mib = state.device_free_mib, state.device_total_mib
    if free_mib is None or total_mib is None:
        return spec.vram_mib
    others_mib = max(0.0, total_mib - free_mib - state.reserved_mib)
    return min(spec.target_share * total_mib, total_mib - spec.reserve_mib) - others_mib


class Peak:
    """Measures the peak memory of the code inside: `mib`, once it is over.

    On a GPU, the most that torch's allocator reserved. The CPU's allocator does not report it: there it is
    `held_mib` (held by the model without any example) plus the most that autograd saved for backward.
    """

    def __init__(self, device: Device, held_mib: float) -> None:
        self.mib = 0.0
        self._device = device
        self._held_mib = held_mib
        self._saved = _SavedBytes()
        self._hooks: Any = None
        if device.kind == "cpu":
            self._hooks = torch.autograd.graph.saved_tensors_hooks(self._saved.pack, _unpack)

    def __enter__(self) -> Self:
        self._device.empty_cache()
        self._device.reset_peak()
        if self._hooks is not None:
            self._hooks.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._hooks is None:
            self.mib = self._device.memory().peak_reserved_mib
            return
        self._hooks.__exit__(kind, error, trace)
        self.mib = self._held_mib + self._saved.most_bytes / MIB_BYTES


class _SavedBytes:
    """Counts the bytes of tensors that autograd saves."""

    def __init__(self) -> None:
        self.now_bytes = self.most_bytes = 0

    def pack(self, tensor: torch.Tensor) -> "_SavedTensor":
        return _SavedTensor(tensor, self)


class _SavedTensor:
    """A saved tensor, counted while it exists."""

    def __init__(self, tensor: torch.Tensor, counter: _SavedBytes) -> None:
        self.tensor = tensor
        self._bytes = tensor.numel() * tensor.element_size()
        self._counter = counter
        counter.now_bytes += self._bytes
        counter.most_bytes = max(counter.most_bytes, counter.now_bytes)

    def __del__(self) -> None:
        self._counter.now_bytes -= self._bytes


def _unpack(saved: _SavedTensor) -> torch.Tensor:
    return saved.tensor
