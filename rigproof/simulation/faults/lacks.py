"""What a rig or a card may lack so that a fault could not be noticed there: each says what, or is empty."""

from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.simulation.faults.kinds import Lacks

WITHOUT_PEER = "the rig has no other GPU of that SKU"


def unstated(key: str) -> Lacks:
    """Lacks the limit `limits.<key>` in its profile."""

    def lacks(_loaded: LoadedRig, device: PromisedDevice) -> str:
        return "" if getattr(device.limits, key) is not None else f"no limits.{key}"

    return lacks


def unreported(sensor: str, why: str) -> Lacks:
    """Lacks the sensor, according to the SKU file; `why` is the text."""

    def lacks(_loaded: LoadedRig, device: PromisedDevice) -> str:
        return why if device.sku is not None and sensor in device.sku.unsupported_sensors else ""

    return lacks


def no_peer(loaded: LoadedRig, device: PromisedDevice) -> str:
    """Lacks another card of that SKU."""
    alike = [other for other in loaded.devices() if other.sku_stem == device.sku_stem]
    return "" if sum(other.gpu.device == "cuda" for other in alike) > 1 else WITHOUT_PEER
