"""What the ranks trained together: who took part, how fast, and who computed other gradients."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.comparable import Dissent, Kind, dissent, kind_of
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.exchanges import all_reduced_gbps, bus_gb
from rigproof.criteria.evidence.fronts import Halt, halt_of
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, Rounds
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.criteria.evidence.valid_rounds import require_valid
from rigproof.profiles.planning.subjects import RIG
from rigproof.records.measurements import Event
from rigproof.stages.ddp.stage import (
    ALONE,
    APART,
    COMPARED,
    EXCHANGED,
    KIND,
    OWN,
    STAGE,
    TOGETHER,
    WATCHED_STEPS,
    Gradients,
)

EXCHANGE_SHARE = KIND.key(lambda own: own.exchange_share)
MIB_BYTES = 2**20
NUMBERS = ("rank", "ranks", "width", "batch", "gradients_mib", "exchange_s")
MOST_NAMED = 4
OF_BATCH = "own gradients of micro-batch"


@dataclass(frozen=True, slots=True)
class Rank:
    """What one device did: its examples in a step, the operations of that step, and its seconds for it.

    `alone_tflops`: its rate by itself. `apart_s`, `together_s`: of a step with its examples, without and with
    the exchange of gradients; `exchange_s`: of the exchange alone.
    """

    device: str
    number: int
    batch: int
    step_tflop: float
    alone_tflops: float
    apart_s: float
    together_s: float
    exchange_s: float
    gradients_mib: float


@dataclass(frozen=True, slots=True)
class Team:
    """All ranks, in their order, and what follows from them.

    `most_exchange_s`: the longest time of an exchange that is taken as given.
    """

    ranks: tuple[Rank, ...]
    most_exchange_s: float = math.inf

    @property
    def step_s(self) -> float:
        """A step together: the slowest rank's."""
        return max(one.together_s for one in self.ranks)

    @property
    def apart_s(self) -> float:
        """The slowest rank's step without an exchange."""
        return max(one.apart_s for one in self.ranks)

    @property
    def step_tflop(self) -> float:
        return sum(one.step_tflop for one in self.ranks)

    @property
    def fastest(self) -> Rank:
        return max(self.ranks, key=lambda one: one.alone_tflops)

    @property
    def exchange_s(self) -> float:
        """The exchange alone: the slowest rank's."""
        return max(one.exchange_s for one in self.ranks)

    @property
    def expected_times_alone(self) -> float:
        """`times_alone` if the exchange begins when the slowest rank has computed its gradients."""
        exchange_s = min(self.exchange_s, self.most_exchange_s)
        return self.step_tflop / (self.apart_s + exchange_s) / self.fastest.alone_tflops

    @property
    def times_alone(self) -> float:
        """How many times faster than the fastest device by itself."""
        return self.step_tflop / self.step_s / self.fastest.alone_tflops

    @property
    def exchange_share(self) -> float:
        """The share of a step for which the devices wait for gradients."""
        return max(0.0, 1 - self.apart_s / self.step_s)

    def accumulated(self, share: float) -> int:
        """How many steps to accumulate before each exchange, so that it costs no more than that share.

        With k of them a cycle takes (k - 1) steps without and one with an exchange.
        """
        waiting_s = max(0.0, self.step_s - self.apart_s)
        return max(1, -(-int(1e6 * waiting_s * (1 - share)) // max(1, int(1e6 * share * self.apart_s))))


def halt_in(team: SharedEvidence) -> Halt | None:
    """What ended the training early; None if nothing did, or a worker is gone, which others judge."""
    found = halt_of(team, STAGE)
    return None if found is None or found.how == "lost" else found


def team_of(team: SharedEvidence) -> Team:
    """The ranks of these devices. NotMeasured if one is missing, or told what cannot be."""
    rig, devices = team.evidence, [one.subject for one in team.members]
    rounds = _rounds(rig)
    told = {str(one.data.get("device")): one for one in rig.events.of(RIG, "ddp_rank")}
    missing = [one for one in devices if one not in told]
    if missing:
        _raise_missing(rig, missing)
    ranks = sorted((_rank(told[one], rounds) for one in devices), key=lambda one: one.number)
    if [one.number for one in ranks] != list(range(len(devices))):
        raise NotMeasured("the ranks do not say who is which")
    return Team(tuple(ranks), _most_exchange_s(rig, ranks))


def _most_exchange_s(rig: Evidence, ranks: list[Rank]) -> float:
    """What the exchange alone takes at a share of the rate of the run's own all-reduces; else any time."""
    share, _ = rig.loaded.stated(EXCHANGE_SHARE)
    mib = min(one.gradients_mib for one in ranks)
    gbps = all_reduced_gbps(rig, [one.device for one in ranks], mib)
    if share is None or not gbps:
        return math.inf
    return bus_gb(mib * MIB_BYTES / 1e9, len(ranks)) / (share * gbps)


def _raise_missing(rig: Evidence, missing: list[str]) -> None:
    for event in rig.events.of(RIG, "crew_failed"):
        if event.stage == STAGE:
            raise NotMeasured(f"the devices did not train together: {event.message}")
    rig.stage(STAGE)
    named = ", ".join(missing[:MOST_NAMED]) + (" and others" if len(missing) > MOST_NAMED else "")
    causes = (rig.device(one).cause() for one in missing)
    raise NotMeasured(f"{named} did not train with the others", next(filter(None, causes), ""))


def _rounds(rig: Evidence) -> Rounds:
    everything = rig.rounds(RIG)
    return require_valid(everything.only(everything.same("stage", STAGE)), STAGE, rig.kinds)


def _rank(event: Event, rounds: Rounds) -> Rank:
    data, device = event.data, str(event.data.get("device"))
    numbers = [data.get(name) for name in NUMBERS]
    if not all(isinstance(one, int | float) and one >= 0 for one in numbers) or not event.worker:
        raise NotMeasured(f"what {device} reported of its training is damaged")
    everything = rounds.only(rounds.same("worker", event.worker))
    if len(everything.verified) < len(everything):
        raise NotMeasured(f"losses of {device} are no finite numbers")
    own = everything.measured
    parts = {part: own.having(part=part) for part in (ALONE, APART, TOGETHER)}
    if not len(parts[APART]):  # every device has as many examples as alone
        parts[APART] = parts[ALONE]
    for part, done in parts.items():
        if len(done) < FEWEST_ROUNDS:
            raise NotMeasured(f"{len(done)} verified rounds of {device}'s steps {part}")
    if any(done.distinct_labels("size") != {data["width"]} for done in parts.values()):
        raise NotMeasured(f"rounds of {device} are not of the model of width {data['width']}")
    if any(parts[part].distinct_labels("batch") != {data["batch"]} for part in (APART, TOGETHER)):
        raise NotMeasured(f"rounds of {device} are not of {data['batch']} examples")
    steps_of = {part: sum(int(one or 0) for one in done.labels("steps")) for part, done in parts.items()}
    together = parts[TOGETHER]
    return Rank(
        device=device,
        number=int(data["rank"]),
        batch=int(data["batch"]),
        step_tflop=float(together.work.sum()) / steps_of[TOGETHER],
        alone_tflops=parts[ALONE].rate(),
        apart_s=float(parts[APART].seconds.sum()) / steps_of[APART],
        together_s=float(together.seconds.sum()) / steps_of[TOGETHER],
        exchange_s=float(data["exchange_s"]),
        gradients_mib=float(data["gradients_mib"]),
    )


@dataclass(frozen=True, slots=True)
class Difference:
    """A device whose gradients differ from those of others.

    `how`: from whom, in words. `undecided`: whether it may as well be the others that are wrong.
    """

    device: str
    what: str
    how: str
    undecided: bool
    t_s: float


def differences(rig: Evidence, norm_share: float | None) -> list[Difference]:
    """Devices with other gradients, the first difference of each, those first that a third device decided."""
    found: dict[str, Difference] = {}
    every = (*_exchanged(rig), *_own(rig, norm_share), *_losses(rig), *_overflown(rig))
    for one in sorted(every, key=lambda one: one.undecided):
        found.setdefault(one.device, one)
    return list(found.values())


def require_reported(rig: Evidence, team: Team) -> None:
    """NotMeasured if gradients of a rank are missing."""
    steps, size = _by_number(rig, EXCHANGED), len(team.ranks)
    for number in range(WATCHED_STEPS):
        every = {one.device for one in team.ranks}
        _require_all(steps.get(number, {}), every, f"exchanged gradients of step {number}")
    batches, kinds = _by_number(rig, OWN), _kinds(rig)
    for number in range(size):
        due = {team.ranks[(number - behind) % size].device for behind in range(min(COMPARED, size))}
        told = batches.get(number, {})
        _require_all(told, due, f"{OF_BATCH} {number}")
        none = [device for device in due if not _is_finite(told[device].norm)]
        if none and len({kinds.get(one, one) for one in due}) > 1:
            raise NotMeasured(
                f"the {OF_BATCH} {number} overflowed on {none[0]}: unlike devices compare norms"
            )


def _exchanged(rig: Evidence) -> Iterator[Difference]:
    """After the exchange every rank has to hold the same bits, whatever its model."""
    for number, told in _by_number(rig, EXCHANGED).items():
        yield from _dissenting(told, f"gradients after the exchange of step {number}")


def _overflown(rig: Evidence) -> Iterator[Difference]:
    """Exchanged gradients that are no finite numbers, on all ranks alike."""
    for number, told in _by_number(rig, EXCHANGED).items():
        yield from _no_numbers(rig, told, f"gradients after the exchange of step {number}")


def _losses(rig: Evidence) -> Iterator[Difference]:
    """Losses that are no finite numbers: alone each device's own; together one spreads them to all.

    Not of all devices alone: then the model's numbers are too large for their precision.
    """
    everything = rig.rounds(RIG)
    done = everything.only(everything.same("stage", STAGE))
    wrong = done.only(~done.same("verified", True))
    for part in (ALONE, APART, TOGETHER):
        own = wrong.having(part=part)
        devices: dict[str, float] = {}
        for worker, t_s in zip(own.all("worker"), own.t_s.tolist(), strict=True):
            devices.setdefault(worker.rpartition("#")[0], t_s)
        if part != TOGETHER and len(devices) == len(done.distinct("worker")):
            return
        for device, t_s in sorted(devices.items()):
            on_all = ", as all have" if len(devices) == len(done.distinct("worker")) else ""
            what, how = f"losses of steps {part}", f"has some that are no finite numbers{on_all}"
            yield Difference(device, what, how, undecided=len(devices) > 1, t_s=t_s)


def _own(rig: Evidence, norm_share: float | None) -> Iterator[Difference]:
    """Equal devices compute the same bits from the same examples; unlike ones nearly the same norm."""
    kinds = _kinds(rig)
    for number, told in sorted(_by_number(rig, OWN).items()):
        what = f"{OF_BATCH} {number}"
        alike: dict[Kind, dict[str, Gradients]] = defaultdict(dict)
        for device in kinds.keys() & told.keys():
            alike[kinds[device]][device] = told[device]
        for group in alike.values():
            yield from _dissenting(group, what)
        yield from _no_numbers(rig, told, what)
        norms = sorted((one.norm or 0.0, device) for device, one in told.items() if _is_finite(one.norm))
        if norm_share is None or not norms:
            continue
        (least, low), (most, high) = norms[0], norms[-1]
        if not most - least <= norm_share * most:
            how = f"norm {most:.4g}, and {least:.4g} on {low}: one of the two is wrong"
            yield Difference(high, what, how, undecided=True, t_s=told[high].t_s)


def _kinds(rig: Evidence) -> dict[str, Kind]:
    """What computes the same bits, by device. On a CPU libraries choose the algorithm by its instructions."""
    told = {str(one.data.get("device")): one.data for one in rig.events.of(RIG, "ddp_rank")}
    devices = [one.subject for one in rig.devices if one.subject in told and not one.is_cpu]
    return {one: kind_of(told[one].get("arithmetic") or {}) for one in devices}


def _no_numbers(rig: Evidence, told: Mapping[str, Gradients], what: str) -> Iterator[Difference]:
    """Gradients that are all zero, or whose norm is no finite number: of all ranks alike nobody knows why.

    In fp16 the latter is no error: GradScaler finds its scale by gradients that overflow.
    """
    zero = [device for device, one in told.items() if one.norm == 0]
    for device in zero:
        how = "has zeros alone" + (", as all have" if len(zero) == len(told) else "")
        yield Difference(device, what, how, undecided=len(zero) == len(told), t_s=told[device].t_s)
    none = [device for device, one in told.items() if not _is_finite(one.norm)]
    on_all = len(none) == len(told)
    for device in () if _in_fp16(rig) else none:
        how = "has some that are no finite numbers" + (", as all have" if on_all else "")
        yield Difference(device, what, how, undecided=on_all, t_s=told[device].t_s)


def _in_fp16(rig: Evidence) -> bool:
    rounds = rig.rounds(RIG)
    return "fp16" in rounds.only(rounds.same("stage", STAGE)).distinct_labels("precision")


def _is_finite(norm: float | None) -> bool:
    return norm is not None and math.isfinite(norm)


def _by_number(rig: Evidence, of: str) -> Mapping[int, dict[str, Gradients]]:
    found: dict[int, dict[str, Gradients]] = defaultdict(dict)
    for device in rig.devices:
        for one in rig.records(Gradients, device.subject):
            if one.stage == STAGE and one.of == of:
                found[one.number][device.subject] = one
    return found


def _require_all(told: Mapping[str, Gradients], due: set[str], what: str) -> None:
    if missing := sorted(due - told.keys()):
        raise NotMeasured(f"{missing[0]} did not report the {what}")


def _dissenting(told: Mapping[str, Gradients], what: str) -> Iterator[Difference]:
    devices_of: dict[str, set[str]] = defaultdict(set)
    for device, one in told.items():
        devices_of[one.digest].add(device)
    if len(devices_of) < 2:
        return
    for device, one in told.items():
        apart: Dissent | None = dissent(one.digest, devices_of)
        if apart is not None:
            yield Difference(device, what, apart.in_words, apart.undecided, one.t_s)
