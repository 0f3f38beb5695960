"""How faults show in this stage."""

from rigproof.criteria.effects import WRONG_RESULTS
from rigproof.simulation.faults.kinds import Noticed

NOTICED = {
    "throughput-sag": Noticed("by=60%", "throughput.gemm_bf16"),
    **dict.fromkeys(WRONG_RESULTS, Noticed("after=20%")),
    "early-heat": Noticed("after=20%"),
    "gpu-idle": Noticed(ends="not measured"),
}
