"""The kinds of figures that stages measure: keys of a SKU file's [steady], most of them also of [floors]."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from rigproof.profiles.tables.sku import Figure, Sku
from rigproof.records.measurements import Labels

# Looks up the printed peak that a figure or a floor is compared with. Takes the SKU and the SKU file's
# figure; None in place of the figure means that a rig's floor is compared. Returns the peak's key in the SKU
# file and its value, in the figure's unit; the value is None if the file does not state it.
Peak = Callable[[Sku, Figure | None], tuple[str, float | None]]

# TFLOP/s that every device of a kind reaches: what floors are checked against if there is no SKU file.
# The slowest GPUs that CUDA 12 runs on (compute capability 5.0, GeForce 830M: 256 FMA at 1.15 GHz) have 0.59.
SLOWEST_TFLOPS: Mapping[str, float] = {
    "cuda": 0.5,
    "cpu": 0.002,  # one core at 1 GHz with one FMA per cycle
}


@dataclass(frozen=True, slots=True, eq=False)
class FigureKind:
    """A rate or ratio that a stage measures, and how floors are made from it.

    - `name`: the key of the figure in [steady] and of its floor in [floors]. It ends in the unit, if any.
    - `description`, `unit`: for the tables of keys and for sentences.
    - `floor`: whether a rig may state a floor for it. Runs then keep its best value as a champion.
    - `precision`: of the work's operands. A run may measure another one; before a run this one is assumed.
    - `products`: the figure is the rate of plain matrix products in `precision`. It takes the place of
      figures that have a `stand_in`, and simulated cards work at this rate.
    - `own_size`: the stage sizes its work by the card, not by the plan's `gemm_size`.
    - `peak`: finds the printed peak that the SKU file's figure and the rig's floor are checked against.
    - `lowest_share`: of that peak (or of `slowest`). A floor below it could never fail, and neither could one
      made from a figure below it.
    - `bounds`: lowest and highest value that a SKU file may state, for a figure without a printed peak.
    - `slowest`: the rate that every device reaches, by kind of device, to check floors of devices without a
      SKU file. None: such floors are not checked.
    - `conditions`: the keys that a measured figure must state in a SKU file besides size, workers and torch.
    - `stand_in`: in what plain products differ from this work, in words. If it is not empty and the SKU file
      has no such figure (or only one of another precision), the figure of plain products is used instead.
    - `larger`: what a figure is worth here if the SKU file's was measured with a larger size or batch.
      "similar": a measured one under slightly different conditions. "printed": no more than a printed one.
      "no_floor": it gives no floor.
    - `scaled`: the figure falls with the power limit and with more workers on the card, and its floor with
      it.
    - `architecture`: if no figure is known, the floor is a share of what the card's architecture does at the
      measured clock.
    - `otherwise`: what else its criterion makes a floor from if no figure is known, for the plan's text.
    - `labels`: the labels of the rounds that the figure is made from, if its stage measures several figures.
    """

    name: str
    description: str
    unit: str = "TFLOP/s"
    floor: bool = True
    precision: str = "bf16"
    products: bool = False
    own_size: bool = False
    peak: Peak | None = None
    bounds: tuple[float, float] | None = None
    lowest_share: float = 0.30
    slowest: Mapping[str, float] | None = None
    conditions: tuple[str, ...] = ()
    stand_in: str = ""
    larger: Literal["similar", "printed", "no_floor"] = "similar"
    scaled: bool = True
    architecture: bool = True
    otherwise: str = ""
    labels: Labels = field(default_factory=dict)

    @property
    def counts_work(self) -> bool:
        """Whether the figure is a rate of arithmetic, so that the silicon's highest clock sets a ceiling."""
        return self.unit == "TFLOP/s"


def peak_of(precision: str) -> Peak:
    """A `FigureKind.peak` that looks up the printed peak of one precision, TFLOP/s."""
    return partial(_peak, precision)


def _peak(precision: str, sku: Sku, _figure: Figure | None) -> tuple[str, float | None]:
    return f"peak_tflops.{precision}", getattr(sku.peak_tflops, precision)


def peak_16bit(sku: Sku, figure: Figure | None) -> tuple[str, float | None]:
    """A `FigureKind.peak` for figures that are measured in fp16 or bf16, TFLOP/s.

    For a SKU file's figure it is the peak of the precision that the figure states (bf16 if it states none),
    for a rig's floor the higher one of the two peaks.
    """
    if figure is not None:
        return peak_of(figure.precision or "bf16")(sku, figure)
    known = [peak for peak in (sku.peak_tflops.bf16, sku.peak_tflops.fp16) if peak is not None]
    return "peak_tflops.bf16", max(known, default=None)
