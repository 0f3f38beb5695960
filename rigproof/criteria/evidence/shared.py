"""The evidence about devices or nodes that work together. Missing data raises NotMeasured."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.valid_rounds import require_valid
from rigproof.profiles.planning.subjects import Subject
from rigproof.records.measurements import Event

if TYPE_CHECKING:  # evidence builds these
    from rigproof.criteria.evidence.evidence import Evidence


class SharedEvidence:
    """The evidence about one promised pair or group."""

    def __init__(self, evidence: "Evidence", subject: Subject) -> None:
        self.evidence = evidence
        self.subject = subject.text
        self.members: tuple[DeviceEvidence | NodeEvidence, ...] = tuple(
            evidence.single(one) for one in subject.members
        )

    def require_found(self) -> None:
        """NotMeasured if a member did not answer: they could do nothing together, unless it was set apart."""
        apart = {one.subject for one in self.evidence.events.of_kind("set_apart")}
        left = [one for one in self.members if one.subject not in apart]
        for member in left if len(left) > 1 else self.members:
            member.require_found()

    def rounds(self, stage: str) -> Rounds:
        """The crew's rounds in one stage. NotMeasured if there are none, or one is invalid."""
        everything = self.evidence.rounds(self.subject)
        found = require_valid(everything.only(everything.same("stage", stage)), stage, self.evidence.kinds)
        kinds = {one.device.gpu.device for one in self.members if isinstance(one, DeviceEvidence)}
        if len(kinds) == 1:
            found = found.only(found.same("device", None, *kinds))
        if not len(found):
            cause = self.cause()
            raise NotMeasured(f"no round of {stage} was measured" + (f": {cause}" if cause else ""))
        return found

    def unverified(self, stage: str) -> Rounds:
        """The rounds of a stage, warm-up included, whose result was wrong. They may not be left out."""
        everything = self.evidence.rounds(self.subject)
        return everything.only(everything.same("stage", stage) & ~everything.same("verified", True))

    def events(self, *kinds: str) -> list[Event]:
        """Events that concern the crew itself."""
        return self.evidence.events.of(self.subject, *kinds)

    def cause(self) -> str:
        """Why it did nothing: what happened to the crew, else to a member; empty if neither explains it."""
        return next(self._causes(), "")

    def _causes(self) -> Iterator[str]:
        for event in self.events("crew_failed"):
            yield f"{event.message} (at t={event.t_s:.0f} s)"
        for member in self.members:
            if isinstance(member, DeviceEvidence) and (cause := member.cause()):
                yield f"{member.subject}: {cause}"
