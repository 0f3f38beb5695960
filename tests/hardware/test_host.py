"""The machines stay usable while their GPUs work, and their RAM and disks are sound."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("host.cpu_band")
def test_cpu_band(sustained, subject, judge):
    """Each host's CPU is held in its band."""
    judge(subject)


@pytest.mark.criterion("host.steal")
def test_steal(sustained, subject, judge):
    """No hypervisor takes much of the CPU time that feeds the GPUs."""
    judge(subject)


@pytest.mark.criterion("host.responsiveness")
def test_responsiveness(sustained, subject, judge):
    """A sleeper is woken in time: the machine does not freeze."""
    judge(subject)


@pytest.mark.criterion("host.memory")
def test_memory(ram, subject, judge):
    """RAM keeps what is written to it, and is as fast as that of equal hosts."""
    judge(subject)


@pytest.mark.criterion("host.disk")
def test_disk(disk, subject, judge):
    """Checkpoints find room on a disk that keeps them, and that is as fast as those of equal hosts."""
    judge(subject)


@pytest.mark.criterion("host.limits")
def test_limits(rig, subject, judge):
    """The host has what the profile states, and no container limit starves its GPUs."""
    judge(subject)
