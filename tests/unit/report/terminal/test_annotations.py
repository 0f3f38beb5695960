"""What GitHub shows beside a failed job."""

from dataclasses import replace

import pytest

from rigproof.records.verdict import Decision, Outcome, Verdict
from rigproof.report.content.facts import run_facts
from rigproof.report.content.result import RunResult
from rigproof.report.terminal.annotations import annotations


def failed(criterion: str, **changes) -> Verdict:
    facts = {"outcome": Outcome.FAIL, "measured": 84.0, "limit": 80.0, "direction": "at_most", "unit": "°C"}
    return Verdict(criterion, "pc1/gpu0", **{**facts, "remedy": "clean it", **changes})


@pytest.fixture
def told(recording):
    """The annotations of a run with these verdicts."""

    def of(*verdicts: Verdict, decision: Decision = Decision.REJECTED) -> list[str]:
        return list(annotations(RunResult(recording, run_facts(recording), verdicts, decision, 60.0)))

    return of


def test_the_worst_comes_first_and_what_follows_is_left_out(told) -> None:
    lines = told(
        failed("thermal.core_temperature", severity="reseat"),
        failed("throughput.sustained", remedy="follows from thermal.core_temperature of pc1/gpu0"),
        failed("memory.ecc", severity="rma"),
        failed("host.governor", severity="config"),
        replace(failed("power.draw"), outcome=Outcome.PASS),
    )
    titles = [line.partition("::")[2].partition("::")[0] for line in lines]
    assert titles == [
        "error title=pc1/gpu0 memory.ecc [rma]",
        "error title=pc1/gpu0 thermal.core_temperature [reseat]",
        "error title=pc1/gpu0 host.governor [config]",
    ]
    assert lines[1] == (
        "::error title=pc1/gpu0 thermal.core_temperature [reseat]::"
        "pc1/gpu0 thermal.core_temperature: 84 °C, limit ≤ 80 °C. Clean it."
    )


def test_of_many_nine_are_shown(told) -> None:
    lines = told(*(failed(f"a.b{number}", severity="reset") for number in range(12)))
    assert len(lines) == 10
    assert lines[-1] == "::error title=rigproof::and 3 more, in the step summary"
    assert len(told(*(failed(f"a.b{number}") for number in range(9)))) == 9


def test_nothing_in_a_sentence_ends_it_or_begins_another_command(told) -> None:
    (line,) = told(failed("a.b", detail="100 % of it\n::set-env name=X::y\r, a: b"))
    assert "\n" not in line
    assert "\r" not in line
    assert "100 %25 of it%0A::set-env" in line


def test_what_kept_it_from_being_measured_is_a_warning(told) -> None:
    missing = replace(failed("a.b", detail="another program computed"), outcome=Outcome.NOT_MEASURED)
    (line,) = told(missing, decision=Decision.INCOMPLETE)
    assert line.startswith("::warning title=pc1/gpu0 a.b::")
    assert told(decision=Decision.ACCEPTED) == []


def test_a_simulated_run_says_so(told, recording) -> None:
    recording.run = replace(recording.run, simulated=True)
    (line,) = told(failed("a.b"))
    assert line.startswith("::error title=SIMULATED pc1/gpu0 a.b::")
