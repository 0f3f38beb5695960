"""Opening a device: torch is imported then, and not before."""

import os
from collections.abc import Callable

from rigproof.devices import determinism
from rigproof.devices.device import Device
from rigproof.host.garbage import without_collections
from rigproof.records.identity import DeviceKind


def load(kind: DeviceKind) -> Callable[[int], Device]:
    """The function that opens this kind of device. Loads torch, and touches no device yet."""
    with without_collections(lasting=True):
        if kind == "cuda":
            # NVML counts in PCI order; CUDA only does so if this is set before it is initialised.
            os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
            determinism.configure(os.environ)
            from rigproof.devices.cuda import CudaDevice  # noqa: PLC0415 - torch is loaded only here

            return CudaDevice
        from rigproof.devices.cpu import CpuDevice  # noqa: PLC0415 - torch is loaded only here

        return CpuDevice


def open_device(kind: DeviceKind, cpu_threads: int) -> Device:
    """The first visible GPU, or the CPU. `cpu_threads` are what torch may use on the host.

    RuntimeError if there is no such device.
    """
    return load(kind)(cpu_threads)
