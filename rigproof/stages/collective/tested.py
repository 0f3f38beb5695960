"""How a group fared, as plain data, for whoever looks for the one to blame among its members. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from rigproof.criteria.evidence.fronts import halt
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS
from rigproof.records.measurements import Event, Round
from rigproof.stages.collective.results import Members, Trial
from rigproof.stages.collective.stage import AS_IT_IS

Rates = Mapping[tuple[str, int], float]  # bus bandwidth, GB/s, by operation and MiB


def trial_of(members: Members, events: Iterable[Event], rates: Rates, *, group: str, least: Rates) -> Trial:
    """How the group did, of whose crew these are the events of the stage, and its rates (`rates_of`).

    `group`: what its spec calls it. `least`: below which it is slow. What a signal, or a want of memory or
    of CPU time, ended is unknown, and so is a group without rates, and one whose hosts do not reach each
    other: any other group of them would wait in vain, too.
    """
    own = [one for one in events if one.data.get("group", group) == group]
    wrong = [one for one in own if one.kind == "wrong_result"]
    if wrong:
        return Trial(members, "wrong", tuple(dict.fromkeys(map(_device, wrong))))
    ended = halt(own, len(members))
    if ended is not None:
        known = not ended.by_others and ended.how not in ("lost", "unreached")
        return Trial(members, "stuck" if known else "unknown", ended.missing)
    if not rates:
        return Trial(members, "unknown")
    slow = any(rates.get(work, low) < low for work, low in least.items())
    return Trial(members, "slow" if slow else "fine")


def rates_of(rounds: Iterable[Round], size: int, *, group: str) -> Rates:
    """The slowest rank's, of each work of 1 MiB and more that all ranks have enough verified rounds of."""
    found: dict[tuple[str, int], dict[str, list[Round]]] = defaultdict(lambda: defaultdict(list))
    for one in rounds:
        mib = one.label("mib")
        own = one.label("group") == group and one.label("arm") == AS_IT_IS
        if own and one.phase == "measure" and one.verified and isinstance(mib, int):
            found[str(one.label("operation")), mib][one.worker].append(one)
    return {
        work: min(sum(one.work for one in own) / sum(one.seconds for one in own) for own in ranks.values())
        for work, ranks in found.items()
        if work[1] and len(ranks) == size and min(map(len, ranks.values())) >= FEWEST_ROUNDS
    }


def _device(event: Event) -> str:
    return (event.worker or event.subject).rpartition("#")[0]
