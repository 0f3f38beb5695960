"""The figures that stages measure on a card: keys of a SKU file's [steady] and of a GPU's [floors]."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from rigproof.profiles.tables.models import Sku
from rigproof.profiles.tables.steady import Figure
from rigproof.records.measurements import Labels

# A printed peak of a card: its key in the SKU file, and its value where the file has one. `figure`: the
# file's figure that is compared with it; None: a rig's floor is.
Peak = Callable[[Sku, Figure | None], tuple[str, float | None]]

# Rates that every device reaches, for cards without a SKU file, TFLOP/s.
# The slowest GPUs that CUDA 12 runs on (compute capability 5.0, GeForce 830M: 256 FMA at 1.15 GHz) have 0.59.
SLOWEST_TFLOPS: Mapping[str, float] = {
    "cuda": 0.5,
    "cpu": 0.002,  # one core at 1 GHz with one FMA per cycle
}


@dataclass(frozen=True, slots=True, eq=False)
class FigureKind:
    """One figure. `name` is its key in both files and ends in its unit.

    `labels`: the values of its stage's labels that its rounds have, if the stage measures several figures.
    `floor`: a rig may state one of its own, and runs keep their best as a champion.
    `precision`: what the work is done in, where nothing else says so. `products`: plain products in it, the
    rate that other work of the card goes by. `own_size`: the work is sized from the card, not by `gemm_size`.
    `peak`: what it is held against, and `lowest_share` of it is the least that such a figure can be; without
    one it has `bounds`. `slowest`: what any device reaches, by its kind.
    `conditions`: what a measured one states beside size, workers and torch.
    `stand_in`: where the SKU file has none, that of plain products counts, which differs so.
    `larger`: what a figure of larger work (size, batch) says of the work that is done here: as much, with the
    difference (`similar`), as much as a print, or no floor at all.
    `architecture`: where no figure is known, what the architecture does at the measured clock gives a floor.
    `scaled`: it falls with the power limit, and with the workers on the card.
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
    labels: Labels = field(default_factory=dict)

    @property
    def counts_work(self) -> bool:
        """Whether it is a rate of multiplications, which the silicon bounds."""
        return self.unit == "TFLOP/s"


def peak_of(precision: str) -> Peak:
    """The printed peak of one precision."""
    return partial(_peak, precision)


def _peak(precision: str, sku: Sku, _figure: Figure | None) -> tuple[str, float | None]:
    return f"peak_tflops.{precision}", getattr(sku.peak_tflops, precision)


def peak_16bit(sku: Sku, figure: Figure | None) -> tuple[str, float | None]:
    """That of the precision that a figure is of, bf16 where it does not say; for a floor the better one."""
    if figure is not None:
        return peak_of(figure.precision or "bf16")(sku, figure)
    known = [peak for peak in (sku.peak_tflops.bf16, sku.peak_tflops.fp16) if peak is not None]
    return "peak_tflops.bf16", max(known, default=None)
