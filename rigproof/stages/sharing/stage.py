"""The sharing stage: its settings, and what each worker is told."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Annotated

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import Label
from rigproof.profiles.lint.stated import rig_problem, stated
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.operands import CONTEXT_GIB
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.planning.planning import MIB_PER_GIB, device_plan
from rigproof.profiles.tables.base import Meaningful, Share
from rigproof.profiles.tables.levels import LevelName
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.stages.kind import StageKind, StageWork


class SharingSettings(OptionalSettings):
    """How fast processes are that share the GPU: one process works alone, then several divide its work."""

    workers: tuple[Annotated[int, Field(ge=1, le=16, strict=True)], ...] = Field(
        description="Numbers of processes that are compared; the first is 1."
    )
    vram_share: Share = Field(description="Share of the card's memory that the processes fill together.")
    # Measured: 0.92 on an H200 with 2 and with 3 processes.
    sharing_share: Share = Field(
        description="Smallest rate of several processes together, as a share of the rate of one alone.",
        json_schema_extra=Meaningful(lowest=0.5, below="allows sharing that halves the rate"),
    )

    @property
    def most_workers(self) -> int:
        """The largest number of processes at a time."""
        return max(self.workers, default=0)


@dataclass(frozen=True, slots=True)
class SharingSpec(Spec):
    """Do the same products with each number of processes in `workers`, one after the other, on one device.

    `vram_mib` and `cpus` are for all processes together.
    """

    size: int
    vram_mib: float
    duration_s: float
    round_s: float
    workers: tuple[int, ...]
    cpus: float


def spec(work: StageWork, worker: WorkerPlan, own: SharingSettings) -> Spec:
    """One worker of each device starts the processes that share it."""
    plan = work.plan
    memory_gib = device_plan(work.loaded, work.devices[worker.subject]).memory_gib
    room_mib = plan.vram_mib_beside(worker)
    if worker.device == "cuda" and memory_gib is not None:
        room_mib = own.vram_share * memory_gib * MIB_PER_GIB
    return SharingSpec(
        stage=work.stage.name,
        size=worker.gemm_size,
        vram_mib=room_mib,
        duration_s=work.stage.measure_s,
        round_s=work.stage.round_s,
        workers=own.workers,
        cpus=sum(other.cpus for other in plan.workers_of(worker.subject)),
    )


WORKERS, VRAM = "stages.sharing.workers", "stages.sharing.vram_share"


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Problems with the processes that share a card, and with their memory."""
    for device in loaded.devices():
        yield from _device_problems(loaded, device)


def _device_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    workers = device.settings(SharingSettings).workers
    key = stated(loaded, device, WORKERS) or WORKERS
    if not workers or workers[0] != 1 or any(after <= before for before, after in pairwise(workers)):
        wrong = "must start with 1, with which the others are compared, and then increase"
        yield rig_problem(loaded, key, list(workers), wrong, "write e.g. [1, 2, 3]")
    elif len(workers) == 1:
        yield rig_problem(loaded, key, [1], "nothing to compare with one process", "write e.g. [1, 2]")
    else:
        yield from _memory_problems(loaded, device, workers[-1])


def _memory_problems(loaded: LoadedRig, device: PromisedDevice, most: int) -> Iterator[str]:
    """The memory that the processes fill must fit beside their contexts and those of the idle workers."""
    plan, share = device_plan(loaded, device), device.settings(SharingSettings).vram_share
    memory_gib, contexts = plan.memory_gib, plan.workers + most
    key = stated(loaded, device, VRAM)
    if memory_gib is None or device.gpu.device == "cpu" or key is None:
        return  # with the default, the stage takes what is free
    fitting = int(100 * (memory_gib - contexts * CONTEXT_GIB) / memory_gib) / 100
    if share > fitting:
        wrong = (
            f"{contexts} CUDA contexts of {CONTEXT_GIB:g} GiB do not fit beside it on the "
            f"{memory_gib:g} GiB of {device.subject}"
        )
        way_out = f"write {fitting:g} or less, or fewer workers" if fitting > 0 else "write fewer workers"
        yield rig_problem(loaded, key, share, wrong, way_out)


KIND = StageKind(
    "sharing",
    "arms",
    SharingSettings,
    spec=spec,
    shortest_s=5.0,
    lint=problems,
    spawns=attrgetter("most_workers"),
    arms="processes",
    labels=(
        Label("precision", str, PRECISIONS, work=True),
        Label("size", int, told=True),
        # Recordings of the first version have a warm-up of the worker itself, without these two.
        Label("processes", int, optional=True, work=True, process=True),  # the number that shared the device
        Label("process", int, optional=True, process=True),  # which of them did the round
    ),
)
