"""A worker's task in a stage: plain data, so that the driver needs no torch to create it."""

from dataclasses import dataclass
from importlib import import_module

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device


@dataclass(frozen=True, slots=True)
class Spec:
    """A worker's task in the stage of that name; each stage has its own class."""

    stage: str

    def run(self, device: Device, context: WorkerContext) -> None:
        """Do the task until it is done or `context.stopped()`: `run_<name>` of the stage's workload.py.

        Only this imports the workload, and so torch. Raises ValueError if the device cannot do it,
        MemoryError if the memory does not suffice, RuntimeError if a process of the task's own fails, and
        torch's own error for a failed device.
        """
        folder = type(self).__module__.rpartition(".")[0]
        work = getattr(import_module(f"{folder}.workload"), f"run_{folder.rpartition('.')[2]}")
        work(self, device, context)
