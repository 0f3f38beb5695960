"""What a worker is told to do in a stage: plain data, so that the driver needs no torch to say it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device


@dataclass(frozen=True, slots=True)
class Spec(ABC):
    """One worker's task in the stage of that name. Each stage has its own."""

    stage: str

    @abstractmethod
    def run(self, device: Device, context: WorkerContext) -> None:
        """Do it until it is done or `context.stopped()`; imports the stage's workload, and torch with it.

        Raises ValueError for what the device cannot do, MemoryError where the memory does not suffice, and
        what torch raises for a failed device.
        """
