"""The evidence about one promised node, and the hosts of its kind. Missing data raises NotMeasured."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.criteria.evidence.devices import LOSSES, SAMPLE_COVERAGE_SHARE, DeviceEvidence
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.subject import SubjectEvidence
from rigproof.criteria.evidence.valid_rounds import require_valid
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.base import LimitKey
from rigproof.profiles.tables.node import CpuLoad, Node
from rigproof.profiles.tables.stages import StageSettings
from rigproof.records.fields import table_name
from rigproof.records.identity import GpuIdentity, NodeIdentity
from rigproof.records.recording import StageRecord
from rigproof.records.rows import Rows
from rigproof.records.samples import HostSample
from rigproof.records.verdict import count_of
from rigproof.simulation.host import SimulatedHost

if TYPE_CHECKING:  # evidence builds these
    from rigproof.criteria.evidence.evidence import Evidence


Own = TypeVar("Own", bound=StageRecord)
Settings = TypeVar("Settings", bound=StageSettings)

# Firmware takes some of the memory for itself, so that hosts with the same modules differ by up to 1 %; the
# smallest module of a fully equipped server is 1/24 of its memory.
SAME_RAM = 0.03


class NodeEvidence(SubjectEvidence):
    """The evidence about one promised node."""

    def __init__(self, evidence: "Evidence", node: Node) -> None:
        super().__init__(evidence, node.name, node)
        self.node = node
        self.node_name = node.name

    @property
    def found(self) -> bool:
        """Whether the node answered."""
        return self.subject in self.evidence.recording.nodes

    def require_found(self) -> None:
        """NotMeasured if it did not."""
        if not self.found:
            raise NotMeasured(f"{self.subject} was not found")

    @property
    def identity(self) -> NodeIdentity:
        """The node that answered; NotMeasured if it did not."""
        self.require_found()
        return self.evidence.recording.nodes[self.subject]

    @property
    def devices(self) -> tuple[DeviceEvidence, ...]:
        """The evidence about its promised devices."""
        return self.evidence.devices_on(self.subject)

    @property
    def cards(self) -> tuple[DeviceEvidence, ...]:
        """The evidence about its promised GPUs; the CPU as a device is not among them."""
        return tuple(one for one in self.devices if not one.is_cpu)

    @property
    def gpus(self) -> list[GpuIdentity]:
        """The promised devices of this node that were found."""
        found = self.evidence.recording.gpus
        return [found[one.subject] for one in self.devices if one.subject in found]

    @property
    def cpu(self) -> CpuLoad:
        """The node's CPU band, its own or the rig's."""
        return self.evidence.loaded.cpu_of(self.subject)

    def settings(self, table: type[Settings]) -> Settings:
        """The node's settings of the stage whose table this is."""
        return self.evidence.loaded.settings_of(self.subject, table)

    def rounds(self, stage: str) -> Rounds:
        """What was measured of the node itself in one stage, by whichever of its workers.

        Raises NotMeasured if there are no rounds, one is not a valid measurement, or the clock moved.
        """
        self.evidence.require_clock(self.subject)
        everything = self.evidence.rounds(self.subject)
        found = require_valid(everything.only(everything.same("stage", stage)), stage, self.evidence.kinds)
        if not len(found):
            self.evidence.stage(stage)
            raise NotMeasured(f"no round of {stage} was measured", self.cause(stage))
        return found

    def unverified(self, stage: str) -> Rounds:
        """The rounds of a stage, warm-up included, whose result was wrong. They may not be left out."""
        everything = self.evidence.rounds(self.subject)
        return everything.only(everything.same("stage", stage) & ~everything.same("verified", True))

    def record(self, kind: type[Own], stage: str, missing: str) -> Own:
        """The one record of this type that a stage made about the node.

        Raises NotMeasured if there is none, with `missing` as the reason, or if there are several: which of
        them is right is not known.
        """
        found = [one for one in self.evidence.records(kind, self.subject) if one.stage == stage]
        if len(found) > 1:
            raise NotMeasured(f"{count_of(len(found), 'records')} of {table_name(kind)}, where one is due")
        if not found:
            self.evidence.stage(stage)
            raise NotMeasured(missing, self.cause(stage))
        return found[0]

    def cause(self, stage: str) -> str:
        """Why nothing was measured of the node in a stage; empty if no event explains it."""
        for device in self.devices:
            for event in device.events(*LOSSES):
                if event.stage == stage:
                    return f"{event.message} (at t={event.t_s:.0f} s)"
        for event in self.events("node_missing", "agent_died", "node_lost"):
            return f"{event.message} (at t={event.t_s:.0f} s)"
        return next(filter(None, (one.cause() for one in self.devices)), "")

    @property
    def samples(self) -> Rows[HostSample]:
        """Its samples, in the order of time. NotMeasured if the node's clock moved."""
        self.evidence.require_clock(self.subject)
        return self.evidence.samples(HostSample, self.subject)

    def coverage_limit(self) -> Limit:
        """The smallest share of the due samples that counts as measured."""
        return self.limit(SAMPLE_COVERAGE_SHARE)


def alike(node: NodeEvidence) -> Iterator[NodeEvidence]:
    """The other nodes with the same CPU model, as many usable CPUs and as much RAM; none if that is unknown.

    So a host with a missing memory module or a lower limit of its container has no equal.
    """
    own = node.identity
    for other in node.evidence.nodes:
        if other.subject == node.subject or not other.found or own.cpu_model is None:
            continue
        its = other.identity
        if (its.cpu_model, its.cpus) == (own.cpu_model, own.cpus) and _same_ram(its.ram_gib, own.ram_gib):
            yield other


def _same_ram(one_gib: float, other_gib: float) -> bool:
    return abs(one_gib - other_gib) <= SAME_RAM * max(one_gib, other_gib)


def no_floor(*floors: LimitKey[float | None]) -> Callable[[LoadedRig, str], str]:
    """Why a node of a simulated rig has no limit of its rates: no floor, and no equal host; else empty."""

    def why(loaded: LoadedRig, node: str) -> str:
        stated = any(loaded.stated(key, loaded.node(node))[0] for key in floors)
        return "" if stated else _no_equal(loaded, node)

    return why


def _no_equal(loaded: LoadedRig, node: str) -> str:
    hosts = {one.name: SimulatedHost(loaded, one.name, (), seed=0) for one in loaded.rig.nodes}
    own = hosts.pop(node)
    equal = any(one.cpus == own.cpus and _same_ram(one.ram_gib(), own.ram_gib()) for one in hosts.values())
    return "" if equal else "there is neither another host of its kind nor a floor"


def host_floor(
    node: NodeEvidence,
    stated: LimitKey[float | None],
    peer_share: LimitKey[float | None],
    rate_of: Callable[[NodeEvidence], float],
) -> Limit | None:
    """The floor of a host's rate: the one `stated`, else `peer_share` of the median of hosts of its kind.

    None if none is stated and no other host was measured. `rate_of` gives a host's rate, and raises
    NotMeasured for one that cannot be compared.
    """
    floor = node.optional_limit(stated)
    if floor is not None:
        return floor
    rates = []
    for other in alike(node):
        with suppress(NotMeasured):
            rates.append(rate_of(other))
    share = node.optional_limit(peer_share)
    if not rates or share is None:
        return None
    others = "the other host" if len(rates) == 1 else f"the median of {len(rates)} other hosts"
    return Limit(share.value * median(rates), f"{share.value:g} of {others} of this kind; {share.source}")
