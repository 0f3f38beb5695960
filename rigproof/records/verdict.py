"""Verdicts: the result of one criterion on one subject, and the decision on the rig that follows from all."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from rigproof.records.measurements import FigureRate


class Outcome(StrEnum):
    """The result of a criterion. Only PASS, WARN and NO_LIMIT count in favour of a rig."""

    PASS = "pass"  # noqa: S105 - an outcome, not a password
    WARN = "warn"
    FAIL = "fail"
    NOT_MEASURED = "not_measured"  # it should have been
    NOT_APPLICABLE = "not_applicable"  # the hardware cannot provide it, and it was not promised
    NO_LIMIT = "no_limit"


# What kind of action a failure or warning asks for.
Severity = Literal["config", "warn", "reset", "reseat", "isolate", "rma"]
SEVERITIES: dict[Severity, str] = {
    "config": "change a setting, a program, the plan or the profile: the hardware may be sound",
    "warn": "nothing yet: watch whether it comes back or grows",
    "reset": "reset the GPU, or restart the machine or a service of its driver",
    "reseat": "work on the machine by hand: its cooling, seat, cables, power",
    "isolate": "take it out of use until the cause is found",
    "rma": "have the card replaced",
}
# A figure meets its limit if it is so: at least as high, at most as high, equal.
Direction = Literal["at_least", "at_most", "equal"]
SIGNS: dict[Direction, str] = {"at_least": "≥", "at_most": "≤", "equal": "="}

FOLLOWS = "follows from "  # begins the remedy of a failure that another one explains
GOOD_IN = "good in lap"  # begins the detail of what was good until the run ended before its last lap
DIGITS_MORE_MAX = 9  # two numbers that need more to be told apart look the same
UNJUDGED = (Outcome.NOT_MEASURED, Outcome.NOT_APPLICABLE)  # their `detail` says why


class Decision(StrEnum):
    """The run's decision on the rig."""

    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    INCOMPLETE = "INCOMPLETE"


# The exit status of a run or `rigproof judge`; an interrupted run has INTERRUPTED.
EXIT_STATUS = {Decision.ACCEPTED: 0, Decision.REJECTED: 1, Decision.INCOMPLETE: 6}
INTERRUPTED = 2
USAGE = 4  # refused before any load


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one criterion on one subject. `measured` and `limit` are in `unit`.

    `direction`: how a figure meets the limit; None if there is none. `rates`: the measured rate of each
    figure that can become a champion. `severity`: of a failure or warning that asks for an action of its own.
    `of_run`: found in what is read before and after the whole run, so of no lap in particular.
    """

    criterion: str
    subject: str
    outcome: Outcome
    unit: str = ""
    measured: float | None = None
    limit: float | None = None
    limit_source: str = ""
    detail: str = ""
    remedy: str = ""
    from_s: float | None = None  # when in the run the fault was seen
    length_s: float | None = None
    direction: Direction | None = None
    severity: Severity | None = None
    rates: tuple[FigureRate, ...] = field(default=(), compare=False)
    of_run: bool = field(default=False, compare=False)

    def __reduce__(self) -> tuple[type["Verdict"], tuple[Any, ...]]:
        """Pickle only the fields, three times as fast as the default: there may be hundreds of thousands."""
        return Verdict, tuple(getattr(self, name) for name in self.__slots__)

    @property
    def follows(self) -> bool:
        """Whether another failure explains this one."""
        return self.remedy.startswith(FOLLOWS)

    @property
    def good_so_far(self) -> bool:
        """Whether it was not measured only because the run ended before its last lap. It has the figure of
        the laps before.
        """
        return self.outcome is Outcome.NOT_MEASURED and self.detail.startswith(GOOD_IN)

    @property
    def family(self) -> str:
        """The part of the name before the dot."""
        return self.criterion.partition(".")[0]


def figure(value: float, unit: str = "", more_digits: int = 0) -> str:
    """A number for people to read: about three significant digits, under a tenth two, then its unit.

    A unit that is a plural word loses its "s" after 1: `1 worker`, but `1 s`, `1 TFLOP/s`.
    """
    if not math.isfinite(value):
        return f"{value} {unit}".rstrip()
    digits = 0 if abs(value) >= 99.95 or value == int(value) else (1 if abs(value) >= 9.995 else 2)
    if abs(value) < 0.0995 and round(value, 2) != value:
        digits = min(4, 1 - math.floor(math.log10(abs(value))))
    if value == 1 and len(unit) > 2 and unit.isalpha():
        unit = _singular(unit)
    return f"{value:.{digits + more_digits}f} {unit}".rstrip()


def count_of(number: float, plural: str) -> str:
    """A number of things: `2 verified rounds`, but `1 verified round`."""
    shown = f"{number:g}" if isinstance(number, float) else f"{number}"
    return f"{shown} {_singular(plural) if number == 1 else plural}"


def _singular(plural: str) -> str:
    """The singular of a noun with a regular plural; any other word is left as it is."""
    for ending, one in (("sses", "ss"), ("ches", "ch"), ("ies", "y"), ("s", "")):
        if plural.endswith(ending):
            return plural.removesuffix(ending) + one
    return plural


def compared(value: float, unit: str, more_digits: int) -> str:
    """A figure beside another one, with more digits; a whole number needs none."""
    return figure(value, unit, 0 if math.isfinite(value) and value == int(value) else more_digits)


def meets(value: float, limit: float, direction: Direction) -> bool:
    """Whether a figure is within its limit; the limit itself is."""
    match direction:
        case "at_least":
            return value >= limit
        case "at_most":
            return value <= limit
        case "equal":
            return value == limit


def limit_text(limit: float, unit: str, direction: Direction | None, more_digits: int = 0) -> str:
    """A limit for people to read: `≤ 80 °C`, `≥ 0.50 GiB`; `0` where none is allowed."""
    if direction == "at_most" and limit == 0:
        return "0"
    text = compared(limit, unit, more_digits)
    return text if direction is None else f"{SIGNS[direction]} {text}"


def figure_and_limit(value: float, limit: float, unit: str, direction: Direction | None) -> list[str]:
    """Both for people to read, with as many digits as it takes to distinguish them.

    What a percentage is of stands behind the limit: `7.97 %`, `limit ≥ 30 % of the power limit`.
    """
    more_digits = digits_to_distinguish([(value, limit)])
    own_unit = "%" if unit.startswith("% ") else unit
    return [
        compared(value, own_unit, more_digits),
        f"limit {limit_text(limit, unit, direction, more_digits)}",
    ]


def digits_to_distinguish(pairs: Iterable[tuple[float, float]]) -> int:
    """The fewest `more_digits` with which no two numbers of a pair read as the same one, unless they are.

    With the same digits for both, none is rounded past the other.
    """
    unlike = [pair for pair in pairs if _look_different(*pair, DIGITS_MORE_MAX)]
    enough = (
        more_digits
        for more_digits in range(DIGITS_MORE_MAX)
        if all(_look_different(one, other, more_digits) for one, other in unlike)
    )
    return next(enough, DIGITS_MORE_MAX)


def _look_different(one: float, other: float, more_digits: int) -> bool:
    return float(compared(one, "", more_digits)) != float(compared(other, "", more_digits))


def sentence(verdict: Verdict) -> str:
    """The sentence that every output shows: measured, required, when, what was seen. And the next step.

    `gpu2 memory.no_oom: 49 OOMs, limit 0 (from t=35 s): 128 MiB wanted, 72 MiB free. End that process.`
    """
    parts = []
    if verdict.measured is not None:
        if verdict.limit is not None:
            parts += figure_and_limit(verdict.measured, verdict.limit, verdict.unit, verdict.direction)
        else:
            parts.append(figure(verdict.measured, verdict.unit))
            if verdict.outcome is Outcome.PASS and verdict.limit_source:  # why it is good without a limit
                parts.append(verdict.limit_source)
    elif verdict.outcome in UNJUDGED:
        parts.append(verdict.outcome.value.replace("_", " "))
    first, rest = (", ".join(parts), verdict.detail) if parts else (verdict.detail, "")
    first = " ".join(filter(None, [first, _when(verdict)]))
    text = f"{verdict.subject} {verdict.criterion}: " + ": ".join(filter(None, [first, rest]))
    return with_remedy(text, "" if verdict.outcome in (Outcome.PASS, Outcome.NO_LIMIT) else verdict.remedy)


def with_remedy(text: str, remedy: str) -> str:
    """A text, then the next step as a sentence of its own, if there is one."""
    return f"{text.rstrip('.: ')}. {remedy[0].upper()}{remedy[1:]}." if remedy else text


def sentence_and_severity(verdict: Verdict) -> str:
    """The sentence, then what kind of action it asks for: `… Reset the GPU. [reset]`."""
    return sentence(verdict) + (f" [{verdict.severity}]" if verdict.severity else "")


def _when(verdict: Verdict) -> str:
    """`(from t=92 s, 41 s long)`; empty if it has no point in time."""
    when = []
    if verdict.from_s is not None:
        when.append(f"from t={verdict.from_s:.0f} s")
    if verdict.length_s is not None and verdict.length_s >= 1:
        when.append(f"{verdict.length_s:.0f} s long")
    return f"({', '.join(when)})" if when else ""


def counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """The number of verdicts with each outcome, zeros included."""
    counted = Counter(verdict.outcome for verdict in verdicts)
    return {outcome.value: counted[outcome] for outcome in Outcome}


def decide(
    verdicts: Sequence[Verdict], *, interrupted: bool = False, problems: Sequence[str] = ()
) -> Decision:
    """REJECTED if anything failed; INCOMPLETE if something was not measured, or nothing was at all.

    `problems`: what else than the rig kept the run from its end, or from being kept. One that ended early
    proves nothing, and one that was not kept cannot be shown to anyone.
    """
    outcomes = [verdict.outcome for verdict in verdicts]
    if Outcome.FAIL in outcomes:
        return Decision.REJECTED
    measured = any(outcome not in UNJUDGED for outcome in outcomes)
    if interrupted or problems or Outcome.NOT_MEASURED in outcomes or not measured:
        return Decision.INCOMPLETE
    return Decision.ACCEPTED
