"""Memory policies that contradict themselves, or the plan that they serve."""

import math
from collections.abc import Iterator

from rigproof.profiles.lint.stated import problems_where_stated
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.operands import WORKSPACE_MIB, operands_mib
from rigproof.profiles.planning.planning import MIB_PER_GIB, DevicePlan

# memory.no_oom wants each worker's last reading from the last 5 s of the load.
MONITOR_HIGHEST_S = 2.5


def policy_problems(loaded: LoadedRig, device: PromisedDevice, plan: DevicePlan) -> Iterator[str]:
    """Problems of the `memory` table that holds for a device. A policy that is switched off has none."""
    if not loaded.memory_of(device).enabled:
        return
    for names, wrong, way_out in (
        *_cap(loaded, device, plan),
        *_sizes(loaded, device, plan),
        *_last_resort(loaded, device, plan),
        *_details(loaded, device),
    ):
        yield from problems_where_stated(
            loaded, device, tuple(f"memory.{name}" for name in names), wrong, way_out
        )


Wrong = tuple[tuple[str, ...], str, str]  # the keys that may state it, the problem, the remedy


def _cap(loaded: LoadedRig, device: PromisedDevice, plan: DevicePlan) -> Iterator[Wrong]:
    """A problem if torch's cap is too small for what its workers are to fill."""
    share = loaded.memory_of(device).fraction_share
    if share is None or plan.vram_mib is None or plan.memory_gib is None or device.gpu.device == "cpu":
        return
    needed_gib = plan.workers * (plan.vram_mib + WORKSPACE_MIB) / MIB_PER_GIB
    if needed_gib <= share * plan.memory_gib:
        return
    wrong = (
        f"allows {share * plan.memory_gib:.2f} GiB of {device.subject}, and {plan.workers} × "
        f"{plan.vram_mib / MIB_PER_GIB:.2f} GiB with cuBLAS' workspaces are {needed_gib:.2f}"
    )
    least = math.ceil(100 * needed_gib / plan.memory_gib) / 100
    way_out = f"write {least:g} or more, or fill less" if least <= 1 else "fill less"
    yield ("fraction_share",), wrong, way_out


def _sizes(loaded: LoadedRig, device: PromisedDevice, plan: DevicePlan) -> Iterator[Wrong]:
    """A problem if the least size exceeds the plan's, or the emergency's size the least one."""
    policy = loaded.memory_of(device)
    least, emergency = policy.least_size, policy.emergency_size
    if least > plan.gemm_size:
        wrong = f"over gemm_size = {plan.gemm_size} of {device.subject}, so no smaller size is ever learned"
        yield ("least_size",), wrong, f"write {plan.gemm_size} or less"
    if emergency > least:
        wrong = f"emergency_size = {emergency} is over least_size = {least}, and so is not tiny"
        yield ("emergency_size", "least_size"), wrong, f"write emergency_size = {least} or less"


def _last_resort(loaded: LoadedRig, device: PromisedDevice, plan: DevicePlan) -> Iterator[Wrong]:
    """A problem if the smallest target is not smaller than the plan's, or holds no tiny product."""
    policy = loaded.memory_of(device)
    target_mib, size = policy.last_resort_mib, policy.emergency_size
    if operands_mib(size) > target_mib:
        wrong = f"three fp32 operands of emergency_size = {size} take {operands_mib(size):.2f} MiB"
        yield ("last_resort_mib", "emergency_size"), wrong, "raise last_resort_mib or lower emergency_size"
    if plan.vram_mib is not None and target_mib > plan.vram_mib:
        wrong = f"more than the {plan.vram_mib:.0f} MiB that a worker of {device.subject} is to fill"
        yield ("last_resort_mib",), wrong, f"write {int(plan.vram_mib)} or less"


def _details(loaded: LoadedRig, device: PromisedDevice) -> Iterator[Wrong]:
    policy = loaded.memory_of(device)
    divisions = policy.roundup_power2_divisions
    if divisions is not None and divisions & (divisions - 1):
        yield ("roundup_power2_divisions",), "torch only accepts powers of two", "write e.g. 16"
    if policy.monitor_s > MONITOR_HIGHEST_S:
        wrong = "memory.no_oom needs a reading from the end of the load"
        yield ("monitor_s",), wrong, f"write {MONITOR_HIGHEST_S:g} or less"
