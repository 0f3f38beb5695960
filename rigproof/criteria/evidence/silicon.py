"""What a device's silicon can do at a clock: the floor of cards that nobody measured, the ceiling of all."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.architecture import Architecture, tflops
from rigproof.records.identity import GpuIdentity, WorkerIdentity

# NVML's highest clock leaves out an offset that the owner set; owners tell of up to 350 MHz on 3090.
OVERCLOCK_RATIO = 1.15

# NVML's brands of a slice of a card that a hypervisor gives out; its mode of virtualization says it too.
VGPU_BRANDS = ("grid", "nvidia_vapps", "nvidia_vpc", "nvidia_vcs", "nvidia_vws", "nvidia_cloud_gaming")


@dataclass(frozen=True)
class Silicon:
    """A device that was found: what it is made of, as NVML, its workers and the profile tell.

    `highest_mhz` is the highest SM clock that it may have: NVML's, or that of an overclocked card.
    """

    device: PromisedDevice
    identity: GpuIdentity
    workers: tuple[WorkerIdentity, ...]
    loaded: LoadedRig
    highest_mhz: float | None

    @property
    def is_vgpu(self) -> bool:
        """Whether it is a slice of a card, whose share of the silicon nobody tells."""
        return self.identity.virtualization == "vgpu" or self.identity.brand in VGPU_BRANDS

    @property
    def capability(self) -> str | None:
        """The compute capability, as NVML or else the SKU file says it."""
        found, sku = self.identity.compute_capability, self.device.sku
        if found is not None:
            return f"{found[0]}.{found[1]}"
        return None if sku is None else sku.compute_capability

    @property
    def architecture(self) -> Architecture | None:
        """Its entry in the profile; None where there is none."""
        known = self.loaded.rig.architectures
        return next((one for one in known if one.compute_capability == self.capability), None)

    @property
    def sms(self) -> int | None:
        """Streaming multiprocessors: those that its workers have, else the SKU file's."""
        told = [worker.sms for worker in self.workers if worker.sms]
        if told:
            return max(told)
        return None if self.device.sku is None else self.device.sku.sms

    def lowest_fma(self, precision: str) -> tuple[float, str] | None:
        """Of an SM in a clock, in the rate class that the card surely has, and which class that is."""
        found = self.architecture
        highest = None if found is None else getattr(found.highest, precision, None)
        if found is None or highest is None:
            return None
        lowest = getattr(found.lowest, precision)
        if lowest is None:
            return highest, f"compute capability {self.capability}"
        if self.identity.brand in found.highest_brands:
            return highest, f"compute capability {self.capability}, brand {self.identity.brand}"
        return lowest, f"the lower rate class of compute capability {self.capability}"

    def ceiling(self, precision: str) -> Limit | None:
        """The most that it can do, TFLOP/s: at the highest SM clock, and a share of what is printed.

        None where neither its architecture nor its SKU is known.
        """
        if precision not in self._ceilings:
            known = [one for one in (self._at_highest_clock(precision), self._over_print(precision)) if one]
            self._ceilings[precision] = min(known, key=lambda one: one.value, default=None)
        return self._ceilings[precision]

    @cached_property
    def _ceilings(self) -> dict[str, Limit | None]:
        return {}

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
        sku, share = self.device.sku, self.device.limits.ceiling_share
        peak = None if sku is None else getattr(sku.peak_tflops, precision, None)
        if peak is None or share is None:
            return None
        return Limit(
            peak * share, f"{share:g} × the printed peak of hwprofiles/gpus/{self.device.sku_stem}.toml"
        )

    def require_possible(self, rates: Iterable[tuple[str, float]]) -> None:
        """NotMeasured where a precision's TFLOP/s are more than the silicon can do."""
        for precision, rate in rates:
            most = self.ceiling(precision)
            if most is not None and rate > most.value:
                raise NotMeasured(
                    f"{rate:.4g} TFLOP/s in {precision} are more than this card can do "
                    f"({most.value:.4g}: {most.source}): a measurement error, not a rate; check the "
                    "clocks of the machine, the driver and torch, and run again"
                )
