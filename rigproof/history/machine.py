"""The rig's identity as pytest-benchmark's machine info, instead of this computer's CPU."""

from typing import Any

from rigproof.profiles.loading.loaded import LoadedRig


def machine_info(loaded: LoadedRig, *, simulated: bool) -> dict[str, Any]:
    """The rig and the cards that its profile promises: equal for two runs that can be compared.

    pytest-benchmark compares it before the first card has been looked at, so what a run finds is no part of
    it; the cards found, drivers, torch and clocks are in each benchmark's extra info.
    """
    devices = {
        device.subject: {"sku": device.gpu.sku, "uuid": device.gpu.uuid} for device in loaded.devices()
    }
    return {"rig": loaded.rig.name, "simulated": simulated, "devices": devices}
