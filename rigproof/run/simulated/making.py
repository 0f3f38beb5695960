"""Makes a simulated rig from a profile, its plan and faults by name; refuses what cannot be simulated."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rigproof.judging.catalogue import FAULTS
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan
from rigproof.simulation.faults.parsing import FaultError, parse_faults
from rigproof.stages.registry import FORMS

if TYPE_CHECKING:
    from rigproof.simulation.rig import SimulatedRig


class NotSimulated(Exception):  # noqa: N818 - says what is the case
    """The rig or a fault cannot be simulated; the message says what to change."""


def simulated_rig(loaded: LoadedRig, plan: Plan, inject: Sequence[str], seed: int) -> "SimulatedRig":
    """The rig with these faults. Raises NotSimulated."""
    for device in loaded.devices():
        if device.gpu.device != "cuda":
            raise NotSimulated(
                f"--hw-simulate: {loaded.file} promises the CPU as the device ({device.subject}), which is "
                "not simulated; name a rig with GPUs, such as --hwprofile dual-3090-3070"
            )
        if device.sku is None:
            raise NotSimulated(
                f"--hw-simulate: {loaded.file}: {device.key}.sku = {device.gpu.sku!r}: this card is "
                "unknown; write an SKU of hwprofiles/gpus there, such as rtx-3090"
            )
    try:
        faults = parse_faults(inject, FAULTS, loaded, plan.stages, FORMS, laps=plan.laps)
    except FaultError as error:
        raise NotSimulated(str(error)) from error
    # Here, since it loads NVML's bindings: the plan of a real rig needs none.
    from rigproof.simulation.rig import SimulatedRig  # noqa: PLC0415

    return SimulatedRig(loaded, plan, FORMS, faults, seed)
