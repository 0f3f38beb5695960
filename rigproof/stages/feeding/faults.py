"""Faults that this stage's criteria must notice."""

from rigproof.simulation.faults.kinds import FaultKind

STAGE = "feeding"

FAULTS = (
    FaultKind(
        "rewards-slow",
        "gpu",
        "the pool plays its strategies one after the other",
        ("feeding.parallel_rewards",),
        keys=("stage",),
        stage=STAGE,
    ),
    FaultKind(
        "rewards-differ",
        "gpu",
        "the pool gives other rewards than the sequential run",
        ("feeding.parallel_rewards",),
        keys=("stage",),
        stage=STAGE,
    ),
    FaultKind(
        "rewards-crash",
        "gpu",
        "every strategy that is played during the generation crashes",
        ("feeding.parallel_rewards",),
        keys=("stage",),
        stage=STAGE,
    ),
    FaultKind(
        "gpu-starved",
        "gpu",
        "rewards are late, and the card waits for them",
        ("feeding.idle_gaps",),
        keys=("stage", "by"),
        defaults={"by": "20%"},
        stage=STAGE,
    ),
    FaultKind(
        "gpu-half-used",
        "gpu",
        "NVML's utilisation is low while the card generates; to= is in %",
        ("feeding.idle_gaps",),
        keys=("stage", "to"),
        stage=STAGE,
    ),
)
