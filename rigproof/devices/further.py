"""What a stage asks for once the turns of its plan are over."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rigproof.devices.specs import Spec
from rigproof.records.crews import Turn
from rigproof.records.measurements import Event


@dataclass(frozen=True, slots=True)
class Further:
    """One more turn of a stage, with each member's task, and what to say of the turns before it.

    Without a turn the stage is over. The events get the time at which they are said.
    """

    specs: Mapping[str, Spec] = field(default_factory=dict)
    turn: Turn = ()
    events: tuple[Event, ...] = ()
