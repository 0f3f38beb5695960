"""All stages, in the order in which they run. A new stage is registered here, by the name of its folder."""

from importlib import import_module

from rigproof.profiles.kinds.stages import StageKinds
from rigproof.stages.slice import StageSlice

NAMES = (
    "gemm",
    "sustained",
    "pattern",
    "training",
    "feeding",
    "sharing",
    "bandwidth",
    "transfer",
    "replay",
    "shapes",
    "ram",
    "disk",
    "transient",
)


def _stage(name: str) -> StageSlice:
    """The stage, put together from three modules of its folder."""
    stage, criteria, simulated = (
        import_module(f"rigproof.stages.{name}.{part}") for part in ("stage", "criteria", "simulated")
    )
    return StageSlice(
        stage.KIND,
        stage.specs,
        simulated.SIMULATED,
        criteria.CRITERIA,
        simulated.FAULTS,
        tables=criteria.tables,
        measured=getattr(criteria, "measured_rounds", None),
    )


STAGES = tuple(_stage(name) for name in NAMES)
KINDS = StageKinds(tuple(stage.kind for stage in STAGES))
SLICES = {stage.name: stage for stage in STAGES}
FORMS = {stage.name: stage.simulated for stage in STAGES}
