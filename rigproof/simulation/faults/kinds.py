"""What a fault is: what it hits, in which stages it can act, its keys, and the criteria that it proves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rigproof.profiles.kinds.stages import DUTIES, Duty
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice

Scope = Literal["gpu", "node"]
Key = Literal["stage", "after", "for", "by", "to", "code", "field"]
Ends = Literal["fails", "warns", "not measured"]
Stages = Mapping[str, Duty]  # by name, in the order in which they run
# Why nothing could notice a fault on this device, or this node, of this rig; empty if something can.
Lacks = Callable[[LoadedRig, PromisedDevice], str]
HostLacks = Callable[[LoadedRig, str], str]
# The same for a fault of a sensor, given the sensor, the stage in which it acts, and the level's stages.
Unseen = Callable[[str, str, Stages], str]

TIMES: tuple[Key, ...] = ("stage", "after", "for")
FROM: tuple[Key, ...] = ("stage", "after")
MID: Mapping[str, str] = {"after": "50%"}
PART: Mapping[str, str] = {"after": "40%", "for": "30%"}

SHORTEST_S = 0.5  # a round, and two steps of a simulated card: a shorter fault may fall between them

CONTINUOUS: tuple[Duty, ...] = ("continuous",)
FED: tuple[Duty, ...] = ("fed",)
REPEATING: tuple[Duty, ...] = ("continuous", "arms")  # in which the same products are repeated


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A fault by name.

    `trips`: the criteria that it proves, all with the outcome `ends`, on the fault's own subject, or on the
    rig if they judge the rig. docs/faults.toml has everything that it changes.

    `duties`: of the stages in which it can act. `stage`: the only stage in which it can, instead of duties.
    With neither, it acts for the whole run. `defaults`: values of keys that are not given.
    """

    name: str
    what: str
    trips: tuple[str, ...]
    scope: Scope = "gpu"
    ends: Ends = "fails"
    keys: tuple[Key, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    duties: tuple[Duty, ...] = ()
    stage: str | None = None
    lacks: Lacks | None = None  # of a fault of a GPU
    host_lacks: HostLacks | None = None  # of a fault of a node
    unseen: Unseen | None = None  # of a fault with the key `field`, if that is a sensor
    fields: tuple[str, ...] = ()  # what `field` can be; empty: a sensor
    least_s: float = SHORTEST_S  # it has to act for so long in a stage, so that it shows there
    brief: bool = False  # it ends by itself: its default length also applies if only `after` is given
    in_memory: bool = False  # at one place of it: only stages that fill and compare the memory notice it
    of_task: bool = False  # it hits a worker's task in its stage, and nothing later
    delays: bool = False  # `by` can also be a delay
    soak: bool = False  # only a soak looks for it

    def acts_in(self, stages: Stages) -> tuple[str, ...]:
        """The stages, of those given, in which it can act."""
        if self.stage is not None:
            return (self.stage,) if self.stage in stages else ()
        return tuple(name for name, duty in stages.items() if duty in self.duties)

    def home(self, stages: Stages) -> str:
        """The stage from which `after` counts by default: the continuous one, if it can act there."""
        duties = CONTINUOUS if self.anywhere else self.duties
        return self.stage or next(name for name, duty in stages.items() if duty in duties)

    @property
    def anywhere(self) -> bool:
        """Whether it may act in the continuous stage and continue in those after it, as most do."""
        return not self.stage and (not self.duties or "continuous" in self.duties)


Faults = Mapping[str, FaultKind]  # by name


WITHOUT_PEER = "the rig has no other GPU of that SKU"


def unstated(key: str) -> Lacks:
    """Lacks the limit `limits.<key>` in its profile."""

    def lacks(_loaded: LoadedRig, device: PromisedDevice) -> str:
        return "" if getattr(device.limits, key) is not None else f"no limits.{key}"

    return lacks


def unreported(sensor: str, why: str) -> Lacks:
    """Lacks the sensor, according to the SKU file; `why` is the text."""

    def lacks(_loaded: LoadedRig, device: PromisedDevice) -> str:
        return why if device.sku is not None and sensor in device.sku.unsupported_sensors else ""

    return lacks


def no_peer(loaded: LoadedRig, device: PromisedDevice) -> str:
    """Lacks another card of that SKU."""
    alike = [other for other in loaded.devices() if other.sku_stem == device.sku_stem]
    return "" if sum(other.gpu.device == "cuda" for other in alike) > 1 else WITHOUT_PEER


@dataclass(frozen=True, slots=True)
class Sensor:
    """One sensor of a card.

    `impossible`: a reading that it cannot have; None for a bit mask. `steady`: a healthy card's reading
    may stay the same for long. `duties`: of the stages in which it is judged.
    """

    impossible: float | None
    steady: bool = False
    duties: tuple[Duty, ...] = DUTIES


SENSORS: Mapping[str, Sensor] = {
    "core_temperature": Sensor(300.0),
    "memory_temperature": Sensor(300.0),
    "power": Sensor(9999.0),
    "sm_clock": Sensor(30000.0, steady=True),
    "utilization": Sensor(250.0, steady=True, duties=("fed",)),
    "clock_event_reasons": Sensor(None, steady=True),
}
