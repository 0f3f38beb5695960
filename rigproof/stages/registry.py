"""All stages, in the order in which they run. A new stage is registered here, by the name of its folder."""

from importlib import import_module

from rigproof.profiles.kinds.stages import StageKinds
from rigproof.stages.slice import StageSlice, without_tables

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
    """The stage, put together from three modules of its folder. It may lack criteria, faults or tables."""
    stage, criteria, simulated = (
        import_module(f"rigproof.stages.{name}.{part}") for part in ("stage", "criteria", "simulated")
    )
    return StageSlice(
        stage.KIND,
        stage.specs,
        simulated.SIMULATED,
        getattr(criteria, "CRITERIA", ()),
        getattr(simulated, "FAULTS", ()),
        tables=getattr(criteria, "tables", without_tables),
        measured=getattr(criteria, "measured_rounds", None),
    )


STAGES = tuple(_stage(name) for name in NAMES)
KINDS = StageKinds(tuple(stage.kind for stage in STAGES))
SLICES = {stage.name: stage for stage in STAGES}
FORMS = {stage.name: stage.simulated for stage in STAGES}
