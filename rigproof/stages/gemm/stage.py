"""All of the gemm stage."""

from rigproof.stages.gemm.criteria import CRITERIA
from rigproof.stages.gemm.simulated import SIMULATED
from rigproof.stages.gemm.specs import specs
from rigproof.stages.slice import StageSlice

GEMM = StageSlice("gemm", specs, SIMULATED, CRITERIA)
