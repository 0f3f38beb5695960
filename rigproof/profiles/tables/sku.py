"""A GPU model, as its SKU file in hwprofiles/gpus states it, and the rates of a whole architecture."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from rigproof.profiles.tables.base import AtLeastOne, GemmSize, Positive, Share, Table, Whole, optional

Count = Annotated[int, Field(gt=0, le=1_000_000, strict=True)]


class Figure(Table):
    """One figure and its evidence. Without `cards` it is from a data sheet, or reported by others."""

    value: Positive = Field(
        description="The figure, in the unit that its name ends in (a speed-up: times as fast). If it was "
        "measured: the middle of all cards."
    )
    range: tuple[Positive, Positive] | None = optional("Lowest and highest figure of all runs and cards.")
    cards: Count | None = optional(
        "Number of cards on which rigproof measured it; then `size`, `workers` and `torch` are "
        "required. Left out: it was not measured, and only `value` is stated."
    )
    runs: Count | None = optional("Number of runs in which they were measured.")
    spread: Share | None = optional(
        "Standard deviation of a run of any such card, as a share of `value`; from two cards on. Left out: "
        "it is not known, and nothing says how far a sound card may be from `value`."
    )
    size: GemmSize | None = optional(
        "How it was measured: M = N = K of the products, the width of the trained model, or the "
        "side of the square fp32 buffer."
    )
    workers: AtLeastOne | None = optional("How it was measured: number of processes on the card.")
    torch: str | None = Field(
        default=None,
        pattern=r"^\d+\.\d+$",
        description='How it was measured: version of torch, such as "2.11".',
    )
    precision: Literal["fp32", "tf32", "fp16", "bf16"] | None = optional(
        "How it was measured: the precision, for a figure whose name does not say it."
    )
    batch: AtLeastOne | None = optional("How it was measured: examples in a training step.")


class SteadyFigures(Table):
    """Rates that the model sustains when hot, at its default power limit. One that is left out is not known.

    The stages declare which figures there are.
    """

    products: ClassVar[Mapping[str, str]] = {}  # by precision: the name of the figure of plain products

    def figure(self, name: str) -> Figure | None:
        """The figure of that name; None if it is not known."""
        return getattr(self, name, None)

    def of_products(self, precision: str) -> Figure | None:
        """The figure of plain matrix products in a precision; None if it is not known."""
        return self.figure(self.products.get(precision, ""))


Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class Rates(Table):
    """Rates in TFLOP/s, by precision. A precision that is left out is not known, or not supported."""

    fp32: Positive | None = optional("Without tensor cores.")
    tf32: Positive | None = optional("fp32 operands on tensor cores.")
    fp16: Positive | None = optional("fp16 operands, accumulated in 32 bits.")
    bf16: Positive | None = optional("bf16 operands, accumulated in 32 bits.")
    fp8: Positive | None = optional("fp8 operands, accumulated in 32 bits.")


class PowerPoint(Table):
    """One measured point of a SKU's power curve."""

    limit_share: Share = Field(description="The enforced power limit, as a share of the default one.")
    rate_share: Share = Field(
        description="The steady rate under that limit, as a share of the rate under the default one."
    )


class TemperatureLimits(Table):
    """In °C, from the maker's documents or NVML. What NVML reports during a run takes precedence."""

    max_operating_c: Positive | None = optional(
        "Highest core temperature that the maker allows in use, in °C."
    )
    slowdown_c: Positive | None = optional("Core temperature at which the card lowers its clocks, in °C.")
    shutdown_c: Positive | None = optional("Core temperature at which the card switches itself off, in °C.")
    slowdown_margin_c: Annotated[float, Field(le=0, ge=-50, strict=True)] | None = optional(
        "Thermal margin (NVML's T.Limit) at which the card lowers its clocks, in °C: 0 or less. "
        "A card whose file states it must report its margin. Left out: it is judged if it reports one."
    )
    memory_max_c: Positive | None = optional(
        "Highest memory temperature that the maker allows in use, in °C."
    )


class GroupRate(Table):
    """What cards of the model, all on one node, reach together in a collective operation."""

    operation: str = Field(description="The operation, such as `all_reduce`.")
    gpus: AtLeastOne = Field(description="Number of GPUs.")
    mib: AtLeastOne = Field(description="Size of the operation, in MiB.")
    gbps: Positive = Field(description="Bus bandwidth as nccl-tests counts it, in GB/s.")


class Sku(Table):
    """One GPU model: `hwprofiles/gpus/<sku>.toml`, the SKU file."""

    name: str = Field(description="The model's common name.")
    nvml_names: tuple[str, ...] = Field(
        min_length=1,
        description="Names under which NVML lists the model; upper and lower case are the same. If several "
        "models fit a card, the longest name wins.",
    )
    memory_gib: Positive = Field(description="Memory of the card, in GiB.")
    memory_bandwidth_gbps: Positive = Field(
        description="Memory bandwidth that the data sheet states, in GB/s."
    )
    power_limit_w: Positive = Field(description="The card's default power limit, in W.")
    compute_capability: str | None = optional(
        'CUDA compute capability, such as "9.0". Used if NVML does not report it.'
    )
    boost_clock_mhz: Positive | None = optional(
        "SM clock, in MHz, at which the card reaches its printed peak. Left out: the clock "
        "under load is compared with NVML's highest clock."
    )
    sms: AtLeastOne | None = optional(
        "Number of streaming multiprocessors (SMs). Used if the card's workers do not report it."
    )
    peak_tflops: Rates = Field(
        description="Peak rates that the data sheet states, in TFLOP/s, without sparsity."
    )
    steady: SteadyFigures = Field(
        default=SteadyFigures(),
        description="Rates that the model sustains when hot, each with its evidence; floors are shares of "
        "them.",
    )
    power_curve: tuple[PowerPoint, ...] = Field(
        default=(),
        description="How the steady rate falls with the power limit, lowest limit first. Left out: in "
        "proportion to it.",
    )
    temperature: TemperatureLimits = Field(
        default=TemperatureLimits(),
        description="Temperatures that the maker states. What NVML reports for the card takes precedence.",
    )
    unsupported_sensors: tuple[str, ...] = Field(
        default=(),
        description="Sensors that the model's driver does not report, such as `memory_temperature` or "
        "`ecc`. What needs them is not applicable instead of not measured.",
    )
    nvlinks: AtLeastOne | None = optional(
        "Number of NVLinks that every card of the model has. Left out: it has none, or their "
        "number is that of its rig's bridge or board."
    )
    group_rates: tuple[GroupRate, ...] = Field(
        default=(), description="Rates of collective operations, each measured. Left out: none is known."
    )
    pcie_generation: Whole | None = optional(
        "PCIe generation of the card's own link. Only simulated cards use it: "
        "that of a real card is read from NVML."
    )


class FmaRates(Table):
    """Fused multiply-adds of one SM in one clock, accumulated in 32 bits. Left out: none, or not known."""

    fp32: Positive | None = optional("Without tensor cores.")
    tf32: Positive | None = optional("fp32 operands on tensor cores.")
    fp16: Positive | None = optional("fp16 operands.")
    bf16: Positive | None = optional("bf16 operands.")
    fp8: Positive | None = optional("fp8 operands.")


class Architecture(Table):
    """What an SM of one compute capability does in a clock: floors and ceilings of rates follow from it."""

    compute_capability: str = Field(description='CUDA compute capability, such as "8.6".')
    highest: FmaRates = Field(
        description="Rates of the fastest cards of this architecture: the most that any of them can do."
    )
    lowest: FmaRates = Field(
        default=FmaRates(),
        description="Rates of its slower cards, where they differ. A precision that is left out is as in "
        "highest.",
    )
    highest_brands: tuple[str, ...] = Field(
        default=(),
        description="Brands, as NVML reports them, whose cards all have the highest rates. Left out: none.",
    )


def tflops(fma: float, sms: int, clock_mhz: float) -> float:
    """The highest rate of that many SMs at that clock, TFLOP/s: a fused multiply-add is two operations."""
    return fma * sms * 2 * clock_mhz / 1e6
