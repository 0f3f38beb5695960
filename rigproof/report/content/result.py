"""The result of a run, from which all outputs are made."""

from collections.abc import Sequence
from dataclasses import dataclass

from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.length import Shortfall, in_place_of_level, shortfalls
from rigproof.judging.together import alone, not_together, remark
from rigproof.profiles.loading.load import default_rig
from rigproof.profiles.planning.subjects import Subject
from rigproof.records.recording import Recording
from rigproof.records.verdict import EXIT_STATUS, INTERRUPTED, Decision, Outcome, Verdict
from rigproof.report.content.facts import RunFacts, not_tested, remarks, restored, run_facts
from rigproof.report.content.order import instead, meaning, with_more
from rigproof.stages.registry import KINDS

FOUND = (Outcome.PASS, Outcome.NO_LIMIT)


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run, from which all its files are written."""

    recording: Recording
    facts: RunFacts
    verdicts: Sequence[Verdict]
    decision: Decision
    elapsed_s: float
    interrupted: bool = False
    write_error: str | None = None
    command_status: int | None = None  # the exit status of the command, if known
    shortfalls: tuple[Shortfall, ...] = ()  # stages that were shorter than the level promises
    problems: tuple[str, ...] = ()  # what else than the rig kept it from being accepted, first cause first
    not_together: tuple[Subject, ...] = ()  # teams whose devices did not exchange verified data
    alone: str = ""  # that the rig has a single device, in words; empty if it has several
    again: bool = False  # judged after the run, perhaps by another version

    @property
    def simulated(self) -> bool:
        return self.recording.run.simulated

    @property
    def short(self) -> str:
        """The addition to the verdict line, `for 6 s of load, not a soak`; empty for a complete run."""
        return in_place_of_level(self.shortfalls, self.recording.run.level)

    @property
    def apart(self) -> str:
        """The other addition, `GPUs not tested together`; empty if nothing lacks."""
        return remark(self.not_together)

    @property
    def instead(self) -> str:
        """Both additions, as they follow ACCEPTED."""
        return instead(self.decision, self.short, self.apart)

    @property
    def remarks(self) -> tuple[str, ...]:
        return remarks(self.recording)

    @property
    def not_tested(self) -> str:
        return not_tested(self.recording)

    @property
    def headlines(self) -> tuple[str, ...]:
        """What criteria found that stands in the verdict line of an accepted rig."""
        named = {name for name, one in CATALOGUE.items() if one.headline}
        return tuple(one.detail for one in self.verdicts if one.criterion in named and one.outcome in FOUND)

    @property
    def meaning(self) -> str:
        """The decision's meaning for someone who wants to train, in one sentence."""
        sense = meaning(
            self.decision,
            self.verdicts,
            interrupted=self.interrupted,
            problem=next(iter(self.problems), ""),
            short=self.short,
            apart=self.apart,
            simulated=self.simulated,
        )
        return with_more(sense, self.decision, self.headlines, self.not_tested)

    @property
    def exit_status(self) -> int:
        if self.command_status is not None:
            return self.command_status
        stopped = self.interrupted and self.decision is Decision.INCOMPLETE
        return INTERRUPTED if stopped else EXIT_STATUS[self.decision]


def result_of(
    recording: Recording,
    verdicts: Sequence[Verdict],
    *,
    decision: Decision,
    elapsed_s: float,
    interrupted: bool = False,
    write_error: str | None = None,
    exit_status: int | None = None,
    problems: Sequence[str] = (),
    again: bool = False,
) -> RunResult:
    """The result that the files show, with the facts of the recording.

    `write_error` is the disk error of the recording itself. `exit_status`: the command's, if it is not that
    of the decision. `problems`: what else than the rig kept it from being accepted; every file states it.
    """
    loaded = restored(recording)
    outcomes = {(one.criterion, one.subject): one.outcome for one in verdicts}
    ended = [name for name, stage in recording.stages.items() if stage.status == "finished"]
    return RunResult(
        recording,
        run_facts(recording, loaded),
        tuple(verdicts),
        decision,
        elapsed_s,
        interrupted,
        write_error,
        exit_status,
        shortfalls(recording, default_rig(KINDS, recording.run.rig)),
        tuple(problems),
        () if loaded is None else not_together(loaded, KINDS, ended, outcomes),
        "" if loaded is None else alone(loaded, KINDS),
        again,
    )
