"""The faults that this stage's criterion must notice."""

from rigproof.criteria.evidence.hosts import no_equal
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.stages.disk.settings import DiskSettings


def _no_floor(loaded: LoadedRig, node: str) -> str:
    own = loaded.settings_of(node, DiskSettings)
    return "" if own.write_floor_mbps or own.read_floor_mbps else no_equal(loaded, node)


FAULTS = (
    FaultKind(
        "disk-slow",
        "node",
        "the disk for checkpoints is slower than that of equal hosts",
        ("host.disk",),
        keys=("stage", "by"),
        defaults={"by": "60%"},
        stage="disk",
        host_lacks=_no_floor,
    ),
    FaultKind(
        "disk-full",
        "node",
        "the disk for checkpoints is nearly full",
        ("host.disk",),
        ends="not measured",
        keys=("stage",),
        stage="disk",
    ),
    FaultKind(
        "disk-corrupts",
        "node",
        "the disk for checkpoints returns other data than were written",
        ("host.disk",),
        keys=("stage",),
        stage="disk",
    ),
)
