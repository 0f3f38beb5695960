"""The verdicts that each simulated fault changes, as docs/faults.toml lists them.

`python -m support.outcomes` writes that file from simulated runs; a change of it is reviewed as a diff.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rigproof.criteria.criterion import Criterion
from rigproof.judging.catalogue import CATALOGUE, FAULTS
from rigproof.judging.judge import promised
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.subjects import RIG, subjects
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FaultKind

PATH = Path(__file__).parents[2] / "docs" / "faults.toml"
ENDS = {"fails": Outcome.FAIL, "warns": Outcome.WARN, "not measured": Outcome.NOT_MEASURED}
# In place of criteria: every other verdict of the fault's own subject, or of each GPU of its node.
OTHERS, OTHERS_OF_GPUS = "all others", "all others of each GPU"


@dataclass(frozen=True, slots=True)
class Case:
    """One simulated run of a fault: its keys as typed after the colon, what it changes, and why.

    `changed`: by outcome, the criteria; each is about the fault's own subject, its node, each GPU of it, or
    the rig. One about anything else stands behind its subject: `n2/gpu0 throughput.peer_outlier`.
    """

    fault: FaultKind
    keys: str
    why: str = ""
    changed: Mapping[Outcome, tuple[str, ...]] | None = None

    def __str__(self) -> str:
        return self.fault.name + (f":{self.keys}" if self.keys else "")

    @property
    def stage(self) -> str:
        """The stage that its keys name; empty if they leave the choice to the fault."""
        first = self.keys.partition(",")[0]
        return first.removeprefix("stage=") if first.startswith("stage=") else ""

    def criteria(self, outcome: Outcome) -> tuple[str, ...]:
        """The criteria that end with this outcome."""
        return (self.changed or {}).get(outcome, ())

    def changes(self, subject: str, loaded: LoadedRig) -> dict[tuple[str, str], Outcome]:
        """Every verdict that is not good if the fault hits this subject of this rig."""
        found: dict[tuple[str, str], Outcome] = {}
        for outcome in ENDS.values():
            for name in self.criteria(outcome):
                where, _, criterion = name.rpartition(" ")
                if name in (OTHERS, OTHERS_OF_GPUS):
                    continue
                hit = [where] if where else hits(CATALOGUE[criterion], subject, loaded)
                found |= dict.fromkeys(((criterion, one) for one in hit), outcome)
        for name in (OTHERS, OTHERS_OF_GPUS):
            if name in self.criteria(Outcome.NOT_MEASURED):
                every = dict.fromkeys(others(name, subject, loaded), Outcome.NOT_MEASURED)
                found = every | found
        return found


def hits(criterion: Criterion, subject: str, loaded: LoadedRig) -> list[str]:
    """The promised subjects of a criterion that are a fault's subject, its node, its GPUs, or the rig."""
    members = {one.text: one.members for one in subjects(loaded, criterion.scope)}
    return [
        one
        for one in promised(criterion, loaded)
        if one == RIG
        or any(
            part == subject or part.startswith(f"{subject}/") or subject.startswith(f"{part}/")
            for part in members[one]
        )
    ]


def others(name: str, subject: str, loaded: LoadedRig) -> list[tuple[str, str]]:
    """By criterion and subject, all verdicts that one of the two words for them stands for."""
    return [
        (criterion.name, one)
        for criterion in CATALOGUE.values()
        for one in promised(criterion, loaded)
        if (one == subject if name == OTHERS else one.startswith(f"{subject}/"))
    ]


@cache
def cases() -> tuple[Case, ...]:
    """All cases, by fault in the order of the catalogue; first those of whole runs, then stage by stage."""
    return tuple(read(PATH.read_text(encoding="utf-8")))


def read(text: str) -> list[Case]:
    """The cases of such a file, without faults that are no more: the next writing drops them."""
    found = []
    for name, tables in tomllib.loads(text).items():
        for table in tables if name in FAULTS else ():
            changed = {
                outcome: tuple(table[word.replace(" ", "_")])
                for word, outcome in ENDS.items()
                if word.replace(" ", "_") in table
            }
            keys = table.get("keys", [""])
            found += [Case(FAULTS[name], one, table.get("why", ""), changed) for one in keys]
    return found


def whole_runs() -> list[Case]:
    """The cases of runs in which no stage was chosen: each fault with its defaults, or with other keys."""
    return [case for case in cases() if not case.stage]


def shown_by(criterion: Criterion, outcome: Outcome) -> tuple[str, ...]:
    """The faults that give a criterion this outcome, as a user types them; first those made for it."""
    found = [case for case in whole_runs() if named(case, criterion, outcome)]
    found.sort(key=lambda case: criterion.name not in case.fault.trips)
    return tuple(map(str, found))


def named(case: Case, criterion: Criterion, outcome: Outcome) -> bool:
    """Whether a case says so of the criterion."""
    by_name = {name.rpartition(" ")[2]: one for one in ENDS.values() for name in case.criteria(one)}
    if criterion.name in by_name or outcome is not Outcome.NOT_MEASURED:
        return by_name.get(criterion.name) is outcome
    own = {"gpu": "device", "node": "node"}[case.fault.scope]
    words = case.criteria(outcome)
    return (criterion.scope == own and OTHERS in words) or (
        criterion.scope == "device" and OTHERS_OF_GPUS in words
    )


def shown(cases_of_it: Iterable[Case]) -> set[tuple[str, Outcome]]:
    """Each criterion with each outcome that these cases give it."""
    return {
        (name.rpartition(" ")[2], outcome)
        for case in cases_of_it
        for outcome in ENDS.values()
        for name in case.criteria(outcome)
        if name not in (OTHERS, OTHERS_OF_GPUS)
    }
