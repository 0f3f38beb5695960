"""The workload of training together: each worker's rank trains in a process of its own."""

from typing import Any

from rigproof.devices.device import Device
from rigproof.devices.own_process import serve_apart
from rigproof.devices.process_group import meeting_place
from rigproof.devices.rank import run_rank
from rigproof.devices.specs import WorkerContext
from rigproof.stages.ddp.stage import DdpSpec, Gradients

MODULE = "rigproof.stages.ddp.workload"
START_S = 120.0  # to import torch on a busy host
JOIN_S = 120.0
PART_S = 60.0  # beside a part's own length: an exchange over a slow link, the first use of a kernel


def run_ddp(spec: DdpSpec, device: Device, context: WorkerContext) -> None:
    """Train with the other ranks of the crew, or report how far this rank came."""
    device.empty_cache()
    with meeting_place(context.crew):
        most_s = spec.duration_s + spec.overtime_s
        run_rank(MODULE, spec, context, first_s=START_S, most_s=most_s, records=(Gradients,))


def _serve(spec: DdpSpec, context: WorkerContext) -> None:
    """The rank's process. torch is imported here: the worker has it, too, but not its process groups."""
    from torch import distributed  # noqa: PLC0415 - only this process needs it

    from rigproof.devices.opening import open_device  # noqa: PLC0415 - it loads torch
    from rigproof.devices.process_group import Place, Steps, join  # noqa: PLC0415
    from rigproof.stages.ddp.training import Rank  # noqa: PLC0415

    class Peers:
        """The other ranks, through the group."""

        rank, size = context.crew.rank, context.crew.size

        def told(self, what: str, value: Any) -> list[Any]:
            """What each rank told."""
            found: list[Any] = [None] * self.size
            with steps.step(what, 0, PART_S):
                distributed.all_gather_object(found, value)
            return found

    device = open_device(spec.device, spec.threads)
    steps = Steps(PART_S + spec.duration_s)
    join(context.crew, Place(spec.backend, spec.threads), steps, JOIN_S)
    Rank(spec, device, context, Peers(), steps).train()


if __name__ == "__main__":
    serve_apart(_serve, DdpSpec)
