"""Who is to blame if devices do not work together: the groups to test next, and what they tell. Pure.

A fault is a device that is bad with everybody, or it is between two sets of devices and shows in each group
with a member of both: a link, the way out of a node, what joins some nodes to the others. So a group that
holds a fault is bad, and every part of a fine group is fine. Of a bad group each device is tested alone, then
the group is split, at first into groups of ⌈√n⌉, then in halves, all parts at once; where both halves are
fine, the fault lies between them. Each suspect meets partners from a group that is fine, and nobody is named
whom one wrong result could have made a suspect.

Method: group testing (D.-Z. Du, F. K. Hwang, Combinatorial Group Testing), here with faults of pairs. The
groups of ⌈√n⌉, the confirmation and the groups across two fine halves are also those of NVIDIA's
cluster-readiness-engine (ADR-054 to 056).
"""

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product, zip_longest
from typing import TypeVar

from rigproof.profiles.planning.subjects import round_robin
from rigproof.stages.collective.results import ALONE, Culprit, Members, Results, Trial, node_of

Items = Sequence[Members]  # units (devices, or whole nodes), or blocks of them that are fine
Answers = Mapping[Members, bool]  # whether each group is fine
T = TypeVar("T")
Walk = Generator[Sequence[Members], Answers, T]  # asks for groups, all of which are then answered
ROUNDS = 48  # with the planned ones; more are not worth a rig's time
PAIRINGS = 4  # rounds in which a first pair that is fine is looked for
ALL_FROM = 5  # units none of which is fine with another: fewer may each be bad by itself
TOO_MANY = "too few of them are fine together, so nobody can say which ones are right"


@dataclass(frozen=True, slots=True)
class Step:
    """The groups to test next, all at once; if there are none, the search is over: its `culprits`."""

    groups: tuple[Members, ...] = ()
    culprits: tuple[Culprit, ...] = ()


def next_step(devices: Members, results: Iterable[Trial], *, rounds: int = ROUNDS) -> Step:
    """What to test next of a team, after these results, in the order in which they came.

    The first groups are the devices of each node that has several, then all. A group that could not be tested
    ("unknown") is asked for once more. After so many `rounds` the search ends with what it knows.
    """
    left = list(results)
    search = _Search(devices, left)
    walk = search.walk()
    spent = 0
    answers: dict[Members, bool] | None = None
    while True:
        try:
            batch = next(walk) if answers is None else walk.send(answers)
        except StopIteration as end:
            return Step(culprits=end.value)
        answers = {}
        for turn in in_turns(batch):
            spent += 1
            missing = tuple(group for group in turn if not search.take(group, answers))
            if missing and spent > rounds:
                return Step(culprits=search.given_up(rounds))
            if missing:
                return Step(missing)


def in_turns(
    groups: Iterable[Members], keeps: Callable[[Members], Iterable[str]] = iter
) -> list[list[Members]]:
    """The groups in turns, each in the first one in which nobody `keeps` what it keeps busy: its members."""
    turns: list[tuple[list[Members], set[str]]] = []
    for group in groups:
        busy = set(keeps(group))
        free = next((turn for turn in turns if turn[1].isdisjoint(busy)), None)
        if free is None:
            turns.append(free := ([], set()))
        free[0].append(group)
        free[1].update(busy)
    return [turn for turn, _ in turns]


class _Search:
    """The search through one team, as a walk that asks for groups and goes on with their results."""

    def __init__(self, devices: Members, left: list[Trial]) -> None:
        self.devices = devices
        self.nodes: dict[str, list[str]] = {}
        for device in devices:
            self.nodes.setdefault(node_of(device), []).append(device)
        self._place = {device: place for place, device in enumerate(devices)}
        self._left = left  # results that were not asked for yet
        self._results = Results(devices)
        self._hints: set[str] = set()
        self._found: list[Culprit] = []
        self._alone: Counter[str] = Counter()  # how often each failed by itself
        self._untold: set[Members] = set()  # groups whose tests said nothing, twice

    def take(self, group: Members, answers: dict[Members, bool]) -> bool:
        """Take the result of a group; False if there is none, or none that says anything and only once."""
        own = [one for one in self._left if one.members == group]
        told = next((place for place, one in enumerate(own) if one.result != "unknown"), None)
        if told is None and len(own) < 2:
            return False
        for one in own[: 2 if told is None else told + 1]:
            self._left.remove(one)
        self._untold |= {group} if told is None else set()
        answers[group] = told is not None and own[told].result == "fine" and answers.get(group, True)
        if told is not None and len(group) == 1:
            self._alone.update(() if own[told].result == "fine" else group)
        elif told is not None:
            same = self._results.fine if own[told].result == "fine" else self._results.bad
            same.append(frozenset(group))
            self._hints.update(own[told].missing)
        return True

    def given_up(self, rounds: int) -> tuple[Culprit, ...]:
        """What it knows if it is not allowed to go on."""
        told = (one for one in self._results.concluded(self._found) if one.kind != "unknown")
        return (*told, Culprit("unknown", self.devices, why=f"the search was given up after {rounds} rounds"))

    def walk(self) -> Walk[tuple[Culprit, ...]]:
        """All of it: each device of what failed alone, then inside each node, then between nodes."""
        several = [tuple(own) for own in self.nodes.values() if len(own) > 1]
        tested = yield from self._ask(several, fresh=True)
        if len(self.nodes) > 1:
            tested |= yield from self._ask([self.devices], fresh=True)
        found, bad = self._found, [own for own in several if not tested[own]]
        singles = [tuple(own) for own in self.nodes.values() if len(own) == 1]
        alone = yield from self._fail_alone([*bad, *([] if tested.get(self.devices) else singles)])
        found += [Culprit("gpu", (one,), why=ALONE) for one in alone]
        rests = [tuple(one for one in own if one not in alone) for own in bad]
        again = yield from self._ask([rest for rest in rests if len(rest) > 1])
        bad = [rest for rest in rests if len(rest) > 1 and not again[rest]]
        healthy = [own for own in self.nodes.values() if tested.get(tuple(own), own[0] not in alone)]
        firsts_first = (one for layer in zip_longest(*healthy) for one in layer)
        ready = [one for one in firsts_first if one is not None]
        searches = []
        for number, own in enumerate(bad):
            places = range(2 * number, 2 * number + min(2, len(ready)))
            strangers = [(ready[place % len(ready)],) for place in places]
            searches.append(self._find([(one,) for one in own], strangers))
        found += [one for some in (yield from _in_step(searches)) for one in some]
        if len(self.nodes) > 1:
            found += yield from self._between_nodes(found)
        return self._results.concluded(found)

    def _fail_alone(self, groups: Sequence[Members]) -> Walk[list[str]]:
        """The members of these groups that fail by themselves, twice: one wrong result blames nobody."""
        each = [(one,) for group in groups for one in group]
        yield from self._ask(each, fresh=True)
        yield from self._ask([(one,) for one in self._alone], fresh=True)
        return [one for one, times in self._alone.items() if times > 1]

    def _between_nodes(self, found: Sequence[Culprit]) -> Walk[list[Culprit]]:
        """What is wrong between nodes, without the devices that are bad inside their own."""
        out: set[str] = set()
        for one in found:  # of a link one end is enough
            out.update(one.one)
        units = [tuple(one for one in own if one not in out) for own in self.nodes.values()]
        units = [unit for unit in units if unit]
        rest = self._union(units)
        if len(units) < 2 or (yield from self._ask([rest]))[rest]:
            return []
        between = yield from self._find(units)
        nodes = [one for one in between if one.kind == "gpu"]  # bad with every other node
        apart = [side for one in between if one.kind == "switch" for side in (one.one, one.other)]
        about = {one for culprit in nodes for one in culprit.one}
        sides = apart or [tuple(one for one in rest if one not in about)] * 2
        if sides[0]:
            told = yield from _in_step([self._of_node(one.one, sides, n) for n, one in enumerate(nodes)])
        else:
            told = [[Culprit("unknown", one.one)] for one in nodes]
        return [one for one in between if one.kind != "gpu"] + [one for some in told for one in some]

    def _of_node(self, unit: Members, sides: Sequence[Members], place: int) -> Walk[list[Culprit]]:
        """Whether all of a node fails with others, or only some of its devices."""
        outside = self._but(unit)
        if len(unit) < 2:
            return [Culprit("node", unit, outside)]
        pairs: dict[str, list[Members]] = {one: [] for one in unit}
        for turn, side in enumerate(sides):
            for number, one in enumerate(unit):
                partner = side[(place * len(unit) + number + turn) % len(side)]
                pairs[one].append(self._union([(one,), (partner,)]))
        answers = yield from self._ask([pair for own in pairs.values() for pair in own])
        failing = [one for one, own in pairs.items() if not any(answers[pair] for pair in own)]
        fine = [one for one, own in pairs.items() if all(answers[pair] for pair in own)]
        if sides[0] == sides[1] and len(failing) + len(fine) < len(unit):
            return [Culprit("unknown", unit)]
        if len(failing) in (0, len(unit)):
            return [Culprit("node", unit, outside)]
        return [Culprit("port", (one,), outside) for one in failing]

    def _but(self, unit: Members) -> Members:
        """All devices of the other nodes."""
        return tuple(one for one in self.devices if node_of(one) != node_of(unit[0]))

    def _find(self, units: Items, strangers: Items = ()) -> Walk[list[Culprit]]:
        """What is wrong among units that are not fine together, though each may be.

        `strangers` are partners to be met if none of the units is fine with any other.
        """
        parts = self._parts(units, math.isqrt(len(units) - 1) + 1)
        asides: list[tuple[Members, Members]] = []
        while True:
            blocks, apart = yield from self._split(parts, units)
            asides += apart
            rest = self._union(blocks)
            if len(blocks) < 2 or (yield from self._ask([rest]))[rest]:
                break
            parts = self._parts(blocks)
        good = _inside(rest, units)
        if len(good) < 2:
            good = yield from self._first_pair(units)
            rest = self._union(good)
            asides = [(unit, ()) for unit in units if unit not in good]
        if not good and strangers and len(units) == 2:
            return (yield from self._with_strangers(units, strangers))
        if not good:
            return [Culprit("all" if len(units) >= ALL_FROM else "unknown", self._union(units))]
        return (yield from self._joined(good, asides, units))

    def _parts(self, items: Items, size: int = 0) -> list[list[Members]]:
        """Items in parts of a size, else in halves; those that others waited for are one, the first time."""
        hinted = [item for item in items if not self._hints.isdisjoint(item)]
        if 0 < len(hinted) <= len(items) // 2:
            for item in hinted:
                self._hints.difference_update(item)
            return [[item for item in items if item not in hinted], hinted]
        size = size if size and size < len(items) else (len(items) + 1) // 2
        return [list(items[start : start + size]) for start in range(0, len(items), size)]

    def _split(
        self, parts: list[list[Members]], units: Items
    ) -> Walk[tuple[list[Members], list[tuple[Members, Members]]]]:
        """Split what is bad until all parts are fine.

        Returns the fine parts, and, where both halves of a bad one are fine, the smaller with the larger one;
        two units, of which nobody knows which is good, are both set apart.
        """
        fine: list[Members] = []
        apart: list[tuple[Members, Members]] = []
        families = [parts]
        while families:
            asked = [self._union(part) for family in families for part in family if len(part) > 1]
            answers = yield from self._ask(asked)
            later = []
            for family in families:
                bad = [part for part in family if len(part) > 1 and not answers[self._union(part)]]
                good = [self._union(part) for part in family if part not in bad]
                if not bad and len(good) == 2:
                    less, more = sorted(good, key=len)
                    apart.append((less, more))
                    if less in units and more in units:
                        apart.append((more, less))
                    else:
                        fine.append(more)
                else:
                    fine += good
                later += [self._parts(part) for part in bad]
            families = later
        return fine, apart

    def _first_pair(self, units: Items) -> Walk[list[Members]]:
        """Two units that are fine together; none if a few rounds of pairs find none."""
        for turn in round_robin(len(units))[:PAIRINGS]:
            pairs = [[units[one], units[other]] for one, other in turn]
            answers = yield from self._ask([self._union(pair) for pair in pairs])
            for pair in pairs:
                if answers[self._union(pair)]:
                    return pair
        return []

    def _with_strangers(self, units: Items, strangers: Items) -> Walk[list[Culprit]]:
        """Which of the two devices of a node is bad, or the link between them, by partners in other nodes."""
        one, other = units
        pairs = {unit: [self._union([unit, stranger]) for stranger in strangers] for unit in units}
        turns = [*pairs[one], *pairs[other][::-1]]
        answers = yield from self._ask([*turns, *([] if len(strangers) > 1 else turns)], fresh=True)
        bad = [unit for unit, own in pairs.items() if not any(answers[pair] for pair in own)]
        if len(bad) == 2:
            return [Culprit("unknown", self._union(units))]
        yield from self._ask([self._union(units)], fresh=True)
        return [Culprit("gpu", bad[0]) if bad else Culprit("link", one, other)]

    def _joined(
        self, good: list[Members], asides: Iterable[tuple[Members, Members]], units: Items
    ) -> Walk[list[Culprit]]:
        """What the blocks that were set apart do with the units that are fine together."""
        blocks = dict(asides)
        samples = {
            block: self._sample(_inside(block, units), good, place) for place, block in enumerate(blocks)
        }
        answers = yield from self._ask([pair for own in samples.values() for pair in own])
        bad = {block: [not answers[pair] for pair in own] for block, own in samples.items()}
        main = self._union(good)
        found: list[Culprit] = []
        classes: list[Members] = []
        for together in (yield from self._classes([block for block in blocks if any(bad[block])], units)):
            if any(all(bad[block]) for block in together):
                classes.append(self._union(together))
            else:
                bad |= {block: [False] for block in together}
        for block, more in blocks.items():
            if any(bad[block]):
                continue
            against = more if more and set(more) <= set(main) else main
            links = yield from self._links(_inside(block, units), _inside(against, units), main, units)
            found += links
            ends = {one for link in links for one in link.one}
            main = self._union([main, tuple(one for one in block if one not in ends)])
        known, half = _inside(main, units), len(units) / 2
        others = [block for block in classes if block not in units]
        told = len(known) + sum(len(_inside(block, units)) for block in others)
        if len(others) > 1 or (len(known) < half and told < 1.5 * half):
            found.append(Culprit("unknown", self._union(blocks), why=TOO_MANY))
            classes = []
        for block in classes:
            several = block not in units
            less, more = sorted((block, main), key=len)
            found.append(Culprit("switch", less, more) if several else Culprit("gpu", block))
        yield from self._confirmed(found, good, main)
        if not (yield from self._ask([main]))[main] and len(main) < len(self._union(units)):
            found += yield from self._find(_inside(main, units))
        return found

    def _sample(self, units: Items, good: Items, place: int) -> list[Members]:
        """Two units of a block, each with two good ones: at most four pairs."""
        partners = [good[(2 * place + number) % len(good)] for number in range(min(2, len(good)))]
        return [self._union(pair) for pair in product(units[:2], partners)]

    def _classes(self, blocks: Sequence[Members], units: Items) -> Walk[list[set[Members]]]:
        """Blocks that fail with the good ones, together where they are fine with each other.

        Of single units, which are most often bad ones, only neighbours are tested with each other, and next
        ones but one, since who is between may be bad, or seem so by one wrong result.
        """
        blocks = sorted(blocks, key=lambda one: self._place[one[0]])
        alone = [block for block in blocks if block in units]
        several = [block for block in blocks if block not in units]
        near = [*pairwise(alone), *zip(alone, alone[2:], strict=False)]
        met = {self._union(pair): pair for pair in (*combinations(several, 2), *near)}
        for place, (unit, block) in enumerate(product(alone, several)):
            partners = _inside(block, units)
            met[self._union([unit, partners[place % len(partners)]])] = (unit, block)
        answers = yield from self._ask(list(met))
        again = yield from self._ask([union for union in met if not answers[union]], fresh=True)
        home = {block: {block} for block in blocks}
        for union, (one, other) in met.items():
            if answers[union] or again[union]:
                joined = home[one] | home[other]
                home |= dict.fromkeys(joined, joined)
        return list({id(one): one for one in home.values()}.values())

    def _links(self, block: Items, against: Items, main: Members, units: Items) -> Walk[list[Culprit]]:
        """The faults between a block and good units that are not fine with all of it; none if they are."""
        found: list[Culprit] = []
        ends: set[str] = set()
        for _ in block:
            left = [unit for unit in block if ends.isdisjoint(unit)]
            whole = self._union([*left, main])
            if not left or (yield from self._ask([whole], fresh=bool(found)))[whole]:
                break
            pair = yield from self._cross(left, against)
            if pair is None and len(against) < len(_inside(main, units)):
                pair = yield from self._cross(left, _inside(main, units))
            if pair is None:
                break
            found.append(Culprit("link", *pair))
            ends.update(pair[0])
        return found

    def _cross(self, one: Items, other: Items) -> Walk[tuple[Members, Members] | None]:
        """A pair of units that fail with each other, of two blocks that are fine; None if it is lost."""
        while len(one) > 1 or len(other) > 1:
            mine, theirs = _halves(one), _halves(other)
            straight = list(zip(mine, theirs, strict=False))
            crossed = [pair for pair in product(mine, theirs) if pair not in straight]
            for pairs in (straight, crossed):
                unions = [self._union([*mine, *theirs]) for mine, theirs in pairs]
                answers = yield from self._ask(unions)
                bad = [pair for pair, union in zip(pairs, unions, strict=True) if not answers[union]]
                if bad:
                    one, other = bad[0]
                    break
            else:
                return None
        return one[0], other[0]

    def _confirmed(self, found: Sequence[Culprit], good: Items, main: Members) -> Walk[None]:
        """Ask for what is still lacking so that each finding can be told from one wrong result."""
        wanted: list[Members] = []
        for place, culprit in enumerate(found):
            ends = (culprit.one, culprit.other)
            partners = [unit for unit in [*good[place:], *good[:place]] if unit not in ends]
            if culprit.kind == "gpu" and not self._results.pinned(culprit, found):
                pairs = [self._union([culprit.one, one]) for one in partners]
                new = [pair for pair in pairs if frozenset(pair) not in self._results.bad]
                wanted += new[:2] or pairs[:2]
            if culprit.kind == "switch":
                for side in ends:
                    wanted += [side] * max(0, 2 - self._results.times_fine(side))
            if culprit.kind == "link" and partners:
                pair = self._union(ends)
                wanted += [pair] * max(0, 2 - self._results.bad.count(frozenset(pair)))
                if not self._results.meet(ends):
                    wanted += [self._union([end, one]) for one in (partners * 2)[:2] for end in ends]
        if found and self._results.times_fine(main) < 2:
            wanted.append(main)  # that all others are fine is what makes them partners
        yield from self._ask(wanted, fresh=True)

    def _ask(self, groups: Sequence[Members], *, fresh: bool = False) -> Walk[dict[Members, bool]]:
        """Whether each group is fine; those of which other results tell are tested only if `fresh`.

        A group whose tests said nothing counts as bad here, is not tested again, and is no evidence.
        """
        known = self._results.known
        new = [one for one in groups if one not in self._untold and (fresh or known(one) is None)]
        answers = dict((yield new)) if new else {}
        return {group: answers[group] if group in answers else bool(known(group)) for group in groups}

    def _union(self, items: Iterable[Members]) -> Members:
        members = {one for item in items for one in item}
        return tuple(sorted(members, key=self._place.__getitem__))


def _in_step(walks: Sequence[Walk[T]]) -> Walk[list[T]]:
    """Several searches at once: what they ask for is asked together."""
    results: dict[int, T] = {}
    answers: dict[int, Answers | None] = dict.fromkeys(range(len(walks)))
    while len(results) < len(walks):
        asked: dict[int, Sequence[Members]] = {}
        for number, walk in enumerate(walks):
            if number in results:
                continue
            own = answers[number]
            try:
                asked[number] = next(walk) if own is None else walk.send(own)
            except StopIteration as end:
                results[number] = end.value
        if asked:
            found = yield [group for groups in asked.values() for group in groups]
            answers |= {number: {one: found[one] for one in groups} for number, groups in asked.items()}
    return [results[number] for number in range(len(walks))]


def _inside(block: Members, units: Items) -> list[Members]:
    """The units that a block consists of."""
    members = frozenset(block)
    return [unit for unit in units if members.issuperset(unit)]


def _halves(items: Items) -> list[Items]:
    middle = (len(items) + 1) // 2
    return [half for half in (items[:middle], items[middle:]) if half]
