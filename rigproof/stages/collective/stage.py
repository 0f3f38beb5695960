"""The collective stage: its settings, and what each rank is told."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from importlib import import_module
from typing import Annotated, Any

from pydantic import Field

from rigproof.devices.further import Further
from rigproof.devices.specs import GLOO, NCCL, Spec
from rigproof.profiles.kinds.stages import Label, StagePlan
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.planning.subjects import RIG
from rigproof.profiles.tables.base import Meaningful, Positive, Share, optional
from rigproof.profiles.tables.levels import LevelName, SomeLevels
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.measurements import GB
from rigproof.records.recording import Recording
from rigproof.stages.kind import StageKind, StageWork

STAGE = "collective"
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather", "reduce_scatter"
BROADCAST, ALL_TO_ALL = "broadcast", "all_to_all"
OPERATIONS = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, ALL_TO_ALL)
AS_IT_IS = "as it is"  # the arm in which nothing is switched off
# The other arms, each with NCCL's variables (its documentation, "Environment Variables").
ARMS = {
    "without P2P": {"NCCL_P2P_DISABLE": "1"},
    "without P2P and shared memory": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
}
PROTOCOLS = {f"by {one} alone": {"NCCL_PROTO": one} for one in ("LL", "LL128", "Simple")}  # after a failure
EVERY_ARM: dict[str, dict[str, str]] = {AS_IT_IS: {}, **ARMS, **PROTOCOLS}
LATENCY_MIB = 0  # of operations on 4 bytes
SMALL_MIB, SMALL_SHARE = 1, 0.2  # of the time of a larger size: over a LAN 16 MiB need most of a short run
ONE_MIB = 16  # the size of what a short run does
BUFFERS = 4  # of the largest size on one side: a first one that is not timed, and three that are
SIZES_MIB = (LATENCY_MIB, 1, ONE_MIB, 32, 128)
LARGEST_MIB = 4096
WORD_BYTES = 4  # of fp32
ARM_S = 1.0  # of an arm after a failure, at a level without arms; what failed is done in any case
ARM_FIRST_S = 6.0  # so that all arms end before the driver's own deadline, even if each of them hangs
WORDS_PER_MIB = 2**20 // WORD_BYTES


class CollectiveSettings(OptionalSettings):
    """How fast the devices of each node, and of the rig, exchange data together, and whether it is right."""

    of_rig = frozenset(
        {
            "length_s",
            "setup_s",
            "large_mib",
            "large_share",
            "join_s",
            "first_s",
            "least_s",
            "patience",
            "floor_gbps",
            "pair_turns",
        }
    )

    length_s: SomeLevels = Field(
        description="Length of the operations of each group, in s, by level. 0: the stage does not run at "
        "that level. A quick run does one all-reduce, a standard one all sizes of that and some of the other "
        "operations, a longer one all sizes of all of them."
    )
    setup_s: Positive = Field(
        description="Time before the first operation, in s: a process for each rank, its context, and the "
        "group.",
        json_schema_extra=Meaningful(lowest=1.0, below="is over before a process has loaded torch"),
    )
    arm_s: SomeLevels = Field(
        description="Length of the all-reduces of each arm, without P2P and without shared memory, in s, by "
        "level; each needs setup_s besides. 0: arms are tried only after a failure."
    )
    large_mib: Annotated[int, Field(ge=1, le=LARGEST_MIB, strict=True)] = Field(
        description="Largest size of an operation, in MiB; less where the memory of a device is small.",
        json_schema_extra=Meaningful(lowest=16, below="measures latency along with the rate"),
    )
    large_share: Share = Field(
        description="Largest size of an operation, as a share of what the workers of a device fill, but at "
        "least 16 MiB; all buffers of a rank together take eight times as much.",
        json_schema_extra=Meaningful(highest=0.12, above="needs more memory than there is"),
    )
    join_s: Positive = Field(
        description="How long a rank may take for its process to start, and then to meet the others, in s. "
        "Past that it is killed, and counts as stuck.",
        json_schema_extra=Meaningful(
            5.0, 59.0, "kills sound ranks on a busy host", "is later than the driver's own patience"
        ),
    )
    first_s: Positive = Field(
        description="How long an operation may take of a size that the group has not done before, in s.",
        json_schema_extra=Meaningful(2.0, 59.0, "kills slow ranks as stuck", "is no deadline"),
    )
    least_s: Positive = Field(
        description="Shortest deadline of an operation, in s.",
        json_schema_extra=Meaningful(0.5, 29.0, "kills ranks that their host delayed", "is no deadline"),
    )
    patience: Positive = Field(
        description="The deadline of an operation as a multiple of what it has taken this group, at this "
        "size, on its slowest rank.",
        json_schema_extra=Meaningful(3.0, 1000.0, "kills slow ranks as stuck", "is no deadline"),
    )
    floor_gbps: Positive | None = optional(
        "Smallest bus bandwidth of an all-reduce of 16 MiB and more, in GB/s, in every group of the rig. It "
        "takes the place of all other floors of it. Left out: none.",
        Meaningful(lowest=0.001, below="is less than a modem gives"),
    )
    sku_share: Share = Field(
        description="Smallest bus bandwidth, as a share of what the SKU file states of the operation with as "
        "many GPUs at that size.",
        json_schema_extra=Meaningful(0.5, 0.98, "passes a link at half its rate", "fails sound links"),
    )
    champion_share: Share | None = optional(
        "Smallest bus bandwidth from 16 MiB on, as a share of the best that the same GPUs did together in an "
        "accepted run.",
        Meaningful(0.5, 0.98, "passes a link at half its rate", "fails sound links"),
    )
    arm_share: Share = Field(
        description="Smallest rate of all-reduces as it is, as a share of the fastest arm's; below it "
        "collective.path warns.",
        json_schema_extra=Meaningful(0.5, 0.98, "passes P2P at half the rate", "warns of noise"),
    )
    group_share: Share = Field(
        description="Smallest bus bandwidth from 16 MiB on, as a share of the median of the run's other "
        "groups with the same devices, if there are two at least.",
        json_schema_extra=Meaningful(0.5, 0.98, "passes a link at half its rate", "fails sound links"),
    )
    pair_share: Share = Field(
        description="Smallest bus bandwidth of an all-reduce of 16 MiB and more inside a node, as a share of "
        "what the slowest two of its GPUs copy to each other, where the SKU file has no figure.",
        json_schema_extra=Meaningful(
            0.1, 0.9, "passes GPUs that exchange by sockets", "fails GPUs that share a way to the CPU"
        ),
    )
    pair_turns: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        description="Turns of a soak's lap in which each two GPUs of a node, and then each two nodes, do "
        "all-reduces by themselves, all at the same time. A team of n takes n - 1 of them; of a larger one "
        "each lap goes on where the one before ended, and the verdict says how many pairs were tested.",
    )
    nodes_share: Share = Field(
        description="Smallest bus bandwidth of the rig's all-reduce at its largest size, as a share of what "
        "the slowest two nodes that follow each other exchange by the same library, in the run's stage for "
        "that.",
        json_schema_extra=Meaningful(
            0.1, 0.95, "passes nodes that exchange by another way", "fails what more ranks cost"
        ),
    )
    nodes_tcp_share: Share = Field(
        description="The same of what they exchange by TCP, where no library was measured.",
        json_schema_extra=Meaningful(
            0.05, 0.8, "passes nodes that exchange by another way", "fails what a library costs"
        ),
    )


def planned(settings: CollectiveSettings, level: LevelName, round_s: float) -> StagePlan | None:
    """The start of the processes, then the operations; and that for each arm."""
    length_s, arm_s = settings.length_s.at(level), settings.arm_s.at(level)
    if not length_s:
        return None
    expected_s = settings.setup_s + length_s
    if arm_s:
        expected_s += len(ARMS) * (settings.setup_s + arm_s)
    return StagePlan(STAGE, expected_s=expected_s, settle_s=0.0, measure_s=length_s, round_s=round_s)


@dataclass(frozen=True, slots=True)
class Case:
    """An operation at a size. `odd`: with an odd number of elements on each rank."""

    operation: str
    mib: int
    odd: bool

    @property
    def due(self) -> bool:
        """Whether it is done even if no time is left: a limit holds for that size, however slow it is."""
        return self.odd and self.mib <= ONE_MIB

    def elements(self, ranks: int) -> int:
        """The elements that a rank reduces or sends in all; where they are divided among ranks, of each part.

        4 bytes are one element. An even number otherwise, or the odd one below.
        """
        parts = 1 if self.operation in (ALL_REDUCE, BROADCAST) else ranks
        whole = self.mib * WORDS_PER_MIB // parts // 2 * 2
        return max(1, whole - 1 if self.odd else whole)


@dataclass(frozen=True, slots=True)
class CollectiveSpec(Spec):
    """A rank's operations for `seconds`, in `rounds` of about `round_s`, by `backend`; with other nodes by
    `rig_backend`.

    `operations` at `sizes_mib`, the first of them at all, the others at `other_sizes_mib`. `buffers_mib`: of
    all buffers of one side. `arm_s`: of each other arm, inside a node by NCCL; 0: none is planned. `group`:
    the members of a part of the crew's team that is tested by itself, joined by spaces; empty: the team.
    `again`: it does what failed, in another arm.
    """

    backend: str
    rig_backend: str
    operations: tuple[str, ...]
    sizes_mib: tuple[int, ...]
    other_sizes_mib: tuple[int, ...]
    buffers_mib: int
    threads: int
    seconds: float
    round_s: float
    join_s: float
    first_s: float
    least_s: float
    patience: float
    arm_s: float = 0.0
    arm: str = AS_IT_IS
    group: str = ""
    again: bool = False

    @classmethod
    def recorded(cls, told: Mapping[str, Any]) -> "CollectiveSpec":
        """As a recording has it; what an older one lacks is None, or as it is by default."""
        own = [one.name for one in fields(cls) if one.name in told or one.default is MISSING]
        values: Any = {name: told.get(name) for name in own}
        values = {name: tuple(one) if isinstance(one, list) else one for name, one in values.items()}
        return cls(**values)

    @property
    def thorough(self) -> bool:
        """Whether it does all of its cases, even if no time is left: it looks for what the team did wrong."""
        return self.again or bool(self.group)

    def cases(self) -> Iterator[Case]:
        """What is done, in this order: of each operation small sizes first, so that large ones are foreseen.

        Odd numbers of elements come first. A short run, of a single operation, has no others; what looks for
        a failure has, since the team may have done either wrong.
        """
        short = len(self.operations) == 1 and not self.thorough
        for number, operation in enumerate(self.operations):
            for mib in self.other_sizes_mib if number else self.sizes_mib:
                yield Case(operation, mib, odd=True)
                if mib and not short:
                    yield Case(operation, mib, odd=False)

    def of_team(self, team: str) -> tuple["CollectiveSpec", ...]:
        """What a rank of this team does, one after the other: its operations, then those of planned arms."""
        if team == RIG:
            return (replace(self, backend=self.rig_backend),)
        arms = ARMS if self.arm_s and self.backend == NCCL else ()
        return (self, *map(self.in_arm, arms))

    def in_arm(self, arm: str, failed: Sequence[tuple[str, int]] = ()) -> "CollectiveSpec":
        """The all-reduces of a planned arm, at the sizes by which arms are told apart.

        After a failure what `failed`: operations, each with a size, MiB.
        """
        large_mib = self.buffers_mib // BUFFERS
        wanted = {ONE_MIB, *([mib for _, mib in failed] or [large_mib])}
        sizes = (LATENCY_MIB, *sorted({min(mib, large_mib) for mib in wanted}))
        return replace(
            self,
            operations=tuple(dict.fromkeys(operation for operation, _ in failed)) or (ALL_REDUCE,),
            sizes_mib=sizes,
            other_sizes_mib=sizes,
            seconds=self.arm_s or ARM_S,
            arm_s=0.0,
            first_s=min(self.first_s, ARM_FIRST_S),
            arm=arm,
            again=bool(failed),
        )


def share_of_time(cases: Sequence[Case], number: int) -> float:
    """The share of the time that is left which the case of that number gets; small sizes get less."""
    weights = [SMALL_SHARE if one.mib <= SMALL_MIB else 1.0 for one in cases[number:]]
    return weights[0] / sum(weights)


def spec(work: StageWork, worker: WorkerPlan, own: CollectiveSettings) -> CollectiveSpec:
    """The same for all ranks: what the smallest device of the rig has room for."""
    first = work.plan.first_workers()
    least_mib = min(work.plan.vram_mib_beside(one) for one in first)
    large_mib = min(own.large_mib, max(ONE_MIB, int(own.large_share * least_mib)))
    sizes = tuple(dict.fromkeys((*(one for one in SIZES_MIB if one < large_mib), large_mib)))
    one_mib = min(ONE_MIB, large_mib)
    level = work.plan.level
    return CollectiveSpec(
        work.stage.name,
        backend=work.backend(worker.node),
        rig_backend=work.backend(),
        operations=OPERATIONS[:1] if level == "quick" else OPERATIONS,
        sizes_mib=(LATENCY_MIB, 1, one_mib) if level == "quick" else sizes,
        other_sizes_mib=(one_mib,) if level == "standard" else sizes,
        buffers_mib=BUFFERS * large_mib,
        threads=max(1, round(worker.cpus)),
        seconds=work.stage.measure_s,
        round_s=min(0.02, work.stage.round_s),
        join_s=own.join_s,
        first_s=own.first_s,
        least_s=own.least_s,
        patience=own.patience,
        arm_s=own.arm_s.at(level),
    )


def further(work: StageWork, recording: Recording) -> Further | None:
    """The next groups to test, if a team is not fine."""
    asked: Further | None = import_module("rigproof.stages.collective.search").further(work, recording)
    return asked


KIND = StageKind(
    STAGE,
    "rests",
    CollectiveSettings,
    spec=spec,
    plan=planned,
    further=further,
    crew="teams",
    exchanges=True,
    apart="each",
    unit=GB,
    labels=(
        Label("operation", str, values=OPERATIONS, work=True),
        Label("mib", int, work=True),
        Label("elements", int),
        Label("backend", str, values=(NCCL, GLOO)),
        Label("ranks", int),
        Label("arm", str, work=True),
        Label("group", str),
        Label("repeats", int, amount=True),
    ),
    events={
        "arm_tried": "teams that failed do what failed in another arm; data.arm, teams, done",
        "groups_tested": "groups of a team are tested by themselves, to find who is to blame; data.groups",
        "pairs_tested": "each two of a team did all-reduces by themselves; data.pairs, tested, failed, …",
        "size_left_out": "an operation was not done at a size that takes too long; data.operation, mib, odd",
        "rank_variables": "the variables that tell NCCL or gloo what to use; data.device, variables",
    },
    quiet_events=("rank_variables",),
)
