"""A worker's task in the transient stage."""

from collections import Counter
from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.profiles.loading.loaded import PromisedDevice
from rigproof.records.identity import GpuIdentity
from rigproof.stages.slice import StageWork
from rigproof.stages.transient.schedule import Arm, arms_of
from rigproof.stages.transient.settings import TransientSettings

INCLUDE = "`stages.transient.with_display = true` lets it take part"


@dataclass(frozen=True, slots=True)
class TransientSpec(Spec):
    """Make the bursts of those `arms` that the GPU of this `rank` (from 0) of its host takes part in.

    `size`: the largest matrices to multiply. `left_out`: why the GPU takes part in none; empty if it does.
    """

    size: int
    rank: int
    arms: tuple[Arm, ...]
    left_out: str = ""

    def run(self, device: Device, context: WorkerContext) -> None:
        """Make them."""
        from rigproof.stages.transient.workload import run_transient  # noqa: PLC0415 - it needs torch

        run_transient(self, device, context)


def specs(work: StageWork) -> dict[str, Spec]:
    """One worker of each GPU, in its turn among those of its host that take part."""
    settings = work.loaded.settings(TransientSettings)
    first = {worker.subject: worker for worker in work.plan.first_workers()}
    gpus = [device for device in work.loaded.devices() if device.gpu.device == "cuda"]
    left_out = {device.subject: why_left_out(device, work.gpus.get(device.subject)) for device in gpus}
    of_host = Counter(device.node for device in gpus if not left_out[device.subject])
    arms = {count: arms_of(count, settings, work.stage.measure_s) for count in set(of_host.values())}
    rank: Counter[str] = Counter()
    by_worker: dict[str, Spec] = {}
    for device in gpus:
        worker, why = first[device.subject], left_out[device.subject]
        own = () if why else arms[of_host[device.node]]
        by_worker[worker.worker] = TransientSpec(
            work.stage.name, worker.gemm_size, rank[device.node], own, left_out=why
        )
        rank[device.node] += not why
    return by_worker


def why_left_out(device: PromisedDevice, found: GpuIdentity | None) -> str:
    """Why a card takes no part in the waves; empty if it does. `found`: the card, None if it is not known."""
    if found is None or found.display_active is False or device.settings(TransientSettings).with_display:
        return ""
    if found.display_active is None:
        return f"NVML does not say whether a display is active on it; {INCLUDE}"
    return f"a display is active on it, which would stutter, and which a reset would end; {INCLUDE}"
