"""What is found on one host, before any rig profile is chosen."""

from dataclasses import dataclass

from rigproof.records.identity import GpuIdentity


@dataclass(frozen=True, slots=True)
class HostInventory:
    """One host as found. `gpus` may be used, and are in NVML order; their subjects are `<hostname>/gpuN`.

    `hidden_by`: the setting that hides GPUs here, as `CUDA_VISIBLE_DEVICES=0`, whether or not there are any;
    `hidden`: those that are known to be hidden. `setting_error`: what is wrong with that setting.
    `named_by`: a setting that names GPUs where there is no driver at all.
    """

    hostname: str
    cpus: float  # usable: the cgroup's quota if there is one, else logical CPUs
    ram_gib: float
    driver_version: str | None
    nvml_error: str | None  # why NVML does not answer; None without any GPU: no driver is installed
    gpus: tuple[GpuIdentity, ...]
    hidden: tuple[GpuIdentity, ...] = ()
    hidden_by: str | None = None
    setting_error: str | None = None
    named_by: str | None = None

    @property
    def all_hidden(self) -> bool:
        """Whether a setting hides every GPU on purpose, so that it does not matter which are there."""
        return self.hidden_by is not None and not self.gpus and self.setting_error is None

    @property
    def doubt(self) -> str | None:
        """Why `gpus` may not be all that are meant to be used, and what to do; None if there is no doubt."""
        return self.setting_error or (None if self.all_hidden else self.nvml_error)
