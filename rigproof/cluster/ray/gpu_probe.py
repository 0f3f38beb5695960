"""Finds out which GPU Ray assigned to a process, by CUDA's driver library and without creating a context."""

import ctypes
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

CUDA_SUCCESS = 0
UUID_BYTES = 16
# The values of cuda.h's CUresult that occur on a rig before any program runs.
WAYS_OUT = {
    100: "is CUDA_VISIBLE_DEVICES set where Ray was started, or MIG on without an instance?",
    802: "is nvidia-fabricmanager running there?",
    803: "the loaded kernel module does not match the installed driver's version; reboot",
}


@dataclass(frozen=True, slots=True)
class Probed:
    """The card that was found: its UUID as NVML writes it, or the reason why there is none."""

    uuid: str | None = None
    error: str | None = None


def probe_gpu() -> Probed:
    """The first GPU that this process may use. `cuInit` reads the environment once."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return Probed(error=f"CUDA's driver library cannot be loaded ({error}); install the NVIDIA driver")
    return first_gpu(cuda)


def first_gpu(cuda: Any) -> Probed:
    """CUDA's device 0. `cuda` is libcuda as ctypes loads it."""
    device = ctypes.c_int()
    uuid = (ctypes.c_ubyte * UUID_BYTES)()
    read_uuid = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
    steps: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
        ("cuInit", cuda.cuInit, (0,)),
        ("cuDeviceGet", cuda.cuDeviceGet, (ctypes.byref(device), 0)),
        ("cuDeviceGetUuid", read_uuid, (uuid, device)),
    )
    for name, function, arguments in steps:
        code = function(*arguments)
        if code != CUDA_SUCCESS:
            return Probed(error=_failure(cuda, name, code))
    return Probed(uuid=uuid_text(bytes(uuid)))


def uuid_text(uuid: bytes) -> str:
    """16 bytes as NVML writes them: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx."""
    digits = uuid.hex()
    cuts = (0, 8, 12, 16, 20, 32)
    return "GPU-" + "-".join(digits[start:end] for start, end in pairwise(cuts))


def _failure(cuda: Any, name: str, code: int) -> str:
    text = ctypes.c_char_p()
    cuda.cuGetErrorString(code, ctypes.byref(text))  # leaves null for a code that this driver does not know
    meaning = text.value.decode() if text.value else "an error without a name"
    way_out = WAYS_OUT.get(code, "run `nvidia-smi` there and see `sudo dmesg`")
    return f"{name} failed with CUDA error {code} ({meaning}); {way_out}"
