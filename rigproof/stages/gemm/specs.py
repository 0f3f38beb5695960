"""A worker's task in the gemm stage."""

from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.stages.slice import StageWork


@dataclass(frozen=True, slots=True)
class GemmSpec(Spec):
    """Measure one device's steady GEMM rate, precision by precision.

    If `precisions` is empty, all that the device has. Each precision warms up until its rate
    settles, at most `settle_s` for the first and a quarter of that for the others, then measures for
    `measure_s`.
    """

    size: int
    precisions: tuple[str, ...]
    settle_s: float
    measure_s: float
    round_s: float

    def run(self, device: Device, context: WorkerContext) -> None:
        """Measure each precision."""
        from rigproof.stages.gemm.workload import run_gemm  # noqa: PLC0415 - it needs torch

        run_gemm(self, device, context)


def specs(work: StageWork) -> dict[str, Spec]:
    """One worker of each device measures every precision that the device has."""
    plan, stage = work.plan, work.stage
    return {
        worker.worker: GemmSpec(
            stage=stage.name,
            size=worker.gemm_size,
            precisions=(),
            settle_s=stage.settle_s,
            measure_s=stage.measure_s,
            round_s=stage.round_s,
        )
        for worker in plan.first_workers()
    }
