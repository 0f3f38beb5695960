"""Which GPU a Ray bundle stands for, asked of CUDA's driver library without making a context."""

import ctypes
import os
from itertools import pairwise

import ray

CUDA_SUCCESS = 0
UUID_BYTES = 16


def visible_uuid() -> str | None:
    """NVML's UUID of the first GPU that this process may use; None where CUDA finds none.

    Runs as a Ray task inside the bundle. `cuInit` reads the environment once, so the task needs a process of
    its own (Ray ends the process of a GPU task after the task).
    """
    ids = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    if ids:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(ids)
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device = ctypes.c_int()
    uuid = (ctypes.c_ubyte * UUID_BYTES)()
    read_uuid = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
    if (
        cuda.cuInit(0) != CUDA_SUCCESS
        or cuda.cuDeviceGet(ctypes.byref(device), 0) != CUDA_SUCCESS
        or read_uuid(uuid, device) != CUDA_SUCCESS
    ):
        return None
    return uuid_text(bytes(uuid))


def uuid_text(uuid: bytes) -> str:
    """16 bytes as NVML writes them: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx."""
    digits = uuid.hex()
    cuts = (0, 8, 12, 16, 20, 32)
    return "GPU-" + "-".join(digits[start:end] for start, end in pairwise(cuts))
