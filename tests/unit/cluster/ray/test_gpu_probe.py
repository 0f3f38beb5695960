import ctypes

import pytest

from rigproof.cluster.ray.gpu_probe import Probed, first_gpu, uuid_text

TEXTS = {100: b"no CUDA-capable device is detected", 802: b"system not yet initialized"}


class Cuda:
    """libcuda's four functions; `fails` names one and its code."""

    def __init__(self, fails="", code=0):
        self.fails, self.code = fails, code

    def _code(self, name):
        return self.code if name == self.fails else 0

    def cuInit(self, flags):
        return self._code("cuInit")

    def cuDeviceGet(self, device, ordinal):
        return self._code("cuDeviceGet")

    def cuDeviceGetUuid_v2(self, uuid, device):
        ctypes.memmove(uuid, bytes(range(16)), 16)
        return self._code("cuDeviceGetUuid")

    def cuGetErrorString(self, code, text):
        known = TEXTS.get(code)
        if known is not None:
            text._obj.value = known
        return 0 if known else 1


def test_the_uuid_is_written_as_nvml_does():
    assert uuid_text(bytes(range(16))) == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"


def test_the_first_device_is_reported_by_its_uuid():
    assert first_gpu(Cuda()) == Probed("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f")


@pytest.mark.parametrize(
    ("fails", "code", "expected"),
    [
        ("cuInit", 802, "cuInit failed with CUDA error 802 (system not yet initialized); is nvidia-fabric"),
        ("cuDeviceGet", 100, "cuDeviceGet failed with CUDA error 100 (no CUDA-capable device is detected)"),
        ("cuDeviceGetUuid", 4711, "CUDA error 4711 (an error without a name); run `nvidia-smi` there"),
    ],
)
def test_an_error_is_kept_with_its_way_out(fails, code, expected):
    probed = first_gpu(Cuda(fails, code))
    assert probed.uuid is None
    assert expected in probed.error
