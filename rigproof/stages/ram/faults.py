"""The faults that this stage's criterion must notice."""

from rigproof.criteria.evidence.hosts import no_equal
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.stages.ram.settings import RamSettings


def _no_floor(loaded: LoadedRig, node: str) -> str:
    stated = loaded.settings_of(node, RamSettings).floor_gbps
    return "" if stated else no_equal(loaded, node)


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
        host_lacks=_no_floor,
    ),
)
