"""The CPU of a machine that has only one, as the device."""

import pytest

from rigproof.profiles.auto import rig_of
from rigproof.records.identity import GpuIdentity
from rigproof.records.inventory import HostInventory
from rigproof.stages.registry import KINDS

H200 = GpuIdentity("box/gpu0", "cuda", "GPU-0", "NVIDIA H200", 0, 143771.0)


def banded(cpus, *gpus, require_gpu=False):
    """Whether a machine's CPU band is judged."""
    found = rig_of(HostInventory("box", cpus, 8.0, None, None, gpus), KINDS, require_gpu=require_gpu)
    return found.cpu_of("box").enabled


@pytest.mark.parametrize(
    ("cpus", "expected"), [(0.5, False), (1.0, False), (1.1, False), (1.25, True), (2.0, True)]
)
def test_a_device_that_is_all_of_the_host_leaves_no_band(cpus, expected):
    assert banded(cpus) is expected


def test_a_gpu_is_another_device_than_the_cpu():
    assert banded(1.0, H200)
    assert banded(1.0, require_gpu=True)
