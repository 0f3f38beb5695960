"""Which two of a team do not work together although the whole team does: a round robin of its pairs. Pure.

A ring of n passes n of its n (n - 1) / 2 pairs, so a team can be fine while two of it never are. Units are
the devices of a node, or whole nodes. Each turn pairs all units of a team (circle method), so that all work.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, zip_longest

from rigproof.profiles.planning.subjects import round_robin
from rigproof.stages.collective.blame import in_turns
from rigproof.stages.collective.results import BAD, Culprit, Kind, Members, Result, node_of, why_of

FEWEST_UNITS = 3  # two are the team itself


def units_of(members: Members) -> list[Members]:
    """The units of a team: its devices; of several nodes, each with all of its devices."""
    if _inside(members):
        return [(one,) for one in members]
    by_node: dict[str, list[str]] = defaultdict(list)
    for one in members:
        by_node[node_of(one)].append(one)
    return [tuple(own) for own in by_node.values()]


def number_of_pairs(members: Members) -> int:
    """How many pairs a team has beside itself."""
    count = len(units_of(members))
    return count * (count - 1) // 2 if count >= FEWEST_UNITS else 0


def tournament(teams: Iterable[Members], most: int, lap: int) -> list[list[Members]]:
    """The pairs of all teams, in turns without a repeated device: nodes at the same time, then between them.

    At most so many turns of either; of a larger team each lap goes on where the one before ended.
    """
    inside: list[list[list[Members]]] = []
    between: list[list[Members]] = []
    for members in teams:
        units = units_of(members)
        turns = round_robin(len(units)) if len(units) >= FEWEST_UNITS else ()
        first = (lap - 1) * most % len(turns) if turns else 0
        chosen = [*turns[first:], *turns[:first]][:most]
        own = [[(*units[one], *units[other]) for one, other in turn] for turn in chosen]
        if _inside(members):
            inside.append(own)
        else:
            between += own
    return [list(chain(*turn)) for turn in zip_longest(*inside, fillvalue=[])] + between


def again(pairs: Iterable[Members], most: int) -> list[list[Members]]:
    """The pairs once more, each alone on its nodes: what many at once take from each other is no fault."""
    return in_turns(pairs, lambda pair: map(node_of, pair))[:most]


def settled(results: Sequence[Result]) -> Result:
    """What the results of one pair say together. Slow is what is slow each time, and more than once."""
    for certain in ("wrong", "stuck"):
        if certain in results:
            return certain
    known = [one for one in results if one != "unknown"]
    if "fine" in known:
        return "fine"
    return "slow" if len(known) > 1 else "unknown"


def culprits(
    members: Members, results: Mapping[Members, Result], once: Collection[Members] = ()
) -> list[Culprit]:
    """Who is to blame for pairs of a team that are not fine: a unit that never is, else what joins the two.

    `once`: pairs that failed once, and not again.
    """
    units = units_of(members)
    pairs = {pair: [unit for unit in units if set(unit) <= set(pair)] for pair in results}
    bad = [pair for pair, result in results.items() if result in BAD]
    fine = Counter(unit for pair, ends in pairs.items() if results[pair] == "fine" for unit in ends)
    often = Counter(unit for pair in bad for unit in pairs[pair])
    whole = [unit for unit in units if often[unit] > 1 and not fine[unit]]
    kind: Kind = "gpu" if _inside(members) else "node"
    rest = {unit: tuple(one for one in members if one not in unit) for unit in whole}
    found = [Culprit(kind, unit, rest[unit], why_of(kind, unit)) for unit in whole]
    for pair in bad:
        one, other = pairs[pair]
        if one in whole or other in whole:
            continue
        if pair in once:
            found.append(Culprit("unknown", pair, why="they failed once, and not again"))
        elif fine[one] and fine[other]:
            found.append(Culprit("link", one, other, why_of("link", one)))
        else:
            found.append(Culprit("unknown", pair, why="nobody is known to be fine with both"))
    return found


def _inside(members: Members) -> bool:
    """Whether all of them are of one node."""
    return len(set(map(node_of, members))) == 1
