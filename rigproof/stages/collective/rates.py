"""How fast a team did its operations, and what that is held against."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

import numpy as np

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.exchanges import TCP, slowest_of_ring, ways
from rigproof.criteria.evidence.launches import LAUNCH_MS
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, HICCUP_SHARE, Rounds
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.devices.specs import GLOO, NCCL
from rigproof.profiles.planning.subjects import RIG, subjects
from rigproof.profiles.tables.base import LimitKey
from rigproof.records.champions import lowest_power, same_power, team_key
from rigproof.records.measurements import Event, FigureRate, Labels
from rigproof.records.verdict import figure
from rigproof.stages.collective.results import Members
from rigproof.stages.collective.stage import ALL_REDUCE, AS_IT_IS, KIND, ONE_MIB, STAGE, Case, CollectiveSpec

FLOOR_GBPS = KIND.key(lambda own: own.floor_gbps)
SKU_SHARE = KIND.key(lambda own: own.sku_share)
GROUP_SHARE = KIND.key(lambda own: own.group_share)
CHAMPION_SHARE = KIND.key(lambda own: own.champion_share)
PAIR_SHARE = KIND.key(lambda own: own.pair_share)
NODES_SHARE = KIND.key(lambda own: own.nodes_share)
NODES_TCP_SHARE = KIND.key(lambda own: own.nodes_tcp_share)

UNIT = "GB/s"
ALIKE = 1.25  # pairs that are connected in the same way copy as fast, but for so much
FEWEST_OTHERS = 2  # groups that a group is compared with
FEWEST_WITH_HICCUP = 5  # rounds, of which one may be slow because of the host
MIXED = "odd and even"
FEWEST_ALIKE = 2  # parts of one size and model, for the best of them to say what a sound one does


@dataclass(frozen=True, slots=True)
class Speed:
    """The bus bandwidth of an operation at a size, GB/s, on the slowest rank; and s for one of them.

    `elements`: whether their numbers were odd or even, of which NCCL gathers the latter by up to 1.6 as fast;
    `MIXED` if there were too few rounds of either. `round_s`: how long a round of it took. `host_paced`:
    whether a GPU waited for its host in too many.
    """

    mib: int
    gbps: float
    seconds: float
    elements: str
    round_s: float
    host_paced: bool = False


def speeds(
    operation: str, team: SharedEvidence, arm: str = AS_IT_IS, *, despite_wrong: bool = False
) -> list[Speed]:
    """By size, smallest first, and odd numbers of elements before even ones.

    NotMeasured if a rank is missing, or has too few verified rounds of what it was told to do and did not
    leave out, or of a size that is always due, or if any answer is wrong; `despite_wrong`: by the right ones.
    """
    every = team.rounds(STAGE).having(operation=operation, group="", arm=arm).measured
    rounds = every.verified
    if len(rounds) < len(every) and not despite_wrong:
        raise NotMeasured(f"wrong answers of {operation}")
    found = []
    for (mib,), of_size in sorted(rounds.by_labels("mib").items()):
        by_rank = [of_size.only(of_size.same("worker", one)) for one in sorted(of_size.distinct("worker"))]
        members = {one.rpartition("#")[0] for one in of_size.distinct("worker")}
        missing = [one.subject for one in team.members if one.subject not in members]
        if missing:
            raise NotMeasured(f"no verified {operation} of {size_name(mib)} on {missing[0]}{because(team)}")
        if min(map(len, by_rank)) >= FEWEST_ROUNDS:
            found += speeds_of(mib, by_rank)
    due_mib = _due_mib(team) if arm == AS_IT_IS and team.subject != RIG else 1
    if not any(one.mib >= due_mib for one in found):
        omitted = [one for one in _left_out(operation, team, arm) if one.data.get("mib") == due_mib]
        why = f": {omitted[0].message}" if omitted else because(team)
        raise NotMeasured(f"too few verified rounds of {operation}{why}")
    if not despite_wrong:
        _require_planned(operation, team, arm, rounds)
    return found


def speeds_of(mib: int, by_rank: list[Rounds]) -> list[Speed]:
    """The speeds at a size by the rounds of each rank: of odd and of even numbers, if all have enough.

    Two H200 all-gather 16 MiB at 111 GB/s by odd numbers, at 152 by even ones: a rate of both would depend on
    how many rounds of each there are, and count. If there are too few of either, all count together.
    """
    halves = {
        _parity(is_odd): [one.only((one.label_numbers("elements") % 2 == 1) == is_odd) for one in by_rank]
        for is_odd in (True, False)
    }
    enough = {name: half for name, half in halves.items() if min(map(len, half)) >= FEWEST_ROUNDS}
    hiccup = HICCUP_SHARE * min(map(len, by_rank)) >= 1
    return [_speed(mib, name, half, hiccup=hiccup) for name, half in (enough or {MIXED: by_rank}).items()]


def _speed(mib: int, elements: str, by_rank: list[Rounds], *, hiccup: bool) -> Speed:
    at_own_pace, host_paced = _at_own_pace(by_rank)
    slowest = min((_without_hiccups(one, hiccup=hiccup) for one in at_own_pace), key=_rate)
    round_s = float(np.median(slowest.seconds))
    return Speed(mib, _rate(slowest), each_s(slowest), elements, round_s, host_paced)


def _without_hiccups(rounds: Rounds, *, hiccup: bool) -> Rounds:
    """All but the slowest tenth of the rounds. `hiccup`: or one of five to nine, if a size has ten in all."""
    count = max(int(HICCUP_SHARE * len(rounds)), hiccup and len(rounds) >= FEWEST_WITH_HICCUP)
    fast = np.ones(len(rounds), np.bool_)
    fast[np.argsort(rounds.rates, kind="stable")[:count]] = False
    return rounds.only(fast)


def _rate(rounds: Rounds) -> float:
    return float(rounds.work.sum() / rounds.seconds.sum())


def _require_planned(operation: str, team: SharedEvidence, arm: str, rounds: Rounds) -> None:
    """NotMeasured if what the team was told to do, and did not leave out, has too few rounds on a rank."""
    done: dict[tuple[object, bool], Counter[str]] = defaultdict(Counter)
    odd = (rounds.label_numbers("elements") % 2 == 1).tolist()
    for mib, is_odd, worker in zip(rounds.labels("mib"), odd, rounds.all("worker"), strict=True):
        done[mib, is_odd][worker] += 1
    told = [one.data for one in _left_out(operation, team, arm)]
    left_out = {(one.get("mib"), one.get("odd", odd)) for one in told for odd in (True, False)}
    for case in (one for one in _planned(team, arm) if one.operation == operation):
        own = done[case.mib, case.odd]
        enough = len(own) >= len(team.members) and min(own.values()) >= FEWEST_ROUNDS
        if not enough and (case.mib, case.odd) not in left_out:
            what = f"{operation} of {size_name(case.mib)} ({_parity(case.odd)} numbers)"
            raise NotMeasured(f"too few verified rounds of {what}{because(team)}")


def _planned(team: SharedEvidence, arm: str) -> list[Case]:
    """What the team was told to do in an arm by its plan; nothing if an older recording does not say."""
    for told in team.evidence.specs(STAGE):
        spec = CollectiveSpec.recorded(told)
        planned = spec.of_team(team.subject) if spec.operations else ()
        return [case for one in planned if one.arm == arm for case in one.cases()]
    return []


def _parity(odd: object) -> str:
    return "odd" if odd else "even"


def size_name(mib: int) -> str:
    """A size in words: the smallest is one element."""
    return f"{mib} MiB" if mib else "4 B"


def each_s(rounds: Rounds) -> float:
    """What one operation of these rounds took, s."""
    return float(rounds.seconds.sum()) / max(1.0, float(rounds.label_numbers("repeats").sum()))


def _due_mib(team: SharedEvidence) -> int:
    """The size that a node always does, MiB: no link in it is too slow for that, as a network may be."""
    sizes = (mib for one in team.evidence.specs(STAGE) for mib in one.get("sizes_mib", ()))
    return min(ONE_MIB, max(sizes, default=1))


def _left_out(operation: str, team: SharedEvidence, arm: str = AS_IT_IS) -> list[Event]:
    """What the whole team left out in an arm; older recordings do not say in which."""
    own = [one for one in team.events("size_left_out") if not one.data.get("group")]
    return [one for one in own if (one.data.get("operation"), one.data.get("arm", arm)) == (operation, arm)]


def not_done(operation: str, team: SharedEvidence, found: list[Speed]) -> str:
    """The sizes that the team had no time for, in words; empty if there is none.

    Of one that it did with odd or even numbers of elements alone the others.
    """
    done: dict[int, set[str]] = defaultdict(set)
    undone = {}
    for one in found:
        done[one.mib].add(one.elements)
    for data in (one.data for one in _left_out(operation, team)):
        mib, odd = data.get("mib"), data.get("odd")
        if isinstance(mib, int) and mib not in done:
            undone[mib] = str(mib)
        elif isinstance(mib, int) and odd is not None and done[mib].isdisjoint({_parity(odd), MIXED}):
            undone[mib] = f"{mib} ({_parity(odd)} numbers)"
    return f"no time for {', '.join(undone[mib] for mib in sorted(undone))} MiB" if undone else ""


def _at_own_pace(by_rank: list[Rounds]) -> tuple[list[Rounds], bool]:
    """The rounds in which no rank waited for its host, and False; all, and True, if there are too few.

    Or if ranks have different numbers of them, so that nothing tells which ones belong together.
    """
    waited = [one.same("host_paced", True) for one in by_rank]
    if not any(one.any() for one in waited):
        return by_rank, False
    if len(set(map(len, waited))) > 1:
        return by_rank, True
    free = ~np.logical_or.reduce(waited)
    if free.sum() < FEWEST_ROUNDS:
        return by_rank, True
    return [one.only(free) for one in by_rank], False


def because(team: SharedEvidence) -> str:
    """Why it did nothing, to be appended; empty if nothing explains it."""
    cause = team.cause()
    return f": {cause}" if cause else ""


def limited(
    operation: str, team: SharedEvidence, found: list[Speed], *, champions: bool = True
) -> list[tuple[Speed, Limit]]:
    """The speeds that have a limit, with it. `champions`: also by what the team itself has done before."""
    largest = found[-1].mib
    every = []
    for one in (one for one in found if one.mib):
        limit = _limit(operation, team, one, largest)
        if champions and not _is_stated(operation, team):
            both = [it for it in (limit, _champion_limit(operation, team, one)) if it is not None]
            limit = max(both, key=lambda it: it.value, default=None)
        if limit is not None:
            every.append((one, limit))
    return every


def _is_stated(operation: str, team: SharedEvidence) -> bool:
    """Whether the rig's profile has a floor of its own for the operation, which stands alone."""
    return operation == ALL_REDUCE and devices_of(team)[0].optional_limit(FLOOR_GBPS) is not None


def _limit(operation: str, team: SharedEvidence, speed: Speed, largest: int) -> Limit | None:
    """The floor of a speed of an operation; None without one. `largest`: the team's largest size, MiB."""
    devices, mib = devices_of(team), speed.mib
    if _is_stated(operation, team):
        return devices[0].limit(FLOOR_GBPS) if mib >= ONE_MIB else None
    stated = _sku_limit(operation, devices, mib)
    if stated is not None or mib < ONE_MIB:  # at smaller sizes the hosts set the pace
        return stated
    every = (
        _others_limit(operation, team, devices, speed),
        _pairs_limit(operation, team, devices, mib),
        _lan_limit(operation, team, devices) if mib == largest else None,
    )
    return max(filter(None, every), key=lambda one: one.value, default=None)


def is_the_hosts(team: SharedEvidence, speed: Speed, limit: Limit) -> bool:
    """Whether a low rate shows how fast a host queues operations. One that takes long is too slow itself."""
    return speed.gbps < limit.value and speed.host_paced and _is_within_launch(team, speed.seconds)


def _is_within_launch(team: SharedEvidence, seconds: float) -> bool:
    """Whether this took less than a host may need to launch an operation."""
    launch = devices_of(team)[0].optional_limit(LAUNCH_MS)
    return launch is not None and 1e3 * seconds < launch.value


def figure_rate(operation: str, team: SharedEvidence, speed: Speed) -> FigureRate:
    """A speed as one that can become the team's champion, with what another must share to be comparable.

    A round that is no longer than a host may take to launch an operation is at the host's pace.
    """
    devices = devices_of(team)
    nodes = len({one.node_name for one in devices})
    work: Labels = {"mib": speed.mib, "elements": f"{speed.elements} numbers", "nodes": nodes}
    rate = FigureRate(f"{STAGE}.{operation}", speed.gbps, UNIT, work, len(team.members))
    return rate._replace(host_paced=speed.host_paced or _is_within_launch(team, speed.round_s))


def _champion_limit(operation: str, team: SharedEvidence, speed: Speed) -> Limit | None:
    """A share of the best that the same GPUs did in an accepted run: the same work, at the same power limit.

    At smaller sizes than ONE_MIB, in rounds that are too short, and where they were late for operations that
    take long, the hosts set the pace.
    """
    devices, now = devices_of(team), figure_rate(operation, team, speed)
    share = devices[0].optional_limit(CHAMPION_SHARE)
    late = speed.host_paced and not _is_within_launch(team, speed.seconds)
    if share is None or speed.mib < ONE_MIB or late or _is_within_launch(team, speed.round_s):
        return None
    power_w = lowest_power(one.identity.power_limit_w for one in devices)
    kept = team.evidence.champions.get(team_key(one.identity.uuid for one in devices), {})
    same = [
        one
        for one in kept.get(now.figure, ())
        if (one.unit, one.labels) == (now.unit, now.labels) and same_power(one.power_limit_w, power_w)
    ]
    if not same:
        return None
    best = max(same, key=lambda one: one.value)
    champion = f"{figure(best.value, UNIT)}, its champion (run {best.run_id})"
    return Limit(share.value * best.value, f"{share.value:g} of {champion}; {share.source}")


def devices_of(team: SharedEvidence) -> list[DeviceEvidence]:
    """The members of a team."""
    return [one for one in team.members if isinstance(one, DeviceEvidence)]


def _sku_limit(operation: str, devices: list[DeviceEvidence], mib: int) -> Limit | None:
    """A share of the SKU file's figure for as many GPUs of one node."""
    gbps = stated_gbps(operation, devices, mib)
    if gbps is None:
        return None
    share = devices[0].limit(SKU_SHARE)
    source = f"{share.value:g} of {figure(gbps, UNIT)}, measured; {devices[0].sku_file}"
    return Limit(share.value * gbps, source)


def stated_gbps(operation: str, devices: list[DeviceEvidence], mib: int) -> float | None:
    """The SKU file's figure of an operation at a size, for as many equal GPUs of one node, if stated."""
    first = devices[0]
    if len({one.node_name for one in devices}) > 1 or len({one.device.sku_stem for one in devices}) > 1:
        return None
    rates = first.device.sku.group_rates if first.device.sku is not None else ()
    work = operation, len(devices), mib
    return next((one.gbps for one in rates if (one.operation, one.gpus, one.mib) == work), None)


def bounds_of_part(
    operation: str,
    mib: int,
    team: SharedEvidence,
    part: Members,
    *,
    of_team: float,
    rates: Mapping[Members, float],
) -> tuple[float, float]:
    """Below the first rate a part of a team is slow, from the second on it is fine, GB/s; between is unknown.

    Fewer GPUs have another rate than more. So a part is held against the SKU file's figure for as many, else
    against the best of that size and those models among `rates`, of the team's parts; of a lone one against
    what its GPUs copied to each other. `of_team`, the team's own limit, holds for all of it, for parts over
    nodes, whose links set the pace, and where the rig has a floor for every group. An
    all-reduce that reaches it is fine, since its bus bandwidth is made to be that of any number of ranks
    (nccl-tests, doc/PERFORMANCE.md); over NVLink a few GPUs may be slower than eight, so one that does not is
    told by parts of its size alone.
    """
    own = {one.subject: one for one in devices_of(team)}
    if team.subject == RIG or _is_stated(operation, team) or own.keys() == set(part):
        return of_team, of_team
    devices = [own[one] for one in part]
    if (limit := _sku_limit(operation, devices, mib)) is not None:
        return limit.value, limit.value
    skus = Counter(_skus(devices))
    alike = [rate for one, rate in rates.items() if Counter(_skus([own[it] for it in one])) == skus]
    if len(alike) >= FEWEST_ALIKE:
        least = devices[0].limit(GROUP_SHARE).value * max(alike)
    else:
        copied = _pairs_limit(operation, team, devices, mib)
        least = 0.0 if copied is None else copied.value
    if operation != ALL_REDUCE:
        return least, least or math.inf
    least = min(least, of_team)
    return least, least if alike and min(alike) < least else of_team


def _others_limit(
    operation: str, team: SharedEvidence, devices: list[DeviceEvidence], own: Speed
) -> Limit | None:
    """A share of the median of the other groups with the same devices, at the same work.

    Of all of them, or of those whose hosts were not late, if that is higher: a late host only lowers a rate.
    """
    alike = _skus(devices)
    if team.subject == RIG or None in alike:
        return None
    groups = team.evidence.cached(("groups", operation), lambda: _groups(operation, team.evidence))
    others = [found for name, skus, found in groups if name != team.subject and skus == alike]
    same = [one for found in others for one in found if (one.mib, one.elements) == (own.mib, own.elements)]
    every = [one.gbps for one in same]
    own_pace = [one.gbps for one in same if not one.host_paced]
    if len(every) < FEWEST_OTHERS:
        return None
    rates = max((one for one in (every, own_pace) if len(one) >= FEWEST_OTHERS), key=median)
    share = devices[0].limit(GROUP_SHARE)
    middle = median(rates)
    return Limit(
        share.value * middle,
        f"{share.value:g} of {figure(middle, UNIT)}, the median of {len(rates)} other groups; {share.source}",
    )


def _groups(operation: str, evidence: Evidence) -> list[tuple[str, tuple[str | None, ...], list[Speed]]]:
    """Each node's group, with the models of its devices, and its speeds if it has any."""
    found = []
    for one in evidence.teams:
        if one.subject != RIG:
            with suppress(NotMeasured):
                found.append((one.subject, _skus(devices_of(one)), speeds(operation, one)))
    return found


def _pairs_limit(
    operation: str, team: SharedEvidence, devices: list[DeviceEvidence], mib: int
) -> Limit | None:
    """A share of what the slowest two GPUs of the group copied to each other, in the run's stage for that."""
    if operation != ALL_REDUCE or mib < ONE_MIB or len({one.node_name for one in devices}) > 1:
        return None
    slowest = copied_gbps(team.evidence, [one.subject for one in devices])
    if slowest is None:
        return None
    share = devices[0].limit(PAIR_SHARE)
    source = f"{share.value:g} of {figure(slowest, UNIT)}, what its slowest two GPUs copy; {share.source}"
    return Limit(share.value * slowest, source)


def copied_gbps(evidence: Evidence, devices: Collection[str]) -> float | None:
    """What the slowest two of these GPUs copied to each other, each way; None if that was not measured."""
    slowest = math.inf
    copying = [one for one in evidence.kinds if one.exchanges and one.crew == "neighbours"]
    for pair in subjects(evidence.loaded, "peers") if copying else ():
        if not set(pair.members) <= set(devices):
            continue
        every = evidence.rounds(pair.text).verified.measured
        for kind in copying:
            ways = [label.name for label in kind.labels if label.work]
            of_pair = every.only(every.same("stage", kind.name))
            slowest = min([slowest, *(one.rate() for one in of_pair.by_labels(*ways).values())])
    return slowest if math.isfinite(slowest) else None


def limits_of_pairs(team: SharedEvidence, rates: Mapping[Members, float]) -> dict[Members, Limit]:
    """The limits of all-reduces of pairs of a team, of which these are the rates, as far as there are any.

    Of two GPUs a share of what they copy, and of the median of the pairs that copy as fast. Of two nodes what
    the team is held against, by what each of them exchanges with its better neighbour.
    """
    evidence, first = team.evidence, devices_of(team)[0]
    if len({one.node_name for one in devices_of(team)}) > 1:
        return _limits_of_nodes(team, rates)
    share, of_others, found = first.limit(PAIR_SHARE), first.limit(GROUP_SHARE), {}
    copied = {pair: gbps for pair in rates if (gbps := copied_gbps(evidence, pair)) is not None}
    for pair, gbps in copied.items():
        found[pair] = Limit(share.value * gbps, f"{share.value:g} of {figure(gbps, UNIT)}, what the two copy")
        alike = [
            rates[one] for one, its in copied.items() if one != pair and gbps / ALIKE < its < gbps * ALIKE
        ]
        if len(alike) >= FEWEST_OTHERS and of_others.value * median(alike) > found[pair].value:
            of = f"{figure(median(alike), UNIT)}, the median of {len(alike)} other pairs"
            found[pair] = Limit(of_others.value * median(alike), f"{of_others.value:g} of {of}")
    return found


def _limits_of_nodes(team: SharedEvidence, rates: Mapping[Members, float]) -> dict[Members, Limit]:
    devices = {one.subject: one for one in devices_of(team)}
    for by, key in _libraries(devices.values()):
        best: dict[str, float] = {}
        for nodes, gbps in ways(team.evidence, by).items():
            best |= {node: max(gbps, best.get(node, 0.0)) for node in nodes}
        if best.keys() >= {one.node_name for one in devices.values()}:
            share = devices_of(team)[0].limit(key)
            found = {}
            for pair in rates:
                gbps = min(best[devices[one].node_name] for one in pair)
                what = f"{figure(gbps, UNIT)}, what the slower one exchanges with another node by {by}"
                found[pair] = Limit(share.value * gbps, f"{share.value:g} of {what}")
            return found
    return {}


def _lan_limit(operation: str, team: SharedEvidence, devices: list[DeviceEvidence]) -> Limit | None:
    """Of several nodes, a share of what the slowest two of the ring exchange by the same library, or by TCP.

    Both are the bus bandwidth of the ring's slowest link (`criteria.evidence.exchanges`).
    """
    if operation != ALL_REDUCE or len({one.node_name for one in devices}) < 2:
        return None
    for by, key in _libraries(devices):
        slowest = slowest_of_ring(team.evidence, by)
        if slowest is not None:
            share = devices[0].limit(key)
            what = f"{figure(slowest.gbps, UNIT)}, what {' and '.join(slowest.nodes)} exchange by {by}"
            return Limit(share.value * slowest.gbps, f"{share.value:g} of {what}; {share.source}")
    return None


def _libraries(devices: Iterable[DeviceEvidence]) -> tuple[tuple[str, LimitKey[float]], ...]:
    """What nodes exchange by, in lan.bandwidth, that a team is held against: the first that was measured."""
    library = GLOO if any(one.is_cpu for one in devices) else NCCL
    return (library, NODES_SHARE), (TCP, NODES_TCP_SHARE)


def _skus(devices: list[DeviceEvidence]) -> tuple[str | None, ...]:
    return tuple(one.device.sku_stem for one in devices)
