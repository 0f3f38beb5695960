"""The rate that each device sustains under a continuous load, and the rates of its peers."""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.clocks import Spans
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.power_limits import share_left
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.windows import Window, work_by_slice
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.planning import device_plan

Work = tuple[str, int, int | None]  # SKU file, workers, matrix size
LEAST_SETTLED_SHARE = 0.5  # of the load: a warm-up takes a third of it at most (SETTLE_SHARE)
PeerGroup = tuple[Work, str]  # and precision
GroupOf = Callable[[DeviceEvidence], tuple[Hashable, float] | None]  # what it is compared in, and its rate


@dataclass(frozen=True, slots=True)
class SustainedRate:
    """TFLOP/s of all workers of a device together, and the precision in which they worked."""

    tflops: float
    precision: str


class Steady:
    """The verified rounds of a device's continuous load: when each began and ended, and its rate, (n,) each.

    `from_s`: when the first measured one began, infinite if there is none, or the load, if that was later;
    `to_s`: when the load ended. Where its host stood still, what came later is moved to before that, as if no
    time had passed.
    """

    def __init__(self, verified: Rounds, window: Window, uncounted: Spans) -> None:
        """`window`: of the load; `uncounted`: when its host stood still."""
        self._begins_s, self._ends_s, self._rates = verified.begins_s, verified.t_s, verified.rates
        self.from_s = max(window.from_s, float(verified.measured.begins_s.min(initial=math.inf)))
        self.to_s = window.to_s
        if self.from_s < self.to_s:
            for from_s, to_s in uncounted[::-1].clip(self.from_s, self.to_s).tolist():
                self._begins_s, self._ends_s = (
                    one - (one - from_s).clip(0, to_s - from_s) for one in (self._begins_s, self._ends_s)
                )
                self.to_s -= to_s - from_s

    def rates(self, number: int) -> list[float]:
        """TFLOP/s in each of so many equal parts of the load."""
        windows = Window(self.from_s, self.to_s).parts(number)
        work = work_by_slice(self._begins_s, self._ends_s, self._rates, windows)
        return [done / one.length_s for done, one in zip(work, windows, strict=True)]


def steady(device: DeviceEvidence) -> Steady:
    """Its work in the continuous load. NotMeasured if that was aborted, or a round is not valid."""

    def made() -> Steady:
        stage = device.evidence.steady_stage
        window = device.evidence.complete_window(stage)
        return Steady(device.possible(stage).verified, window, device.uncounted)

    return device.cached("steady", made)


def settled(device: DeviceEvidence) -> tuple[Window, Rounds]:
    """The part of the continuous load after this device's warm-up, and its verified rounds.

    Once the device has settled, all verified work counts, that of a replaced worker too.
    """
    return device.cached("settled", lambda: _settled(device))


def _settled(device: DeviceEvidence) -> tuple[Window, Rounds]:
    stage = device.evidence.steady_stage
    window = device.evidence.complete_window(stage)
    verified = device.possible(stage).verified
    start_s = steady(device).from_s
    if start_s == math.inf:
        raise device.unmeasured(f"no verified rounds in the {stage} stage")
    if start_s >= window.to_s:
        raise NotMeasured("its first verified round began after the load had ended")
    if window.to_s - start_s < LEAST_SETTLED_SHARE * window.length_s:
        raise NotMeasured(
            f"it measured only {window.to_s - start_s:.0f} of {window.length_s:.0f} s of load, because its "
            "warm-up took too long"
        )
    return Window(start_s, window.to_s), verified


def sustained_rate(device: DeviceEvidence) -> SustainedRate:
    """The device's rate over the time that it was under load. NotMeasured if it has none."""

    def measured() -> SustainedRate:
        _, verified = settled(device)
        whole = steady(device).rates(1)
        if not whole:
            raise NotMeasured("its host stood still throughout the load")
        (rate,) = whole
        precision = _one_precision(verified)
        if not device.is_cpu:  # its workers together cannot exceed the silicon either
            device.silicon.require_possible([(precision, rate)])
        return SustainedRate(rate, precision)

    return device.evidence.shared_figure("sustained rate", device.subject, measured)


def rate_or_none(device: DeviceEvidence) -> SustainedRate | None:
    """The device's sustained rate; None if it was not measured."""
    try:
        return sustained_rate(device)
    except NotMeasured:
        return None


def _one_precision(rounds: Rounds) -> str:
    """NotMeasured if there are several: a floor applies to one, and their rates differ by a factor of ten."""
    precision, *others = sorted(str(one) for one in rounds.distinct_labels("precision"))
    if others:
        names = ", ".join([precision, *others])
        raise NotMeasured(f"its rounds are in {names}, but a rate is for a single precision")
    return precision


# Of one precision


@dataclass(frozen=True, slots=True)
class PrecisionRate:
    """Measured, verified and possible rounds of one precision, and their rate as in `Rounds.rate`."""

    rounds: Rounds
    tflops: float


def precision_rate(device: DeviceEvidence, precision: str) -> PrecisionRate | None:
    """A precision's rate in the stage that measures each one alone; None without such rounds."""

    def measured() -> PrecisionRate | None:
        rounds = device.possible(_stage_of_arms(device.evidence), precision).verified.measured
        rounds = rounds.having(precision=precision)
        return PrecisionRate(rounds, rounds.rate()) if len(rounds) else None

    return device.cached(("precision rate", precision), measured)


def _stage_of_arms(evidence: Evidence) -> str:
    return next((one for one in evidence.stages if evidence.kinds[one].arms == "precision"), "")


# Peers


def work_of(loaded: LoadedRig, device: PromisedDevice) -> Work | None:
    """What the profile plans for a GPU, as far as its rate depends on it; None if it has no peers.

    The CPU has none, nor has a card without a SKU file: two of those may differ in anything.
    """
    if device.gpu.device != "cuda" or device.sku_stem is None:
        return None
    plan = device_plan(loaded, device)
    return device.sku_stem, plan.workers, plan.gemm_size


def with_peers(loaded: LoadedRig, devices: Sequence[PromisedDevice]) -> list[PromisedDevice]:
    """The devices for which the profile has another one of the same SKU with the same work.

    Empty for recordings whose profile is from before `limits.peer_share` existed.
    """
    works = [None if device.limits.peer_share is None else work_of(loaded, device) for device in devices]
    number = Counter(works)
    return [
        device for device, work in zip(devices, works, strict=True) if work is not None and number[work] > 1
    ]


def of_sustained(device: DeviceEvidence) -> tuple[PeerGroup, float] | None:
    """The group in which its sustained rate is compared, and that rate; None if it has none, or no peers."""
    rate = rate_or_none(device)
    work = work_of(device.evidence.loaded, device.device)
    return None if rate is None or work is None or not device.found else ((work, rate.precision), rate.tflops)


@dataclass(frozen=True, slots=True)
class Peers:
    """Other devices with the same work as one: how many, and the rate that half of them reach.

    Of an even number it is the higher one of the two in the middle: of two slow cards of three, each then
    lacks what the third one has. Their rates are what this device's power limit leaves of them
    (`share_left`), so that cards under several limits are compared.
    """

    number: int
    middle: float

    @property
    def in_words(self) -> str:
        """`the other one`, `the faster one of 2 others`, or `the median of 7 others`."""
        few = {1: "the other one", 2: "the faster one of 2 others"}
        return few.get(self.number) or f"the median of {self.number} others"


def peers_of(device: DeviceEvidence, name: Hashable, group_of: GroupOf) -> Peers | None:
    """The device's peers by the rate of that name; None if it has none, or is the only one that has."""
    evidence, own = device.evidence, group_of(device)
    if own is None:
        return None
    group, rate = own
    members = evidence.cached(("peers", name), lambda: _members(evidence, group_of))[group]
    limits_w = (device.identity.power_limit_w, device.identity.power_limit_default_w)

    def under_own_limit() -> list[float]:
        left = ((one, share_left(device, limit_w)) for one, limit_w in members)
        return sorted(one * share for one, share in left if share is not None)

    rates = evidence.cached(("peers", name, group, limits_w), under_own_limit)
    number = len(rates) - 1
    return Peers(number, median_of_others(rates, rate)) if number else None


def _members(
    evidence: Evidence, group_of: GroupOf
) -> Mapping[Hashable, Sequence[tuple[float, float | None]]]:
    """By group, the rate and the enforced power limit of each device that has one."""
    groups: dict[Hashable, list[tuple[float, float | None]]] = defaultdict(list)
    for device in evidence.devices:
        found = group_of(device) if device.found and not device.is_cpu else None
        if found is not None:
            group, rate = found
            groups[group].append((rate, device.identity.power_limit_w))
    return groups


def median_of_others(rates: Sequence[float], own: float) -> float:
    """The median of sorted rates without one that equals `own`: of two the higher one. In O(log n)."""
    place, middle = bisect_left(rates, own), (len(rates) - 1) // 2
    return rates[middle if middle < place else middle + 1]
