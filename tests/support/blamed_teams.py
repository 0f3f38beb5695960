"""Simulated teams with faults, for the search for who is to blame; what it costs, as a table of the docs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rigproof.stages.collective.blame import next_step
from rigproof.stages.collective.results import Culprit, Members, Trial, node_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "blame.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->\n"
ROUND_S = 6  # starting the processes of all groups, one all-reduce, and their end
PLANNED = 2  # rounds that each run has: inside each node, and all together
LARGE = (128, 8)


def team(nodes: int, gpus: int) -> Members:
    """The devices of nodes with so many GPUs each."""
    return tuple(f"n{node}/gpu{gpu}" for node in range(nodes) for gpu in range(gpus))


def of(devices: Members, *nodes: int) -> Members:
    """The devices of these nodes."""
    names = {f"n{node}" for node in nodes}
    return tuple(one for one in devices if node_of(one) in names)


def but(devices: Members, some: Members) -> Members:
    """All other devices."""
    return tuple(one for one in devices if one not in set(some))


def gpu(name: str) -> Culprit:
    """A GPU that is bad with everybody."""
    return Culprit("gpu", (name,))


def port(devices: Members, name: str) -> Culprit:
    """A GPU whose way out of its node is bad."""
    return Culprit("port", (name,), tuple(one for one in devices if node_of(one) != node_of(name)))


def node(devices: Members, number: int) -> Culprit:
    """A node that is bad with all others."""
    own = of(devices, number)
    return Culprit("node", own, but(devices, own))


def link(devices: Members, one: int, other: int) -> Culprit:
    """What joins two nodes."""
    return Culprit("link", of(devices, one), of(devices, other))


def switch(devices: Members, nodes: Iterable[int]) -> Culprit:
    """What joins these nodes to all others."""
    own = of(devices, *nodes)
    return Culprit("switch", own, but(devices, own))


@dataclass(frozen=True)
class Found:
    """What a search ended with, and what it took; `rounds` and `tests` with the planned ones."""

    culprits: tuple[Culprit, ...]
    rounds: int
    tests: int
    flipped: bool = False

    @property
    def named(self) -> set[tuple[str, str]]:
        """The kinds and names of the culprits."""
        return {(one.kind, one.subject) for one in self.culprits}


def searched(
    devices: Members,
    faults: Iterable[Culprit] = (),
    *,
    alone: bool = False,
    wrong: int | None = None,
    hints: Callable[[Members], Members] | None = None,
) -> Found:
    """Search a team with these faults to the end.

    `alone`: a bad GPU fails by itself, too. The test number `wrong` gives the opposite result, once. `hints`:
    whom a bad group waits for.
    """
    faults = tuple(faults)
    results: list[Trial] = []
    rounds, flipped = 0, False
    while (step := next_step(devices, results)).groups:
        members = [one for group in step.groups for one in group]
        assert len(members) == len(set(members)), "a device is in two groups at once"
        rounds += 1
        for group in step.groups:
            bad = any(one.shows_in(group) for one in faults) and (alone or len(group) > 1)
            if wrong == len(results):
                bad, flipped = not bad, True
            missing = hints(group) if bad and hints else ()
            results.append(Trial(group, "stuck" if bad else "fine", missing))
    return Found(step.culprits, rounds, len(results), flipped)


def cases() -> dict[str, tuple[Culprit, ...]]:
    """The faults of a large rig, by what the table calls them."""
    devices = team(*LARGE)
    bad_gpu, slow_link = gpu("n37/gpu3"), link(devices, 10, 77)
    bad_switch = switch(devices, range(32, 48))
    return {
        "nothing": (),
        "a GPU": (bad_gpu,),
        "what joins two GPUs of a node": (Culprit("link", ("n10/gpu1",), ("n10/gpu6",)),),
        "a node": (node(devices, 55),),
        "one GPU's way out of its node": (port(devices, "n55/gpu2"),),
        "what joins two nodes": (slow_link,),
        "the switch of 16 nodes": (bad_switch,),
        "a GPU, two nodes' link and a switch at once": (bad_gpu, slow_link, bad_switch),
    }


def table() -> str:
    """What each of these takes to be found on a rig of 128 nodes with eight GPUs each."""
    lines = ["| What is wrong | Found | Rounds | Tests | Time on paper |", "|---|---|---:|---:|---:|"]
    for words, faults in cases().items():
        found = searched(team(*LARGE), faults)
        names = "; ".join(f"{one.kind}: {one.subject}" for one in found.culprits) or "nothing"
        more = found.rounds - PLANNED
        tests = found.tests - LARGE[0] - 1
        lines.append(f"| {words} | {names} | {more} | {tests} | {more * ROUND_S} s |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"
