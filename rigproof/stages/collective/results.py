"""What all results of a search say together: what is known of a group, and who is to blame for it. Pure.

A group that holds a fault is bad, and every part of a fine group is fine. Nobody is named whom one wrong
result could have made a suspect.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal

Result = Literal["fine", "wrong", "stuck", "slow", "unknown"]
Kind = Literal["gpu", "port", "node", "link", "switch", "all", "unknown"]
Members = tuple[str, ...]  # devices, in the team's order
BAD: tuple[Result, ...] = ("wrong", "stuck", "slow")
ALONE = "it fails alone"
WHY = {
    "gpu": "it fails with each partner",
    "port": "of its node it alone fails with other nodes, and inside its node it is fine: its own way out",
    "node": "it fails with each other node: its {gpu}network card, cable, settings",
    "link": "each is fine with others",
    "switch": "they are fine with each other and fail with all others: what joins them to the rest",
    "all": "no two of them are fine together: what all of them share",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """A group that was tested; `missing` are the devices that others waited for, if it was stuck."""

    members: Members
    result: Result
    missing: Members = ()


@dataclass(frozen=True, slots=True)
class Culprit:
    """What is to blame, or what cannot be told.

    `one`: its devices. `other`: those that they fail with; empty if they do with all (`gpu`), with each other
    (`all`), or if it cannot be told (`unknown`). `port`: one device's way out of its node. `why`: in words.
    """

    kind: Kind
    one: Members
    other: Members = ()
    why: str = ""

    @property
    def subject(self) -> str:
        """What it is called: devices, or nodes if it is about whole ones."""
        between = len(set(map(node_of, (*self.one, *self.other)))) > 1
        nodes = self.kind == "node" or (self.kind in ("switch", "all", "link") and between)
        sides = (dict.fromkeys(map(node_of, side) if nodes else side) for side in (self.one, self.other))
        one, other = map(_names, map(list, sides))
        if self.kind == "link":
            return f"{one} and {other}"
        return f"{one} from the rest" if self.kind == "switch" else one

    def shows_in(self, group: Iterable[str]) -> bool:
        """Whether a group with these members is bad because of it."""
        members = frozenset(group)
        if self.kind == "unknown":
            return False
        if self.kind == "gpu":
            return not members.isdisjoint(self.one)
        if self.kind == "all":
            inside = members.intersection(self.one)
            return len(inside if _scope(self.one) else set(map(node_of, inside))) > 1
        return not (members.isdisjoint(self.one) or members.isdisjoint(self.other))


def why_of(kind: Kind, one: Members) -> str:
    """Why these are to blame: of a node with one GPU that, too, may be it."""
    return WHY[kind].format(gpu="GPU, " if len(one) == 1 else "")


def node_of(device: str) -> str:
    """The node of a device."""
    return device.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Results:
    """The groups of a team that were fine, and those that were bad, each as often as it was tested."""

    devices: Members
    fine: list[frozenset[str]] = field(default_factory=list)
    bad: list[frozenset[str]] = field(default_factory=list)

    def known(self, group: Members) -> bool | None:
        """Whether a group is fine, by the results of others; None if they do not tell."""
        members = frozenset(group)
        if any(one <= members for one in self.bad):
            return False
        return True if any(members <= one for one in self._fine_like(members)) else None

    def times_fine(self, members: Iterable[str]) -> int:
        """How many fine groups hold all of these devices."""
        return sum(group.issuperset(members) for group in self.fine)

    def meet(self, ends: tuple[Members, Members]) -> bool:
        """Whether both ends of a link are fine with one other, even if any one result is left out."""
        own = [
            [group for group in self.fine if frozenset(end) < group and group.isdisjoint(away)]
            for end, away in (ends, ends[::-1])
        ]
        for dropped in (group for groups in own for group in groups):
            met = [{one for group in groups if group is not dropped for one in group} for groups in own]
            if not (met[0] & met[1]).difference(*ends):
                return False
        return all(own)

    def pinned(self, culprit: Culprit, found: Iterable[Culprit]) -> bool:
        """Whether the bad groups that it alone explains share nothing else, also without any one of them."""
        groups = self._evidence(culprit, found)
        ends = frozenset((*culprit.one, *(culprit.other if culprit.kind == "link" else ())))
        if len(groups) < 2:
            return False
        for dropped in range(len(groups)):
            left = [group for place, group in enumerate(groups) if place != dropped]
            if reduce(frozenset.__and__, left) - ends:
                return False
        return True

    def concluded(self, found: Sequence[Culprit]) -> tuple[Culprit, ...]:
        """What all results bear out, with the reasons; at the end what cannot be told.

        Where a result is left that nothing explains, nobody is named.
        """
        sure = [one for one in found if self._holds(one, found)]
        told = [replace(one, why=one.why or why_of(one.kind, one.one)) for one in sure]
        told += [one for one in found if one.kind == "unknown" and one.why]
        doubtful = [one for one in found if one not in sure and not one.why]
        unexplained = [group for group in self.bad if not self._explained(group, told)]
        if not doubtful and not unexplained:
            return tuple(told)
        smallest = min(unexplained or [frozenset((*one.one, *one.other)) for one in doubtful], key=len)
        scopes = {_scope(group) for group in unexplained}
        suspects = [one for one in told if one not in found and _scope((*one.one, *one.other)) in scopes]
        told = [one for one in told if one not in suspects]
        why = self._why_not(smallest)
        if suspects:
            why += f"; most speak against {' and against '.join(one.subject for one in suspects)}"
        return (*told, Culprit("unknown", tuple(one for one in self.devices if one in smallest), why=why))

    def _explained(self, group: frozenset[str], told: Iterable[Culprit]) -> bool:
        """Whether a finding shows in a bad group. Nobody knows on which side of a switch a bad one is."""
        about = {node_of(device) for one in told if one.kind != "switch" for device in one.one}
        return any(
            one.shows_in(group)
            or (one.kind == "unknown" and not group.isdisjoint(one.one))
            or (one.kind == "switch" and not about.isdisjoint(map(node_of, group)))
            for one in told
        )

    def _why_not(self, group: frozenset[str]) -> str:
        if not any(one & group for one in self.fine):
            return "nobody else is fine, to test them with"
        if not any(one & group for one in self._fine_like(group)):
            return "the way to those who are fine is slower"
        times = self.bad.count(group)
        often = "once" if times == 1 else f"{times} times"
        return f"results contradict each other: together they failed {often}, and nothing explains that"

    def _holds(self, culprit: Culprit, found: Sequence[Culprit]) -> bool:
        """Whether all results bear it out, and would if any one of them were wrong."""
        if culprit.why:  # by what it does alone
            return culprit.kind != "unknown"
        doubted = (bad for bad in self.bad if any(bad <= fine for fine in self._fine_like(bad)))
        about = self._fine_like((*culprit.one, *culprit.other))
        contradicted = any(culprit.shows_in(group) for group in about)
        if (
            culprit.kind == "unknown"
            or contradicted
            or any(not bad.isdisjoint(culprit.one) for bad in doubted)
        ):
            return False
        ends = (culprit.one, culprit.other)
        if culprit.kind in ("switch", "all"):
            twice = all(self.times_fine(side) > 1 for side in ends)
            return len(self._evidence(culprit, found)) > 2 and (culprit.kind == "all" or twice)
        return (culprit.kind != "link" or self.meet(ends)) and self.pinned(culprit, found)

    def _evidence(self, culprit: Culprit, found: Iterable[Culprit]) -> list[frozenset[str]]:
        """The bad groups in which no other finding shows."""
        others = [one for one in found if one != culprit]
        return [
            group
            for group in self.bad
            if culprit.shows_in(group) and not any(one.shows_in(group) for one in others)
        ]

    def _fine_like(self, group: Iterable[str]) -> list[frozenset[str]]:
        """The fine groups that can speak for a group: where nodes are slow together, none for its inside."""
        node = _scope(group)
        return [one for one in self.fine if not node or _scope(one) == node]


def _scope(devices: Iterable[str]) -> str:
    """The node of these devices; empty if they are on several."""
    nodes = {node_of(device) for device in devices}
    return nodes.pop() if len(nodes) == 1 else ""


def _names(names: Sequence[str]) -> str:
    """Up to four names; of more the first and the last, with the number."""
    if len(names) <= 4:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]} ({len(names)})"
