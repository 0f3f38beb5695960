"""How much memory a training step may take, and how much it took."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import torch

from rigproof.devices.device import Device, MemoryState

if TYPE_CHECKING:  # it imports this workload where it runs
    from rigproof.stages.training.specs import TrainingSpec


MIB_BYTES = 2**20


def limit_mib(spec: "TrainingSpec", device: Device) -> float:
    """The most that this process may hold, MiB.

    The whole device is to be used up to `target_share` of its memory, with `reserve_mib` left free; what
    others (and this process's CUDA context) hold is taken off. Never more than the worker's cap; on the CPU
    never more than the worker's share of the RAM: filling a host's RAM stops the host.
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
    """The peak memory of what runs inside: `mib`, once it is over.

    On a GPU what torch's allocator reserved at most. The CPU has no allocator that tells: there it is
    `held_mib`, what the model holds without any example, and what autograd kept at most for backward.
    """

    def __init__(self, device: Device, held_mib: float) -> None:
        self.mib = 0.0
        self._device = device
        self._held_mib = held_mib
        self._kept = _Kept()
        self._hooks: Any = None
        if device.kind == "cpu":
            self._hooks = torch.autograd.graph.saved_tensors_hooks(self._kept.pack, _unpack)

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
        self.mib = self._held_mib + self._kept.most_bytes / MIB_BYTES


class _Kept:
    """Counts the bytes of tensors that autograd keeps."""

    def __init__(self) -> None:
        self.now_bytes = self.most_bytes = 0

    def pack(self, tensor: torch.Tensor) -> "_Saved":
        return _Saved(tensor, self)


class _Saved:
    """One of them, as long as it is kept."""

    def __init__(self, tensor: torch.Tensor, kept: _Kept) -> None:
        self.tensor = tensor
        self._bytes = tensor.numel() * tensor.element_size()
        self._kept = kept
        kept.now_bytes += self._bytes
        kept.most_bytes = max(kept.most_bytes, kept.now_bytes)

    def __del__(self) -> None:
        self._kept.now_bytes -= self._bytes


def _unpack(saved: _Saved) -> torch.Tensor:
    return saved.tensor
