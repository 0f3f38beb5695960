"""The rig's identity as pytest-benchmark's machine info, instead of this computer's CPU."""

from typing import Any

from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.recording import Recording


def machine_info(source: Recording | LoadedRig) -> dict[str, Any]:
    """The rig and its cards: these must be the same for two measurements to be comparable.

    Drivers, torch and clocks change between runs of one rig, so they are in each benchmark's extra info.
    A Recording names the cards that were found, a profile those that it promises.
    """
    if isinstance(source, LoadedRig):
        devices = {
            device.subject: {"sku": device.gpu.sku, "uuid": device.gpu.uuid} for device in source.devices()
        }
        return {"rig": source.rig.name, "simulated": False, "devices": devices}
    found = {
        subject: {"name": gpu.name, "sku": gpu.sku, "uuid": gpu.uuid}
        for subject, gpu in sorted(source.gpus.items())
    }
    return {"rig": source.run.rig.get("name"), "simulated": source.run.simulated, "devices": found}
