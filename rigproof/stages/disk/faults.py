"""The faults that this stage's criterion must notice."""

from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.stages.disk.settings import DiskSettings


def _no_floor(loaded: LoadedRig, _device: PromisedDevice | None) -> str:
    """Why no host's rate is judged; empty if it is."""
    settings = [loaded.settings_of(node.name, DiskSettings) for node in loaded.rig.nodes]
    stated = all(one.write_floor_mbps or one.read_floor_mbps for one in settings)
    return "" if stated or len(settings) > 1 else "there is neither another host nor a floor"


FAULTS = (
    FaultKind(
        "disk-slow",
        "node",
        "the disk for checkpoints is slower than that of equal hosts",
        ("host.disk",),
        keys=("stage", "by"),
        defaults={"by": "60%"},
        stage="disk",
        lacks=_no_floor,
    ),
    FaultKind(
        "disk-full",
        "node",
        "the disk for checkpoints is nearly full",
        ("host.disk",),
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
