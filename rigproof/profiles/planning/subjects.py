"""The subjects that are judged and that crews work on, and which workers work together in a stage. Pure.

A subject is a node, a device, a pair or group of them, or the rig. Its text is written and read here only: a
node's name may contain the dash that joins a pair, so a text is looked up among the promised subjects and
never split.

A crew begins and ends together, and its members know each other by rank. Crews without a common member
work at the same time: a turn. Pairs need several turns, since each device is in many of them.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Literal, get_args

from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.records.crews import Crew, CrewKind, Turn

# "pair": two devices. "peers": two devices of one node. "node_pair": two nodes, each with a device.
# "node_ring": those of them that follow each other in the profile, and the last with the first. "group": all
# devices of one SKU, if it has several. "team": all devices of a node, if it has several; or all of the rig,
# if they are on several nodes.
Scope = Literal["node", "device", "pair", "peers", "node_pair", "node_ring", "group", "team", "rig"]
SharedScope = Literal["pair", "peers", "node_pair", "node_ring", "group", "team"]
SHARED_SCOPES: tuple[SharedScope, ...] = get_args(SharedScope)
RIG = "rig"


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject with its text. `members` are the texts of the devices or nodes in it.

    A single device or node is its own only member.
    """

    text: str
    members: tuple[str, ...]


def subjects(loaded: LoadedRig, scope: Scope) -> tuple[Subject, ...]:
    """All subjects of one scope that the profile promises, in the profile's order.

    Each pair occurs once, the member that the profile names earlier first.
    """
    devices = loaded.devices()
    with_devices = tuple(dict.fromkeys(device.node for device in devices))
    match scope:
        case "node":
            found = [Subject(node.name, (node.name,)) for node in loaded.rig.nodes]
        case "device":
            found = [Subject(device.subject, (device.subject,)) for device in devices]
        case "pair":
            found = _pairs([device.subject for device in devices])
        case "peers":
            found = [pair for one in _hosts(loaded, fewest=2) for pair in _pairs(one.members)]
        case "node_pair":
            found = [_node_pair(pair) for pair in combinations(with_devices, 2)]
        case "node_ring":
            found = [_node_pair(pair) for turn in _ring(with_devices) for pair in turn]
        case "group":  # sku:rtx-3090: no name contains a colon
            return _alike(loaded)
        case "team":
            found = [one for turn in _teams(loaded) for one in turn]
        case "rig":
            found = [Subject(RIG, tuple(device.subject for device in devices))]
    return tuple(found)


def _node_pair(pair: tuple[str, str]) -> Subject:
    """pc1+pc2: no name contains a plus."""
    return Subject("+".join(pair), pair)


def _ring(nodes: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Each node with the next one, and the last with the first: two turns, or three of an odd number."""
    pairs = list(pairwise(nodes))
    turns: list[list[tuple[str, str]]] = [pairs[::2], pairs[1::2], []]
    if len(nodes) > 2:
        turns[1 + len(nodes) % 2].append((nodes[0], nodes[-1]))
    return [turn for turn in turns if turn]


def _pairs(devices: Sequence[str]) -> list[Subject]:
    """pc1/gpu0-pc2/gpu0: only the part between the slashes could contain another dash."""
    return [Subject("-".join(pair), pair) for pair in combinations(devices, 2)]


def _alike(loaded: LoadedRig) -> tuple[Subject, ...]:
    """One group for each SKU that several devices have. Devices without a SKU file are in no group."""
    found: dict[str, list[str]] = defaultdict(list)
    for device in loaded.devices():
        if device.sku_stem is not None:
            found[device.sku_stem].append(device.subject)
    return tuple(Subject(f"sku:{stem}", tuple(alike)) for stem, alike in found.items() if len(alike) > 1)


SCOPES: dict[CrewKind, Scope] = {
    "devices": "device",
    "nodes": "node",
    "pairs": "pair",
    "node_pairs": "node_pair",
    "groups": "group",
    "rig": "rig",
}


def turns_of(kind: CrewKind, loaded: LoadedRig, workers: Sequence[WorkerPlan]) -> tuple[Turn, ...]:
    """All crews of one kind, turn by turn; in a turn no worker occurs twice.

    Crews with a member that none of `workers` works for are left out. Empty if the rig promises no such crew.
    """
    if kind == "workers":
        return (tuple(Crew(one.subject, (one.worker,)) for one in workers),)
    first: dict[str, str] = {}  # of each device and of each node
    for worker in workers:
        first.setdefault(worker.subject, worker.worker)
        first.setdefault(worker.node, worker.worker)
    return tuple(
        tuple(_crew(one, first) for one in turn if first.keys() >= set(one.members))
        for turn in _turns(kind, loaded)
    )


def without(apart: Collection[str], turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns without the workers of some devices, and without crews of which only one is left."""
    return tuple(left for turn in turns if (left := tuple(_left(apart, turn))))


def _left(apart: Collection[str], turn: Turn) -> Iterator[Crew]:
    for crew in turn:
        workers = tuple(one for one in crew.workers if one.rpartition("#")[0] not in apart)
        if len(workers) >= min(2, len(crew.workers)):
            yield replace(crew, workers=workers)


def without_lost(lost: Collection[str], turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns without these workers. A crew of which too few are left stays as it is, and cannot begin.

    Enough are two, and on two nodes if the whole crew is on several.
    """
    return tuple(tuple(_without_lost(lost, crew) for crew in turn) for turn in turns)


def _without_lost(lost: Collection[str], crew: Crew) -> Crew:
    left = replace(crew, workers=tuple(one for one in crew.workers if one not in lost))
    nodes, nodes_left = ({one.rpartition("/")[0] for one in those.workers} for those in (crew, left))
    return left if len(left.workers) > 1 and len(nodes_left) >= min(2, len(nodes)) else crew


def _turns(kind: CrewKind, loaded: LoadedRig) -> Sequence[Sequence[Subject]]:
    match kind:
        case "hosts":
            turns: Sequence[Sequence[Subject]] = [_hosts(loaded)]
        case "neighbours":
            turns = [_hosts(loaded, fewest=2)]
        case "network":
            nodes = tuple(dict.fromkeys(device.node for device in loaded.devices()))
            turns = [(Subject(RIG, nodes),)] if len(nodes) > 1 else []
        case "teams":
            turns = _teams(loaded)
        case "rig":
            turns = [subjects(loaded, "rig")] if len(loaded.devices()) > 1 else []
        case "node_ring":
            nodes = tuple(dict.fromkeys(device.node for device in loaded.devices()))
            turns = [list(map(_node_pair, turn)) for turn in _ring(nodes)]
        case "pairs" | "node_pairs":
            pairs = {pair.members: pair for pair in subjects(loaded, SCOPES[kind])}
            members = tuple(dict.fromkeys(member for pair in pairs for member in pair))
            turns = [
                [pairs[members[one], members[other]] for one, other in turn]
                for turn in round_robin(len(members))
            ]
        case _:
            turns = [subjects(loaded, SCOPES[kind])]
    return [turn for turn in turns if turn]


def _crew(subject: Subject, first: Mapping[str, str]) -> Crew:
    return Crew(subject.text, tuple(first[member] for member in subject.members))


def _hosts(loaded: LoadedRig, fewest: int = 1, *, cpu: bool = False) -> tuple[Subject, ...]:
    """Each node that promises that many GPUs, with these as members; with `cpu` its CPU counts as one."""
    found: dict[str, list[str]] = defaultdict(list)
    for device in loaded.devices():
        if cpu or device.gpu.device == "cuda":
            found[device.node].append(device.subject)
    return tuple(Subject(node, tuple(own)) for node, own in found.items() if len(own) >= fewest)


def _teams(loaded: LoadedRig) -> list[tuple[Subject, ...]]:
    """The devices of each node with several, which can work at the same time; then those of all nodes."""
    nodes = _hosts(loaded, cpu=True)
    inside = tuple(one for one in nodes if len(one.members) > 1)
    return [inside, subjects(loaded, "rig")] if len(nodes) > 1 else [inside]


def number_of_turns(kind: CrewKind, loaded: LoadedRig) -> int:
    """How many turns the crews of one kind take; 0 if the rig promises no such crew."""
    if kind in ("pairs", "node_pairs"):
        devices = loaded.devices()
        count = len(devices) if kind == "pairs" else len({device.node for device in devices})
        return 0 if count < 2 else count - 1 + count % 2
    return 1 if kind in ("workers", "devices", "nodes") else len(_turns(kind, loaded))


def number_of_shifts(kind: CrewKind, loaded: LoadedRig) -> int:
    """How many shifts there are if the devices of a host work one at a time; of neighbours, its pairs.

    Those of the host with the most devices.
    """
    most = max(map(len, (one.members for one in _hosts(loaded, cpu=kind != "neighbours"))), default=0)
    return math.comb(most, 2) if kind == "neighbours" else most


def round_robin(count: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Every pair of the numbers under `count` once, (lower, higher), in turns without a repeated number.

    An even `count` takes `count` - 1 turns. An odd one takes `count` turns, and in each a different number
    rests. This is the circle method: one number stays in place, all others move on by one seat.
    """
    if count < 2:
        return ()
    seats = [*range(count), *([count] * (count % 2))]  # the number that is paired with `count` rests
    turns = []
    for _ in range(len(seats) - 1):
        opposite = (sorted((seats[place], seats[-1 - place])) for place in range(len(seats) // 2))
        turns.append(tuple((low, high) for low, high in sorted(opposite) if high < count))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return tuple(turns)
