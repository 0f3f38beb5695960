"""Which verdicts each fault changes, as declared by faults and criteria; tests run all of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from rigproof.criteria.criterion import Criterion
from rigproof.judging.catalogue import CATALOGUE, FAULTS
from rigproof.judging.judge import promised
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.subjects import RIG, subjects
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FaultKind

ENDS = {"fails": Outcome.FAIL, "warns": Outcome.WARN, "not measured": Outcome.NOT_MEASURED}


@dataclass(frozen=True, slots=True)
class Case:
    """A fault with its defaults, or with the keys of a variant; `why`: the reason for its effects."""

    fault: FaultKind
    keys: str
    why: str

    def __str__(self) -> str:
        return self.fault.name + (f":{self.keys}" if self.keys else "")

    def outcome(self, criterion: Criterion) -> Outcome | None:
        """The criterion's outcome for the fault's subject; None if it does not change."""
        if not self.keys and criterion.name in self.fault.trips:
            return ENDS[self.fault.ends]
        name, also = str(self), criterion.also
        if name in also.fails:
            return Outcome.FAIL
        if name in also.warns:
            return Outcome.WARN
        absent = criterion.scope in self.fault.absent
        return Outcome.NOT_MEASURED if absent or name in also.unmeasured else None

    def changes(self, subject: str, loaded: LoadedRig) -> dict[tuple[str, str], Outcome]:
        """By criterion and subject, every outcome that changes if the fault hits this subject of this rig."""
        found: dict[tuple[str, str], Outcome] = {}
        for criterion in CATALOGUE.values():
            outcome = self.outcome(criterion)
            members = {one.text: one.members for one in subjects(loaded, criterion.scope)}
            judged = promised(criterion, loaded)
            hit = [
                one for one in judged if one == RIG or any(self._hits(part, subject) for part in members[one])
            ]
            if outcome is not None:
                found |= {(criterion.name, one): outcome for one in hit}
            if "device" in self.fault.absent:
                alone = _without_others(criterion, loaded, judged, hit)
                found |= {(criterion.name, one): Outcome.NOT_MEASURED for one in alone}
        return found

    def _hits(self, subject: str, hit: str) -> bool:
        """Whether it affects a node or device: the one that it hits, its node, or its node's devices."""
        nested = subject.startswith(f"{hit}/") or hit.startswith(f"{subject}/")
        return self.fault.everywhere or subject == hit or nested


def _without_others(
    criterion: Criterion, loaded: LoadedRig, judged: tuple[str, ...], gone: list[str]
) -> set[str]:
    """For a criterion that compares devices of one kind: those that have no other left to compare with."""
    if criterion.scope != "device":
        return set()
    every = [one for one in loaded.devices() if one.subject in judged]
    left = [one for one in every if one.subject not in gone]
    compared = {one.subject for one in criterion.equal(loaded, criterion.among(loaded, every))}
    still = {one.subject for one in criterion.equal(loaded, criterion.among(loaded, left))}
    return compared.difference(gone) - still


def cases() -> Iterator[Case]:
    """The cases of all faults: first with their defaults, then with other keys."""
    for fault in FAULTS.values():
        yield Case(fault, "", fault.why)
        yield from (Case(fault, one.keys, one.why) for one in fault.variants)


def shown_by(criterion: Criterion, outcome: Outcome) -> tuple[str, ...]:
    """The faults that give a criterion this outcome, as a user types them; first those made for it."""
    found = [case for case in cases() if case.outcome(criterion) is outcome]
    found.sort(key=lambda case: criterion.name not in case.fault.trips)
    return tuple(map(str, found))
