"""What a fault is: whom it hits, in which stages it can act, its keys, and what it is there for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rigproof.profiles.kinds.stages import Duty
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice

Scope = Literal["gpu", "node"]
Key = Literal["stage", "after", "for", "by", "to", "code", "field"]
Ends = Literal["fails", "warns", "not measured"]
Stages = Mapping[str, Duty]  # by name, in the order in which they run
# Why nothing could notice a fault on this device of this rig, in words; empty where something can. A fault
# of a node has no device.
Lacks = Callable[[LoadedRig, PromisedDevice | None], str]
# The same of a fault of a sensor, by the stage that it acts in and those that the level has.
Unseen = Callable[[str, str, Stages], str]

TIMES: tuple[Key, ...] = ("stage", "after", "for")
FROM: tuple[Key, ...] = ("stage", "after")
MID: Mapping[str, str] = {"after": "50%"}
PART: Mapping[str, str] = {"after": "40%", "for": "30%"}

CONTINUOUS: tuple[Duty, ...] = ("continuous",)
FED: tuple[Duty, ...] = ("fed",)
REPEATING: tuple[Duty, ...] = ("continuous", "arms")  # where the same products are done again and again


@dataclass(frozen=True, slots=True)
class Variant:
    """A fault with other keys than its defaults, as one writes them behind the colon, and why it differs."""

    keys: str
    why: str


@dataclass(frozen=True, slots=True)
class Late:
    """What differs where a fault begins in the last fifth of the continuous stage.

    `keys`: those that it needs to be noticed; `criterion`: the one that notices it in place of its own.
    """

    why: str
    keys: str = "after=80%"
    criterion: str | None = None


@dataclass(frozen=True, slots=True)
class Noticed:
    """How a fault shows in a stage, where that is not what its kind says.

    `keys`: those that it needs there beside `stage=`. `criterion`: the one that notices it in place of those
    that it is there for. `ends`: how that one ends.
    """

    keys: str = ""
    criterion: str | None = None
    ends: Ends | None = None


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A fault by name.

    `trips`: the criteria that it is there for, all of which end as `ends` says; on the fault's own subject,
    or on the rig where they judge that. What it changes beside them, other criteria say of themselves
    (`Criterion.also`), and `why` explains it. `variants`: what it does with other keys.

    `duties`: of the stages in which it can act. `stage`: the one stage whose own it is, in place of duties.
    With neither it is there for the whole run. `defaults`: values of keys that nobody gives.
    """

    name: str
    scope: Scope
    what: str
    trips: tuple[str, ...]
    ends: Ends = "fails"
    keys: tuple[Key, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    duties: tuple[Duty, ...] = ()
    stage: str | None = None
    lacks: Lacks | None = None
    unseen: Unseen | None = None  # of a fault with the key `field`
    brief: bool = False  # it ends by itself: its length stays where only `after` is given
    of_task: bool = False  # it hits what a worker does in its stage, and not what follows
    delays: bool = False  # `by` can be a delay too
    absent: tuple[str, ...] = ()  # scopes of criteria whose subjects are not there at all
    everywhere: bool = False  # it shows on every device of the rig
    why: str = ""
    variants: tuple[Variant, ...] = ()
    late: Late | None = None

    def acts_in(self, stages: Stages) -> tuple[str, ...]:
        """Of these stages, those in which it can act."""
        if self.stage is not None:
            return (self.stage,) if self.stage in stages else ()
        return tuple(name for name, duty in stages.items() if duty in self.duties)

    def home(self, stages: Stages) -> str:
        """Of all stages, the one in which `after` counts where nobody says: the continuous one, if it can."""
        duties = CONTINUOUS if self.anywhere else self.duties
        return self.stage or next(name for name, duty in stages.items() if duty in duties)

    @property
    def anywhere(self) -> bool:
        """Whether it may act in the continuous stage and go on in those behind it, as most do."""
        return not self.stage and (not self.duties or "continuous" in self.duties)


Faults = Mapping[str, FaultKind]  # by name
