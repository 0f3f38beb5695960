"""All of the gemm stage."""

from rigproof.profiles.planning.stages import ANY_LOAD, MULTIPLIED, Label, StageKind
from rigproof.stages.gemm.criteria import CRITERIA
from rigproof.stages.gemm.plan import plan
from rigproof.stages.gemm.simulated import SIMULATED
from rigproof.stages.gemm.specs import specs
from rigproof.stages.slice import StageSlice

KIND = StageKind(
    "gemm",
    "arms",
    None,
    plan=plan,
    arms="precision",
    faults=(*ANY_LOAD, *MULTIPLIED),
    labels=(Label("precision", str, work=True), Label("size", int)),
)
GEMM = StageSlice(KIND, specs, SIMULATED, CRITERIA)
