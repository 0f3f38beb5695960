"""How fast is each precision, by verified work over time?"""

from typing import NoReturn

from rigproof.criteria.criterion import Criterion, Finding, NotApplicable, NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.floors import FLOOR_LIMITS, FLOORS, SLOW, Measured, against
from rigproof.criteria.evidence.rates import precision_rate
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS
from rigproof.criteria.evidence.slowed import slowed_by
from rigproof.profiles.loading.loaded import PromisedDevice
from rigproof.profiles.tables.sku import PRECISIONS, Precision
from rigproof.records.verdict import count_of
from rigproof.stages.gemm.stage import FIGURES
from rigproof.stages.tables import without_tables

NEWEST: Precision = "fp8"  # which torch multiplies from 2.1 on, and on fewer cards than have it


def _gemm(precision: Precision) -> Criterion:
    def promised(device: PromisedDevice) -> bool:
        """Decided before the run: the precisions in the SKU file, or all without a SKU file."""
        return device.sku is None or getattr(device.sku.peak_tflops, precision) is not None

    def gemm(device: DeviceEvidence) -> Finding:
        done = precision_rate(device, precision)
        if done is None or len(done.rounds) < FEWEST_ROUNDS:
            _raise_without_rounds(device, precision, 0 if done is None else len(done.rounds))
        measured = Measured.of(device, FIGURES[precision], precision, workers=1, rounds=done.rounds)
        return against(device, done.tflops, measured, over=done.rounds)

    gemm.__doc__ = (
        f"Verified {precision} matrix products in the steady state: their work over time by the device's own "
        "clock, without the slowest tenth of the rounds."
    )
    return Criterion(
        f"throughput.gemm_{precision}",
        title=f"{precision} matmul",
        unit="TFLOP/s",
        direction="at_least",
        limit=FLOORS,
        limits=FLOOR_LIMITS,
        severity="isolate",
        remedy=SLOW,
        unmeasured="too few verified rounds of this precision; not applicable if an unknown device lacks it, "
        "or torch has no fp8 on this device",
        idling="not measured",
        stages=("gemm",),
        holds_for=promised,
        rate=True,
        figures=(FIGURES[precision],),
        caused_by_others=slowed_by,
    )(gemm)


def _raise_without_rounds(device: DeviceEvidence, precision: str, number: int) -> NoReturn:
    device.evidence.stage("gemm")
    supported = {each for worker in device.workers for each in worker.precisions}
    if supported and precision not in supported:
        if precision == NEWEST:  # the card may have it, and torch not yet
            raise NotApplicable(f"this torch multiplies no {precision} on this device")
        raise (NotMeasured if device.device.sku else NotApplicable)(f"this device has no {precision}")
    raise device.unmeasured(f"{count_of(number, 'verified rounds')} of {precision}")


CRITERIA = tuple(map(_gemm, PRECISIONS))

tables = without_tables
