"""What a criterion is: a named, documented, pure function from the evidence about a subject to a Finding."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.kinds.stages import Duty, StageKinds
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.subjects import Scope
from rigproof.profiles.tables.base import LimitKey
from rigproof.records.measurements import FigureRate
from rigproof.records.verdict import Direction, Outcome, Severity

Idling = Literal["", "fails", "not measured"]
TITLE_MAX = 20  # beside eight GPUs there is room for no more in a terminal of 80 columns


class NotMeasured(Exception):  # noqa: N818 - an outcome, not an error
    """Raised if the evidence does not suffice; the report shows the reason, and its cause if known."""

    outcome: ClassVar[Outcome] = Outcome.NOT_MEASURED
    of_run: ClassVar[bool] = False
    remedy: str = ""
    from_s: float | None = None

    def __init__(self, reason: str, cause: str = "") -> None:
        self.reason = f"{reason}: {cause}" if cause else reason
        super().__init__(self.reason)

    def worded(self, reason: str) -> "NotMeasured":
        """A copy of this exception with another reason."""
        found = type(self).__new__(type(self), reason)
        vars(found).update(vars(self) | {"reason": reason})
        return found


class NotApplicable(NotMeasured):
    """Raised if the hardware cannot measure it at all, and the profile does not promise that it can."""

    outcome = Outcome.NOT_APPLICABLE


class NotRead(NotMeasured):
    """Raised if what is read once before and once after the whole run is missing, or contradicts itself."""

    of_run = True


class Disturbed(NotMeasured):
    """Raised if something that is not the rig kept the run from measuring, such as a foreign process.

    `remedy`: what to do before the next run. `from_s`: when in the run it was first seen.
    """

    def __init__(self, reason: str, remedy: str, from_s: float | None = None) -> None:
        super().__init__(reason)
        self.remedy = remedy
        self.from_s = from_s


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit in its criterion's unit, and the file or reading that it comes from.

    `direction`: of an edge of a range; None: the criterion's.
    """

    value: float
    source: str
    direction: Direction | None = None

    def times(self, factor: float, note: str = "") -> "Limit":
        """This limit in another unit, or a share of it; `note` is appended to the source."""
        return Limit(self.value * factor, f"{self.source}{note}", self.direction)


class Finding(NamedTuple):
    """What a criterion found. `measured` and `limit` are in `unit`, times in run time.

    A large rig has a million: a dataclass would take three times as long.

    `rates`: what it measured of each of its figures. `excused`: why the figure is good although it is beyond
    its limit; the verdict then has that reason instead of the limit. `over`: of a mean, the spans of run time
    in which it was measured. `of_run`: it was read before and after the whole run, of no lap in particular.
    """

    outcome: Outcome
    measured: float | None = None
    limit: Limit | None = None
    detail: str = ""
    remedy: str = ""  # empty: the criterion's own
    source: str = ""  # of a limit that is not a number
    from_s: float | None = None
    length_s: float | None = None
    rates: tuple[FigureRate, ...] = ()
    excused: str = ""
    severity: Severity | None = None  # of the remedy; None: the criterion's own
    over: Sequence[tuple[float, float]] = ()
    of_run: bool = False
    unit: str = ""  # empty: the criterion's


@dataclass(frozen=True, slots=True)
class Trouble:
    """A failure or warning, and the stages that its criterion judges."""

    finding: Finding
    stages: tuple[str, ...]


def pass_or_fail(measured: float, limit: Limit, *, good: bool, detail: str = "", **more: Any) -> Finding:
    """PASS if `good`, else FAIL; a figure that is not finite was not measured."""
    if not math.isfinite(measured):
        raise NotMeasured(f"the figure is {measured}, which is not a valid measurement")
    return Finding(Outcome.PASS if good else Outcome.FAIL, measured, limit, detail, **more)


def gravest(findings: Iterable[Finding | None]) -> Finding | None:
    """The first failure, else the first finding; None if there is none. So no warning hides a failure."""
    found = [one for one in findings if one is not None]
    return min(found, key=lambda one: one.outcome is not Outcome.FAIL, default=None)


def by_the_rule(_loaded: LoadedRig, _device: PromisedDevice) -> Limit | None:
    """For a criterion whose limit is the key with which its rule begins, if it begins with one."""
    return None


def every_device(_device: PromisedDevice) -> bool:
    """For a criterion that applies to every promised device."""
    return True


def not_written(_about: Any) -> Finding:
    """For a criterion whose function is not known yet."""
    raise NotImplementedError


def all_of_them(_loaded: LoadedRig, devices: Sequence[PromisedDevice]) -> Sequence[PromisedDevice]:
    """For a criterion that does not depend on other devices."""
    return devices


@dataclass(frozen=True, slots=True)
class Criterion:
    """One criterion of the catalogue. As a decorator it makes a function the criterion's.

        @Criterion("power.draw", title="power draw", …)
        def draw(device: DeviceEvidence) -> Finding:
            \"""What the catalogue and docs/criteria.md say that it judges.\"""

    `title`: what tables call it, at most TITLE_MAX characters. `key_figure`: every table shows it.
    `headline`: what it found stands in the verdict line of an accepted rig.
    `severity`: what kind of action `remedy` is, where a finding does not state its own.
    `direction`: how a figure meets the limit; None for a criterion without numeric limits.
    `applies_to_cpu`: also promised if the CPU is the device (for a node: if it has no CUDA GPU; for a pair or
    group: if that is so for one of its members).
    `judges_absence`: this criterion reports a missing node or GPU; all others are then not measured.
    `stages`, those whose duty is one of `needs`, and those of the run whose duty is one of `duties`: without
    a complete load in each of them it can fail, but not pass. It is promised if the level has all of
    `stages` and one of each of `needs`.
    `holds_for`: whether it is promised for a device of this kind. `eligible`: of those, the ones for which a
    rig promises it; a comparison of devices needs several.
    `rate`: if its figure misses the limit by less than `limits.marginal_share` of it, its stage is measured
    once more, and a figure that is good only once warns.
    `of_all_attempts`: it judges all attempts at a stage together; else each is judged, and the worst counts.
    `steady`: the setting of its stage that says how much of its best lap's figure each lap must reach.
    `figures`: the figures whose floors its measurements are compared with. `sum_of`: the criterion whose
    figures it sums.
    `surroundings`: it judges what others did to the measurement, which is no fault of the rig: it can warn or
    be not measured (`Disturbed`), never fail.
    `caused_by_others`: why a failure or warning was not caused by the subject, in words, or None; it is then
    not measured.
    `idling`: the outcome that it has of a device that idles, if that changes it.
    `limit`: the rule in words. `limits`: the limits of the profile that it reads, in the order of the rule.
    If the rule begins with the first of them, that is the limit of its verdicts; `planned` computes from the
    profile a limit that is none of them, for a device.
    """

    name: str
    _: KW_ONLY
    title: str
    scope: Scope = "device"
    unit: str = ""
    limit: str
    limits: tuple[LimitKey[Any], ...] = ()
    remedy: str
    severity: Severity
    unmeasured: str
    find: Callable[[Any], Finding] = not_written
    summary: str = ""
    direction: Direction | None = None
    idling: Idling = ""
    stages: tuple[str, ...] = ()
    needs: tuple[Duty, ...] = ()
    duties: tuple[Duty, ...] = ()
    applies_to_cpu: bool = True
    judges_absence: bool = False
    surroundings: bool = False
    holds_for: Callable[[PromisedDevice], bool] = every_device
    eligible: Callable[[LoadedRig, Sequence[PromisedDevice]], Sequence[PromisedDevice]] = all_of_them
    rate: bool = False
    of_all_attempts: bool = False
    steady: str = ""
    figures: tuple[FigureKind, ...] = ()
    sum_of: str = ""
    caused_by_others: Callable[[Any, Trouble], str | None] | None = None
    key_figure: bool = False
    headline: bool = False
    planned: Callable[[LoadedRig, PromisedDevice], Limit | None] = by_the_rule

    def __call__(self, find: Callable[[Any], Finding]) -> "Criterion":
        """The criterion that judges by this function; its docstring is the summary."""
        return replace(self, find=find, summary=" ".join((find.__doc__ or "").split()))

    @property
    def main_limit(self) -> LimitKey[Any] | None:
        """The limit of its verdicts; None if that is not one of its limits alone."""
        return next((key for key in self.limits if self.limit.startswith(f"`{key}`")), None)

    def loads(self, stages: Collection[str], kinds: StageKinds) -> tuple[str, ...]:
        """The stages that it judges at a level with these; empty if one that it needs is missing."""
        needed = [kinds.with_duty(stages, (duty,)) for duty in self.needs]
        if not set(self.stages) <= set(stages) or not all(needed):
            return ()
        others = (*(one for found in needed for one in found), *kinds.with_duty(stages, self.duties))
        return tuple(dict.fromkeys((*self.stages, *others)))

    @property
    def floored(self) -> bool:
        """Whether one of its figures is compared with a floor that a rig can state and a champion can set."""
        return any(figure.floor for figure in self.figures)

    @property
    def needs_load(self) -> bool:
        """Whether it judges a load at all."""
        return bool(self.stages or self.needs or self.duties)

    @property
    def compares(self) -> bool:
        """Whether the verdict about one subject depends on the figures of others."""
        return self.scope == "rig" or self.eligible is not all_of_them

    @property
    def family(self) -> str:
        """The part of the name before the dot; also its heading in docs/criteria.md."""
        return self.name.partition(".")[0]
