"""The stage of training together: its settings, what its ranks report, and what each worker is told."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import Label
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.base import Meaningful, Portion, Positive, Share, optional
from rigproof.profiles.tables.gpu import Count, OfEight
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.identity import DeviceKind
from rigproof.records.measurements import TFLOP
from rigproof.stages.kind import StageKind, StageWork

STAGE = "ddp"
# What the ranks do, in this order: training steps, each by itself; the same with its share of the examples;
# and with an exchange of the gradients.
ALONE, APART, TOGETHER = "alone", "apart", "together"
# Of the stage's length; in the rest processes start, the model is made, and gradients are compared.
PART_SHARE = {ALONE: 0.20, APART: 0.15, TOGETHER: 0.35}
ROUNDS = 5  # of a part
Of = Literal["exchanged", "own"]
EXCHANGED: Of = "exchanged"
OWN: Of = "own"
OVERTIME_SHARE = 2 / 3  # of `timeouts.task_s`: then the driver ends the stage, and nobody is named
WATCHED_STEPS = 2  # whose gradients are compared after the exchange
COMPARED = 3  # ranks that compute the gradients of one micro-batch: two that agree outvote the third


class DdpSettings(OptionalSettings):
    """Training steps of one model on all devices of the rig, by torch's DistributedDataParallel."""

    of_rig = frozenset({"length_s", "sequence", "batch", "exchange_s"})

    sequence: OfEight = Field(description="Length of each example, in tokens.")
    model_share: Portion = Field(
        description="Share of the memory of the GPU's workers that weights, gradients and optimizer take; "
        "the model is as wide as fits on every device."
    )
    batch: Count = Field(
        description="Examples of a step for each device, on average: a faster device gets more of them."
    )
    # What the exchange costs is a share of a step that does not depend on the model's width.
    exchange_s: Positive = Field(
        description="Longest time, in s, that one exchange of all gradients may take; over a slow link the "
        "model is narrower.",
        json_schema_extra=Meaningful(
            0.05, 10.0, "leaves a model too small to load a GPU", "leaves too few steps"
        ),
    )
    own_share: Share | None = optional(
        "Smallest rate of all devices together, as a share of what follows from each device's steps by "
        "itself and from the time of an exchange alone, one after the other.",
        Meaningful(0.3, 0.97, "passes a rig whose devices wait for each other", "fails sound rigs"),
    )
    exchange_share: Share | None = optional(
        "Smallest rate of an exchange alone that the limit takes as given, as a share of the run's "
        "all-reduces of all devices at a size up to that of the gradients.",
        Meaningful(0.1, 0.9, "passes devices that exchange slowly", "fails by a single slow exchange"),
    )
    # Measured: rounding of bf16 differs by about 0.001 of the norm between GPUs of two models.
    norm_share: Share | None = optional(
        "Largest difference of the norms of gradients that unlike devices computed from the same examples, "
        "as a share of the norm.",
        Meaningful(0.001, 0.2, "fails sound devices, which round differently", "passes wrong gradients"),
    )


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradients of one backward pass of one rank: their checksum and their norm.

    `of`: "exchanged", the mean over all ranks after step `number`; or "own", of micro-batch `number` alone,
    with deterministic algorithms and the untrained weights. `norm`: None if it is no finite number.
    """

    t_s: float
    stage: str
    worker: str
    subject: str
    of: Of
    number: int
    digest: str
    norm: float | None


@dataclass(frozen=True, slots=True)
class DdpSpec(Spec):
    """Train one model on all devices of a crew for `duration_s`, first each by itself.

    `overtime_s`: by how much a rank that tells nothing any more may exceed that.
    """

    vram_mib: float
    duration_s: float
    sequence: int
    model_share: float
    batch: int
    exchange_s: float
    device: DeviceKind
    threads: int
    backend: str  # the same on all ranks
    overtime_s: float


def spec(work: StageWork, worker: WorkerPlan, own: DdpSettings) -> Spec:
    """The first worker of each device is a rank."""
    return DdpSpec(
        stage=STAGE,
        vram_mib=work.plan.vram_mib_beside(worker),
        duration_s=work.stage.measure_s,
        sequence=own.sequence,
        model_share=own.model_share,
        batch=own.batch,
        exchange_s=own.exchange_s,
        device=worker.device,
        threads=max(1, int(worker.cpus)),
        backend=work.backend(),
        overtime_s=OVERTIME_SHARE * work.loaded.rig.timeouts.task_s,
    )


KIND = StageKind(
    STAGE,
    "rests",
    DdpSettings,
    spec=spec,
    crew="rig",
    exchanges=True,
    apart="each",
    unit=TFLOP,
    labels=(
        Label("part", str, (ALONE, APART, TOGETHER), work=True),
        Label("precision", str, PRECISIONS),
        Label("size", int),  # the model's width
        Label("batch", int),  # the rank's examples in a step
        Label("steps", int, amount=True),  # of the round
    ),
    events={
        "ddp_rank": "what a rank trained with the others; data.width, batch, exchange_s, gradients_mib, …"
    },
    quiet_events=("ddp_rank",),
)
