"""The gemm stage, put together."""

from rigproof.profiles.kinds.stages import Label, StageKind
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.stages.gemm.criteria import CRITERIA
from rigproof.stages.gemm.lint import problems
from rigproof.stages.gemm.plan import plan
from rigproof.stages.gemm.settings import FIGURES, GemmSettings
from rigproof.stages.gemm.simulated import SIMULATED
from rigproof.stages.gemm.specs import specs
from rigproof.stages.slice import StageSlice

KIND = StageKind(
    "gemm",
    "arms",
    GemmSettings,
    tuple(FIGURES.values()),
    plan=plan,
    arms="precision",
    labels=(Label("precision", str, PRECISIONS, work=True), Label("size", int, told=True)),
    lint=problems,
)
GEMM = StageSlice(KIND, specs, SIMULATED, CRITERIA)
