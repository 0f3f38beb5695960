from dataclasses import replace

import pytest

from rigproof.records.verdict import Decision, Outcome, Verdict, sentence
from rigproof.report.content.facts import run_facts
from rigproof.report.content.verdict_json import RunResult
from rigproof.report.files.summary_md import BYTES_MAX, summary_text


@pytest.fixture
def result(recording, verdicts):
    return RunResult(recording, run_facts(recording), verdicts, Decision.REJECTED, 61.2)


def test_failures_come_as_sentences_before_the_table(result):
    text = summary_text(result)
    assert text.startswith("# rigproof: REJECTED\n")
    failure = (
        "- pc1/gpu1 thermal.core_temperature: 84 °C, limit ≤ 80 °C (from t=41 s, 15 s long). "
        "Clean the heatsink or raise the fan curve.\n"
    )
    assert text.index(failure) < text.index("## All criteria")
    assert (
        "| FAIL | `thermal.core_temperature` | pc1/gpu1 | 84 °C | ≤ 80 °C | hwprofiles/rigs/lab.toml |"
        in text
    )
    assert "SIMULATED" not in text


def test_a_simulated_run_says_so_first(result):
    result.recording.run = replace(result.recording.run, simulated=True)
    assert summary_text(result).startswith("# rigproof: SIMULATED REJECTED\n\n> **SIMULATED**")


def test_text_of_a_run_is_no_markup(result):
    nasty = Verdict(
        "c.x", "a|b", Outcome.FAIL, detail="<script>alert(1)</script> | `x` *y* [z](http://e)\n# title"
    )
    text = summary_text(replace(result, verdicts=[nasty]))
    assert "<script>" not in text
    assert "\n# title" not in text
    assert "a\\|b" in text
    assert "\\[z](" in text


def test_it_fits_a_github_summary_however_much_failed(result):
    many = [
        Verdict("throughput.gemm_bf16", f"node{number}/gpu0", Outcome.FAIL, detail="x" * 500)
        for number in range(20000)
    ]
    text = summary_text(replace(result, verdicts=many))
    assert len(text.encode()) <= BYTES_MAX
    assert " more in verdict.json" in text
    assert " more rows in verdict.json" in text
    assert sentence(many[0]) in text


def test_a_storage_error_is_reported(result):
    assert "disk full" in summary_text(replace(result, write_error="disk full"))
