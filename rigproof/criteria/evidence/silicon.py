"""What a device's silicon can do at a clock: a floor for models never measured, a ceiling for all."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.sku import Architecture, Sku, tflops

# NVML's highest clock does not include an offset set by the owner; owners report up to 350 MHz on a 3090.
OVERCLOCK_RATIO = 1.15

# NVML's brands of vGPUs, slices of a card that a hypervisor provides; its virtualization mode shows it too.
VGPU_BRANDS = ("grid", "nvidia_vapps", "nvidia_vpc", "nvidia_vcs", "nvidia_vws", "nvidia_cloud_gaming")


@dataclass(frozen=True)
class Silicon:
    """The silicon of a device that was found, according to NVML, its workers and the profile.

    `brand`, `virtualization` and `found_capability` are NVML's. `reported_sms`: the most streaming
    multiprocessors that a worker reported. `highest_mhz` is its highest possible SM clock: NVML's, or that of
    an overclocked card.
    """

    loaded: LoadedRig
    sku_stem: str | None
    ceiling_share: float | None
    brand: str | None
    virtualization: str | None
    found_capability: tuple[int, int] | None
    reported_sms: int | None
    highest_mhz: float | None

    @property
    def sku(self) -> Sku | None:
        """Its SKU; None without a SKU file."""
        return None if self.sku_stem is None else self.loaded.skus[self.sku_stem]

    @property
    def is_vgpu(self) -> bool:
        """Whether it is a slice of a card, whose share of the silicon is not reported."""
        return self.virtualization == "vgpu" or self.brand in VGPU_BRANDS

    @cached_property
    def capability(self) -> str | None:
        """The compute capability according to NVML, else to the SKU file."""
        found, sku = self.found_capability, self.sku
        if found is not None:
            return f"{found[0]}.{found[1]}"
        return None if sku is None else sku.compute_capability

    @cached_property
    def architecture(self) -> Architecture | None:
        """Its entry in the profile; None if there is none."""
        known = self.loaded.rig.architectures
        return next((one for one in known if one.compute_capability == self.capability), None)

    @property
    def sms(self) -> int | None:
        """Streaming multiprocessors: as its workers report, else the SKU file's."""
        if self.reported_sms is not None:
            return self.reported_sms
        return None if self.sku is None else self.sku.sms

    def lowest_fma(self, precision: str) -> tuple[float, str] | None:
        """FMAs per SM and clock, in the rate class that the card has at least, and that class in words."""
        found = self.architecture
        highest = None if found is None else getattr(found.highest, precision, None)
        if found is None or highest is None:
            return None
        lowest = getattr(found.lowest, precision)
        if lowest is None:
            return highest, f"compute capability {self.capability}"
        if self.brand in found.highest_brands:
            return highest, f"compute capability {self.capability}, brand {self.brand}"
        return lowest, f"the lower rate class of compute capability {self.capability}"

    def ceiling(self, precision: str) -> Limit | None:
        """The most that it can do, TFLOP/s: at the highest SM clock, or `ceiling_share` of the printed peak.

        The lower of both counts; None if neither its architecture nor its SKU is known.
        """
        if precision not in self._ceilings:
            known = [one for one in (self._at_highest_clock(precision), self._over_print(precision)) if one]
            self._ceilings[precision] = min(known, key=lambda one: one.value, default=None)
        return self._ceilings[precision]

    @cached_property
    def _ceilings(self) -> dict[str, Limit | None]:
        return {}

    @property
    def highest_gbps(self) -> Limit | None:
        """The most that any clock of its memory allows, GB/s; None without a SKU file."""
        sku, share = self.sku, self.ceiling_share
        if sku is None or share is None:
            return None
        source = f"{share:g} × the printed bandwidth of hwprofiles/gpus/{self.sku_stem}.toml"
        return Limit(share * sku.memory_bandwidth_gbps, source)

    def _at_highest_clock(self, precision: str) -> Limit | None:
        found, sms, clock_mhz = self.architecture, self.sms, self.highest_mhz
        fma = None if found is None else getattr(found.highest, precision, None)
        if fma is None or sms is None or clock_mhz is None or clock_mhz <= 0 or self.is_vgpu:
            return None
        return Limit(
            tflops(fma, sms, clock_mhz),
            f"{sms} SMs of compute capability {self.capability} at {clock_mhz:.0f} MHz",
        )

    def _over_print(self, precision: str) -> Limit | None:
        sku, share = self.sku, self.ceiling_share
        peak = None if sku is None else getattr(sku.peak_tflops, precision, None)
        if peak is None or share is None:
            return None
        return Limit(peak * share, f"{share:g} × the printed peak of hwprofiles/gpus/{self.sku_stem}.toml")

    def require_possible(self, rates: Iterable[tuple[str, float]]) -> None:
        """NotMeasured if a precision's TFLOP/s are more than the silicon can do."""
        for precision, rate in rates:
            most = self.ceiling(precision)
            if most is not None and rate > most.value:
                raise NotMeasured(
                    f"{rate:.4g} TFLOP/s in {precision} is more than this card can do "
                    f"({most.value:.4g}: {most.source}): a measurement error, not a rate; check the "
                    "machine's clocks, the driver and torch, and run again"
                )
