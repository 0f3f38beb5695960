"""What is found on one host, before any rig profile is chosen."""

from dataclasses import dataclass

from rigproof.records.identity import GpuIdentity


@dataclass(frozen=True, slots=True)
class HostInventory:
    """One host as found. `gpus` is in NVML order; their subjects are `<hostname>/gpuN`."""

    hostname: str
    cpus: float  # usable: the cgroup's quota if there is one, else logical CPUs
    ram_gib: float
    driver_version: str | None
    nvml_error: str | None  # why NVML does not answer; None without any GPU: no driver is installed
    gpus: tuple[GpuIdentity, ...]
