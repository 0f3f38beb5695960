"""A short profile of two devices: GPUs where this machine has two, else the CPU twice."""

from pathlib import Path

PROFILE = """
name = "two-devices"
[cpu]
enabled = false # two workers on two CPUs leave no band to hold
[timeouts]
stall_s = 10
task_s = 60
start_s = 240 # a busy machine takes long to start a worker
[levels.quick]
gemm_settle_s = 1
gemm_measure_s = 0.5
sustained_s = {sustained_s}
training_s = {training_s}
round_s = 0.05
[[nodes]]
name = "here"
[[nodes.gpus]]
{device}
[[nodes.gpus]]
{device}
"""
GPU = 'sku = "unknown"\ngemm_size = 8192\nvram_gib_per_worker = {gpu_gib}'
CPU = 'sku = "unknown"\ndevice = "cpu"\ngemm_size = 256\nvram_gib_per_worker = 0.25'


def gpus_here() -> int:
    """How many NVIDIA GPUs the driver has on this machine."""
    return sum(1 for _ in Path("/proc/driver/nvidia/gpus").glob("*"))


def two_devices(
    folder: Path, *, sustained_s: float = 8, training_s: float = 0, gpu_gib: float = 64
) -> tuple[str, tuple[str, str]]:
    """The option that names it, written into `folder`, and the two subjects; `gpu_gib` is a worker's VRAM."""
    gpu = gpus_here() >= 2
    device = GPU.format(gpu_gib=gpu_gib) if gpu else CPU
    path = folder / "two-devices.toml"
    path.write_text(PROFILE.format(sustained_s=sustained_s, training_s=training_s, device=device))
    kind = "gpu" if gpu else "cpu"
    return f"--hwprofile={path}", (f"here/{kind}0", f"here/{kind}1")
