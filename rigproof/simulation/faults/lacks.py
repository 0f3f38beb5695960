"""What a rig or a card must have for a fault to be noticed there: each answers why it is not so, in words."""

from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.simulation.faults.kinds import Lacks


def unstated(key: str) -> Lacks:
    """Where the profile states no such limit."""

    def lacks(loaded: LoadedRig, device: PromisedDevice | None) -> str:
        limits = device.limits if device is not None else loaded.rig.limits
        return "" if getattr(limits, key) is not None else f"no limits.{key}"

    return lacks


def unreported(sensor: str, why: str) -> Lacks:
    """Where the SKU file says that the driver reports no such sensor."""

    def lacks(_loaded: LoadedRig, device: PromisedDevice | None) -> str:
        sku = device.sku if device is not None else None
        return why if sku is not None and sensor in sku.unsupported_sensors else ""

    return lacks


def no_peer(loaded: LoadedRig, device: PromisedDevice | None) -> str:
    """Where the rig has no other card of that SKU."""
    alike = [one for one in loaded.devices() if device is not None and one.sku_stem == device.sku_stem]
    cuda = [one for one in alike if one.gpu.device == "cuda"]
    return "" if len(cuda) > 1 else "the rig has no other GPU of that SKU"
