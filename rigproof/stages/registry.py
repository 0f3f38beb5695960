"""All stages, in the order in which they run. A new stage is registered here, in one line."""

from rigproof.profiles.kinds.stages import StageKinds
from rigproof.stages.bandwidth.stage import BANDWIDTH
from rigproof.stages.disk.stage import DISK
from rigproof.stages.feeding.stage import FEEDING
from rigproof.stages.gemm.stage import GEMM
from rigproof.stages.pattern.stage import PATTERN
from rigproof.stages.ram.stage import RAM
from rigproof.stages.replay.stage import REPLAY
from rigproof.stages.shapes.stage import SHAPES
from rigproof.stages.sharing.stage import SHARING
from rigproof.stages.sustained.stage import SUSTAINED
from rigproof.stages.training.stage import TRAINING
from rigproof.stages.transfer.stage import TRANSFER
from rigproof.stages.transient.stage import TRANSIENT

STAGES = (
    GEMM,
    SUSTAINED,
    PATTERN,
    TRAINING,
    FEEDING,
    SHARING,
    BANDWIDTH,
    TRANSFER,
    REPLAY,
    SHAPES,
    RAM,
    DISK,
    TRANSIENT,
)
KINDS = StageKinds(tuple(stage.kind for stage in STAGES))
SLICES = {stage.name: stage for stage in STAGES}
FORMS = {stage.name: stage.simulated for stage in STAGES}
