"""Runs a worker's task."""

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import Spec


def run_workload(spec: Spec, device: Device, context: WorkerContext) -> None:
    """Do the task of `spec` until it is done or `context.stopped()`; records go to `context.emit`.

    The last record is the memory after the workload's own was freed, with the peak that it
    reached; it is also emitted after an error. Raises what `Spec.run` does.
    """
    device.reset_peak()
    try:
        spec.run(device, context)
    finally:
        device.empty_cache()
        Reporter(context, spec.stage).memory(device)
