"""What the evidence about a device and the evidence about a node have in common: readings, limits, events."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.criteria.evidence.series import Floats, Readings, places_within, require_finite
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.loading.loaded import PromisedDevice
from rigproof.profiles.tables.base import LimitKey
from rigproof.profiles.tables.node import Node
from rigproof.records.measurements import Event
from rigproof.records.rows import Rows

if TYPE_CHECKING:  # evidence builds these
    from rigproof.criteria.evidence.evidence import Evidence

Value = TypeVar("Value")


class SubjectEvidence(ABC):
    """The evidence about one promised device or node."""

    def __init__(self, evidence: "Evidence", subject: str, promise: PromisedDevice | Node) -> None:
        self.evidence = evidence
        self.subject = subject
        self.promise = promise

    @property
    @abstractmethod
    def samples(self) -> Rows[Any]:
        """Its samples of the whole run, in the order of time."""

    def stated(self, key: LimitKey[Value]) -> tuple[Value, str]:
        """What the profile states for it, a number or not, and the file that does."""
        return self.evidence.loaded.stated(key, self.promise)

    def optional_limit(self, key: LimitKey[float | None]) -> Limit | None:
        """A limit with the file that states it; None if none does."""
        value, file = self.stated(key)
        return None if value is None else Limit(float(value), file)

    def limit(self, key: LimitKey[float | None]) -> Limit:
        """A limit with the file that states it; NotMeasured if none does."""
        limit = self.optional_limit(key)
        if limit is None:
            raise NotMeasured(f"the profile has no {key}")
        return limit

    def recorded(self, field: str, window: Window | None = None) -> Readings:
        """The readings of one sensor, of the whole run or inside a window."""
        return Readings.of(self.samples, field, window)

    def readings(self, field: str, window: Window | None = None) -> Readings:
        """The readings of one sensor; NotMeasured if one is infinite."""
        found = self.recorded(field, window)
        require_finite(field, found.values)
        return found

    def sampled_s(self, window: Window) -> Floats:
        """When the samples inside a window were taken, run time."""
        return self.samples.column("t_s")[places_within(self.samples, window)]

    def events(self, *kinds: str) -> list[Event]:
        """Events that concern it."""
        return self.evidence.events.of(self.subject, *kinds)
