"""Runs whichever workload a worker is told to."""

from rigproof.workloads.context import WorkerContext
from rigproof.workloads.device import Device
from rigproof.workloads.feeding import run_feeding
from rigproof.workloads.gemm import run_gemm
from rigproof.workloads.reporting import Reporter
from rigproof.workloads.sharing import run_sharing
from rigproof.workloads.specs import (
    FeedingSpec,
    GemmSpec,
    SharingSpec,
    SustainedSpec,
    TrainingSpec,
    WorkloadSpec,
)
from rigproof.workloads.sustained import run_sustained
from rigproof.workloads.training import run_training


def run_workload(spec: WorkloadSpec, device: Device, context: WorkerContext) -> None:
    """Do what `spec` says until it is done or `context.stopped()`; records go to `context.emit`.

    The last record is the memory after all of the workload's own was freed, with the peak that it
    reached; it comes after an error too. Raises ValueError for a spec that the device cannot do,
    MemoryError where the memory does not suffice, and what torch raises for a failed device.
    """
    device.reset_peak()
    try:
        match spec:
            case GemmSpec():
                run_gemm(spec, device, context)
            case SustainedSpec():
                run_sustained(spec, device, context)
            case TrainingSpec():
                run_training(spec, device, context)
            case FeedingSpec():
                run_feeding(spec, device, context)
            case SharingSpec():
                run_sharing(spec, device, context)
    finally:
        device.empty_cache()
        Reporter(context, spec.stage).memory(device)
