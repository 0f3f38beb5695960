"""What GitHub shows beside a failed job: workflow commands, which its runner reads from the output.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from collections.abc import Iterator

from rigproof.records.verdict import SEVERITIES, Outcome, Verdict, sentence
from rigproof.report.content.order import of_outcome
from rigproof.report.content.result import RunResult

SHOWN = 9  # GitHub shows ten of a step
WORST_FIRST = [*reversed(SEVERITIES), None]
IN_TEXT = {"%": "%25", "\r": "%0D", "\n": "%0A"}
IN_TITLE = {**IN_TEXT, ":": "%3A", ",": "%2C"}


def annotations(result: RunResult) -> Iterator[str]:
    """The causes of a verdict that is not ACCEPTED, worst first; of many the first nine, and how many more.

    What follows from another failure is none of them.
    """
    failures = [one for one in of_outcome(result.verdicts, Outcome.FAIL) if not one.follows]
    failures.sort(key=lambda one: WORST_FIRST.index(one.severity))
    missing = [
        one for one in of_outcome(result.verdicts, Outcome.NOT_MEASURED) if one.remedy and not one.follows
    ]
    kind, causes = ("error", failures) if failures else ("warning", missing)
    for one in causes[:SHOWN]:
        yield f"::{kind} title={_escaped(_title(one, result), IN_TITLE)}::{_escaped(sentence(one), IN_TEXT)}"
    if len(causes) > SHOWN:
        yield f"::{kind} title=rigproof::and {len(causes) - SHOWN} more, in the step summary"


def _title(verdict: Verdict, result: RunResult) -> str:
    simulated = "SIMULATED " if result.simulated else ""
    severity = f" [{verdict.severity}]" if verdict.severity else ""
    return f"{simulated}{verdict.subject} {verdict.criterion}{severity}"


def _escaped(text: str, special: dict[str, str]) -> str:
    return "".join(special.get(character, character) for character in text)
