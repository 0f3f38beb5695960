"""What a card did in earlier runs under the conditions of this one, as the run records it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated

from pydantic import Field, TypeAdapter

from rigproof.records.measurements import Event, FigureRate
from rigproof.records.verdict import count_of

EARLIER_RATES = "earlier_rates"  # the kind of the event, one for each card
Known = Annotated[float, Field(allow_inf_nan=False)] | None


@dataclass(frozen=True, slots=True)
class EarlierRate:
    """A rate of one run, and the means while it was measured."""

    run_id: str
    value: Annotated[float, Field(ge=1e-9, le=1e15)]
    sm_clock_mhz: Known = None
    core_temperature_c: Known = None


@dataclass(frozen=True, slots=True)
class EarlierRates:
    """A card's earlier rates in one figure, of the same work under the same conditions, oldest first.

    `labels`: all values of its rounds' labels. `others`: which conditions its other runs had, in words.
    """

    figure: str  # FigureKind.name
    unit: str
    labels: Mapping[str, Sequence[str | int]] = field(hash=False)
    runs: tuple[EarlierRate, ...]
    others: str = ""

    def same_work(self, rate: FigureRate) -> bool:
        """Whether a rate is one of this work."""
        known = ((self.labels[name], value) for name, value in rate.labels.items() if name in self.labels)
        return rate.unit == self.unit and all(list(values) == [value] for values, value in known)


@dataclass(frozen=True, slots=True)
class Earlier:
    """All figures of a card; and what of its history cannot be read, a sentence each."""

    figures: tuple[EarlierRates, ...]
    problems: tuple[str, ...] = ()


_DATA = TypeAdapter(Earlier)


def earlier_event(subject: str, earlier: Earlier, t_s: float) -> Event:
    """The event that records what a card is compared with."""
    runs = {one.run_id for each in earlier.figures for one in each.runs}
    message = f"{count_of(len(runs), 'earlier runs')} of {subject} were under the same conditions"
    return Event(t_s, EARLIER_RATES, subject, message, data=asdict(earlier))


def recorded_earlier(events: Iterable[Event]) -> dict[str, Earlier]:
    """By subject, what was recorded. Raises ValueError (or pydantic's) if an event is damaged."""
    own = (event for event in events if event.kind == EARLIER_RATES)
    return {event.subject: _DATA.validate_python(event.data) for event in own}
