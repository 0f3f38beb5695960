"""The feeding stage: its settings, and what each worker is told."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import HeldAgainst, Label, Need
from rigproof.profiles.lint.stated import rig_problem, stated
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.base import Flag, Meaningful, Positive, Share, optional
from rigproof.profiles.tables.gpu import Count
from rigproof.profiles.tables.levels import LevelName
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.measurements import GB, TFLOP
from rigproof.stages.kind import StageKind, StageWork


class FeedingSettings(OptionalSettings):
    """Whether the CPU keeps the GPU busy: the GPU generates, and a pool of processes computes the rewards."""

    completions: Count = Field(
        description="Number of completions that the GPU generates in each step. The CPU computes a reward "
        "for each."
    )
    processes: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        description="Largest number of processes that compute rewards for this GPU. The GPUs of a node "
        "share its CPUs, and no pool has more processes than its part."
    )
    strategy_s: Positive = Field(
        description="Longest CPU time, in s, that the reward of one completion (a strategy that is played) "
        "may take; ten times as long with its waits for a CPU."
    )
    strategy_memory_mib: Positive = Field(
        description="Most memory, in MiB, that the reward of one completion may take in addition to what "
        "its process has at the start."
    )
    overlap: Flag = Field(
        description="true: the GPU generates the next step while the CPU computes the rewards of the last "
        "one. false: it waits."
    )
    # Work is distributed and results are collected on one CPU, whatever the number of processes.
    reward_speedup_share: Share = Field(
        description="Smallest speed-up of the pool over one process, per process: with 0.375, 8 processes "
        "are at least 3 times as fast as one. It also sets how long the GPU generates in each step.",
        json_schema_extra=Meaningful(highest=0.95, above="is more than any pool of processes reaches"),
    )
    reward_loss_share: Share = Field(
        description="Largest share of the valid completions whose reward may time out, crash or run out of "
        "memory.",
        json_schema_extra=Meaningful(highest=0.5, above="passes a pool that loses every other strategy"),
    )
    own_share: Share | None = optional(
        "Smallest rate of the generation, as a share of what follows from the card's own memory "
        "bandwidth (it reads all weights for each token) and products."
    )


@dataclass(frozen=True, slots=True)
class RewardBatch:
    """The rewards of one step's completions, computed on the CPU: one after the other, or in a pool.

    `timed_out`, `crashed` and `out_of_memory` strategies affect no others. `matches`: whether the rewards, in
    order, are those of the sequential run; None if there was none to compare with.
    """

    t_s: float  # run time of its end
    stage: str
    worker: str
    subject: str
    mode: Literal["sequential", "parallel"]
    processes: int
    strategies: int
    invalid: int  # rejected by the quick check, and not played
    timed_out: int
    crashed: int
    out_of_memory: int
    seconds: float
    matches: bool | None = None

    @property
    def valid(self) -> int:
        """How many passed the quick check."""
        return self.strategies - self.invalid

    @property
    def lost(self) -> int:
        """How many of those have no reward."""
        return self.timed_out + self.crashed + self.out_of_memory

    @property
    def lost_share(self) -> float:
        """The share of valid strategies that has no reward."""
        return self.lost / self.valid if self.valid > 0 else float(self.lost > 0)


@dataclass(frozen=True, slots=True)
class FeedingSpec(Spec):
    """Generate `completions` per step on the device, and compute their rewards in `processes` on the CPU.

    Generating a step takes as long as its rewards would if they were `reward_speedup` times as fast as
    sequential ones.
    """

    vram_mib: float
    duration_s: float
    round_s: float
    completions: int
    processes: int
    strategy_s: float
    strategy_memory_mib: float
    overlap: bool
    reward_speedup: float


def spec(work: StageWork, worker: WorkerPlan, own: FeedingSettings) -> Spec:
    """One worker of each device generates; the node's CPUs are shared between its devices' pools."""
    room = max(1, int(work.cpus.get(worker.node, 1.0)) // len(work.on_host[worker.node]))
    processes = min(own.processes, room)
    return FeedingSpec(
        stage=work.stage.name,
        vram_mib=work.plan.vram_mib_beside(worker),
        duration_s=work.stage.measure_s,
        round_s=work.stage.round_s,
        completions=own.completions,
        processes=processes,
        strategy_s=own.strategy_s,
        strategy_memory_mib=own.strategy_memory_mib,
        overlap=own.overlap,
        reward_speedup=1.0 if processes == 1 else own.reward_speedup_share * processes,
    )


SHARE, PROCESSES = "stages.feeding.reward_speedup_share", "stages.feeding.processes"


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Required speed-ups that are not over 1, except for a pool of one process, as for debugging."""
    for device in loaded.devices():
        settings = device.settings(FeedingSettings)
        share, processes = settings.reward_speedup_share, settings.processes
        if processes == 1 or processes * share > 1:
            continue
        key = stated(loaded, device, SHARE, PROCESSES) or SHARE
        wrong = f"{processes} processes × {share:g} is no speed-up: rewards one after the other would pass"
        way_out = f"write reward_speedup_share = {(1.5 / processes):.2g} or more, or processes = 1"
        yield rig_problem(loaded, key, processes if key.endswith(PROCESSES) else share, wrong, way_out)


def _read_gb(spec: Mapping[str, Any]) -> float:
    """GB of 16-bit weights read for each TFLOP: a pass uses each weight twice for every completion."""
    completions = spec.get("completions")
    return 1000 / completions if completions else 0.0


KIND = StageKind(
    "feeding",
    "fed",
    FeedingSettings,
    spec=spec,
    shortest_s=5.0,
    lint=problems,
    labels=(Label("precision", str, PRECISIONS, work=True), Label("size", int)),
    held_against=HeldAgainst(
        "memory bandwidth and products", (Need(GB, amount=_read_gb), Need(TFLOP, ("precision",)))
    ),
    events={
        "generation": "the length of a step's generation; data.tokens, aimed_s, pass_s, completions, overlap"
    },
    quiet_events=("generation",),
)
