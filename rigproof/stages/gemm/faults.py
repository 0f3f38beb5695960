"""How faults show in this stage."""

from rigproof.simulation.faults.kinds import Noticed

NOTICED = {
    "throughput-sag": Noticed("by=60%", "throughput.gemm_bf16"),
    "bit-flip": Noticed("after=20%"),
    "early-heat": Noticed("after=20%"),
    "gpu-idle": Noticed(ends="not measured"),
}
