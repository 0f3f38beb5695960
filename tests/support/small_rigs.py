"""Profiles of the CPU as the device, with stages as short as a fault needs them."""

from pathlib import Path

HEAD = """
name = "small"
[cpu]
enabled = {band}
[responsiveness] # this machine may be busy, and so below: as wide as the profile's checks let them be
p99_ms = 1000
max_ms = 10_000
[limits]
active_work_share = 0.5
sample_coverage_share = 0.2
[timeouts]
stall_s = {stall_s}
task_s = 60
start_s = 240 # a busy machine takes long to start a worker
stop_s = 8
[stages.gemm]
settle_s.quick = 0.2
measure_s.quick = {gemm_s}
[stages.sustained]
settle_s.quick = 0.2
length_s.quick = {sustained_s}
[stages.pattern]
length_s.quick = 0
[stages.collective] # another process for each device, which loads torch; nothing here is about it
length_s.quick = 0
[stages.training]
length_s.quick = {training_s}
batches = [1]
batch = 1
search = false
sequence = 64
[stages.feeding]
length_s.quick = {feeding_s}
completions = 8
processes = 1
[stages.sharing]
length_s.quick = {sharing_s}
workers = [1, 2]
[levels]
round_s.quick = 0.05
[[nodes]]
name = "here"
"""
DEVICE = """
[[nodes.gpus]]
sku = "unknown"
device = "cpu"
gemm_size = 128
vram_gib_per_worker = 0.01
cpus_per_worker = 0.25
"""


# Of gemm for each precision: under 1 s of load in all nothing can be judged.
LENGTHS_S = {"gemm_s": 0.6, "sustained_s": 1, "training_s": 0, "feeding_s": 0, "sharing_s": 0}


def small_rig(
    folder: Path, *, devices: int = 1, stall_s: float = 30, band: bool = False, **lengths_s: float
) -> str:
    """The option that names such a profile, written into `folder`; its devices are here/cpu0, cpu1, …

    `lengths_s`: of stages, by the names in LENGTHS_S.
    """
    assert lengths_s.keys() <= LENGTHS_S.keys()
    path = folder / "small.toml"
    head = HEAD.format(band=str(band).lower(), stall_s=stall_s, **LENGTHS_S | lengths_s)
    path.write_text(head + devices * DEVICE)
    return f"--hwprofile={path}"
