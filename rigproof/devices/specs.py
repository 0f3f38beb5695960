"""A worker's task in a stage: plain data, so that the driver needs no torch to create it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device


@dataclass(frozen=True, slots=True)
class Spec(ABC):
    """A worker's task in the stage of that name; each stage has its own class."""

    stage: str

    @abstractmethod
    def run(self, device: Device, context: WorkerContext) -> None:
        """Do the task until it is done or `context.stopped()`; imports the stage's workload, and so torch.

        Raises ValueError if the device cannot do it, MemoryError if the memory does not suffice, and
        torch's own error for a failed device.
        """
