"""What a rig or a card may lack so that a fault could not be noticed there: each says what, or is empty."""

from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.simulation.faults.kinds import Lacks

WITHOUT_PEER = "the rig has no other GPU of that SKU"


def unstated(key: str) -> Lacks:
    """Lacks the limit `limits.<key>` in its profile."""

    def lacks(loaded: LoadedRig, device: PromisedDevice | None) -> str:
        limits = device.limits if device is not None else loaded.rig.limits
        return "" if getattr(limits, key) is not None else f"no limits.{key}"

    return lacks


def unreported(sensor: str, why: str) -> Lacks:
    """Lacks the sensor, according to the SKU file; `why` is the text."""

    def lacks(_loaded: LoadedRig, device: PromisedDevice | None) -> str:
        sku = device.sku if device is not None else None
        return why if sku is not None and sensor in sku.unsupported_sensors else ""

    return lacks


def no_peer(loaded: LoadedRig, device: PromisedDevice | None) -> str:
    """Lacks another card of that SKU."""
    if device is None:
        return WITHOUT_PEER
    alike = [other for other in loaded.devices() if other.sku_stem == device.sku_stem]
    return "" if sum(other.gpu.device == "cuda" for other in alike) > 1 else WITHOUT_PEER
