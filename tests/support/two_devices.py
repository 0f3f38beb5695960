"""A short profile of two devices: GPUs where this machine has two, else the CPU twice, or more often."""

from pathlib import Path

import pytest

PROFILE = """
name = "two-devices"
[cpu]
enabled = false # two workers on two CPUs leave no band to hold
[timeouts]
stall_s = {stall_s}
task_s = 60
start_s = 240 # a busy machine takes long to start a worker
[stages.gemm]
settle_s.quick = {settle_s}
measure_s.quick = {measure_s}
[stages.sustained]
settle_s.quick = {settle_s}
length_s.quick = {sustained_s}
[stages.pattern]
length_s.quick = {pattern_s}
cpu_mib = 2
[stages.transfer]
length_s.quick = 0
[stages.collective] # another process for each device, which loads torch; nothing here is about it
length_s.quick = 0
[stages.training]
length_s.quick = {training_s}
[levels]
round_s.quick = 0.05
[[nodes]]
name = "here"
"""
DEVICE = """
[[nodes.gpus]]
sku = "unknown"
"""
GPU = "gemm_size = 8192\nvram_gib_per_worker = {gpu_gib}\n"
CPU = 'device = "cpu"\ngemm_size = 256\nvram_gib_per_worker = {cpu_gib}\ncpus_per_worker = 0.5\n'
# Why a test may be skipped in CI, too; see tests/conftest.py.
TOO_FEW_GPUS = "this machine has too few NVIDIA GPUs"


def gpus_here() -> int:
    """How many NVIDIA GPUs the driver has on this machine."""
    return sum(1 for _ in Path("/proc/driver/nvidia/gpus").glob("*"))


LATER = (
    "training" if gpus_here() >= 2 else "pattern"
)  # a stage after the sustained one; training takes CPUs long


def needs_gpus(number: int, found: int | None = None) -> pytest.MarkDecorator:
    """Skips a test where there are fewer, of which `found` were; by default as many as the driver has."""
    found = gpus_here() if found is None else found
    return pytest.mark.skipif(found < number, reason=f"{TOO_FEW_GPUS}: {found} of {number}")


def two_devices(
    folder: Path,
    *,
    sustained_s: float = 8,
    later_s: float = 0,
    stall_s: float = 10,
    gpu_gib: float = 64,
    cpus: int = 2,
    cpu_gib: float = 0.25,
) -> tuple[str, tuple[str, ...]]:
    """The option that names it, written into `folder`, and the subjects.

    `later_s` is the length of the stage LATER, `gpu_gib` or `cpu_gib` a worker's memory, `cpus` how many
    devices there are where there are no two GPUs.
    """
    gpu = gpus_here() >= 2
    count, kind = (2, "gpu") if gpu else (cpus, "cpu")
    device = DEVICE + (GPU.format(gpu_gib=gpu_gib) if gpu else CPU.format(cpu_gib=cpu_gib))
    text = PROFILE.format(
        sustained_s=sustained_s,
        training_s=later_s if gpu else 0,
        pattern_s=0 if gpu else later_s,
        stall_s=stall_s,
        settle_s=1 if gpu else 0.3,
        measure_s=1.5 if gpu else 0.5,  # a GPU's clock is judged over a second or more
    )
    path = folder / "two-devices.toml"
    path.write_text(text + count * device)
    return f"--hwprofile={path}", tuple(f"here/{kind}{index}" for index in range(count))
