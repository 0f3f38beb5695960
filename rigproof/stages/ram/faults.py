"""The faults that this stage's criterion must notice."""

from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.stages.ram.settings import RamSettings


def _no_floor(loaded: LoadedRig, _device: PromisedDevice | None) -> str:
    """Why no host's rate is judged; empty if it is."""
    stated = all(loaded.settings_of(node.name, RamSettings).floor_gbps for node in loaded.rig.nodes)
    return "" if stated or len(loaded.rig.nodes) > 1 else "there is neither another host nor a floor"


FAULTS = (
    FaultKind(
        "ram-bit",
        "node",
        "a bit of the host's RAM does not keep its value",
        ("host.memory",),
        keys=("stage",),
        stage="ram",
    ),
    FaultKind(
        "ram-slow",
        "node",
        "the host's RAM is slower than that of its equals, as with an empty memory channel",
        ("host.memory",),
        keys=("stage", "by"),
        defaults={"by": "25%"},
        stage="ram",
        lacks=_no_floor,
    ),
)
