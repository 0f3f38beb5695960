"""The inventory of this machine if it were the simulated rig."""

from rigproof.profiles.loading.load import load_sku
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.identity import GpuIdentity
from rigproof.records.inventory import HostInventory
from rigproof.simulation.host import DEFAULT_CPUS, DEFAULT_RAM_GIB, default_ram_gib

IN_PLACE_OF_UNKNOWN = "rtx-3090"  # the card to simulate if a rig does not state which it is


def simulated_inventory(loaded: LoadedRig) -> HostInventory:
    """A host with the cards of a rig of one node; a card of an unknown SKU becomes an RTX 3090."""
    node = loaded.this_machine()
    gpus = []
    for device in loaded.devices():
        if node is None or device.node != node.name or device.gpu.device != "cuda":
            continue
        sku = device.sku or load_sku(IN_PLACE_OF_UNKNOWN, loaded.kinds)
        gpus.append(
            GpuIdentity(
                subject=device.subject,
                device="cuda",
                uuid=device.gpu.uuid or f"GPU-simulated-{device.index}",
                name=sku.nvml_names[0],
                index=device.index,
                memory_total_mib=sku.memory_gib * 1024,
            )
        )
    return HostInventory(
        hostname="simulated" if node is None else node.name,
        cpus=(node.cpus if node is not None else None) or DEFAULT_CPUS,
        ram_gib=DEFAULT_RAM_GIB if node is None else node.ram_gib or default_ram_gib(loaded, node.name),
        driver_version="580.95.05",
        nvml_error=None,
        gpus=tuple(gpus),
    )
