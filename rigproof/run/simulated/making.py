"""Makes a simulated rig from a profile, its plan and faults by name; refuses what cannot be simulated."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rigproof.judging.catalogue import FAULTS
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan
from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.faults.parsing import FaultError, parse_faults
from rigproof.stages.kind import StageWork
from rigproof.stages.registry import FORMS, KINDS

if TYPE_CHECKING:
    from rigproof.simulation.rig import SimulatedRig


class NotSimulated(Exception):  # noqa: N818 - says what is the case
    """The rig or a fault cannot be simulated; the message says what to change."""


def planned_faults(texts: Sequence[str], loaded: LoadedRig, plan: Plan) -> tuple[InjectedFault, ...]:
    """The faults of these texts, on a rig with this plan.

    Raises:
        FaultError: naming the first wrong text, or one of a fault of what its stage leaves out in this plan.
    """
    found = parse_faults(texts, FAULTS, loaded, plan.stages, FORMS, laps=plan.laps)
    for text, fault in zip(texts, found, strict=True):
        left_out = FORMS[fault.stage].left_out
        if left_out is None:
            continue
        specs = KINDS[fault.stage].specs(StageWork(loaded, plan, plan.stage(fault.stage), {}))
        if why := left_out(fault, next(iter(specs.values()))):
            raise FaultError(f"--hw-inject {text}: nothing could notice it: {why}; choose another --hw-level")
    return found


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
        faults = planned_faults(inject, loaded, plan)
    except FaultError as error:
        raise NotSimulated(str(error)) from error
    # Here, since it loads NVML's bindings: the plan of a real rig needs none.
    from rigproof.simulation.rig import SimulatedRig  # noqa: PLC0415

    return SimulatedRig(loaded, plan, FORMS, faults, seed)
