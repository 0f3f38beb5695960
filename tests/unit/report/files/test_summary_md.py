from dataclasses import replace

import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.records.measurements import MemoryReading
from rigproof.records.verdict import Decision, Outcome, Verdict, sentence
from rigproof.report.content.facts import run_facts
from rigproof.report.content.result import RunResult
from rigproof.report.content.stage_tables import tables_of
from rigproof.report.files.summary_md import BYTES_MAX, summary_text


@pytest.fixture
def result(recording, verdicts):
    return RunResult(recording, run_facts(recording), verdicts, Decision.REJECTED, 61.2)


def test_the_table_comes_first_then_a_sentence_for_each_failure_then_what_is_folded(result):
    text = summary_text(result)
    assert text.startswith("# rigproof: REJECTED\n")
    failure = (
        "- pc1/gpu1 thermal.core_temperature: 84 °C, limit ≤ 80 °C (from t=41 s, 15 s long). "
        "Clean the heatsink or raise the fan curve.\n"
    )
    assert "- 1 × NVIDIA GeForce RTX 3090\n" in text
    row = "| **FAIL** | core temperature (thermal.core_temperature) | ≤ 80 °C | 79 | **\\[84]** |  |\n"
    assert (
        text.index("| | Criterion | Limit | gpu0 | gpu1 | Others |\n") < text.index(row) < text.index(failure)
    )
    assert (
        text.index(failure)
        < text.index("<details>")
        < text.index("| bf16 matmul (throughput.gemm_bf16) | TFLOP/s | 71.0 ≥ 53.4 |")
    )
    assert "1 not applicable: uncorrected ECC." in text
    assert "- pc1/gpu0 memory.ecc: not applicable: no ECC here\n" in text
    assert "SIMULATED" not in text


def test_what_is_not_of_one_gpu_stands_in_none_of_their_columns_and_is_bold_if_it_failed(result):
    verdicts = [
        Verdict("cluster.no_timeouts", "rig", Outcome.FAIL, "faults", 2, 0, direction="at_most"),
        Verdict("thermal.core_temperature", "pc1/gpu0", Outcome.PASS, "°C", 70, 80, direction="at_most"),
        Verdict("host.responsiveness", "pc1", Outcome.PASS, "ms", 0.48, 50, direction="at_most"),
    ]
    text = summary_text(replace(result, verdicts=verdicts))
    assert (
        "| | Criterion | Limit | gpu0 | gpu1 | Others |\n"
        "|---|---|---:|---:|---:|---:|\n"
        "| **FAIL** | timeouts and losses (cluster.no_timeouts) | 0 |  |  | **\\[2] on the rig** |\n"
        "|  | core temperature (thermal.core_temperature) | ≤ 80 °C | 70 |  |  |\n"
        "|  | wake-up delay (host.responsiveness) | ≤ 50 ms |  |  | 0.48 on pc1 |\n"
    ) in text
    alone = summary_text(replace(result, verdicts=verdicts[1:2]))
    assert "| | Criterion | Limit | gpu0 | gpu1 |\n|---|---|---:|---:|---:|\n" in alone


def test_the_tags_of_failures_and_warnings_are_explained_below_them(result):
    tagged = [
        replace(one, severity="reseat") if one.outcome is Outcome.FAIL else one for one in result.verdicts
    ]
    text = summary_text(replace(result, verdicts=tagged))
    legend = "What kind of action each asks for: \\[reseat] work on the machine by hand: its cooling, "
    assert text.index("\\[reseat]\n") < text.index(legend)
    assert "What kind of action" not in summary_text(result)


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
    assert "\\[no] node0/gpu0, 20000 failed" in text
    assert sentence(many[0]) in text


def test_eight_gpus_of_every_criterion_and_many_tables_fit_into_120_lines(result):
    devices = [f"pc1/gpu{number}" for number in range(8)]
    verdicts = [
        Verdict(name, subject, Outcome.PASS, "W", 300.0, 350.0 + number, direction="at_most")
        for name, criterion in CATALOGUE.items()
        for number, subject in enumerate(devices if criterion.scope == "device" else ["pc1"])
    ]
    for subject in devices[2:]:
        result.recording.gpus[subject] = replace(result.recording.gpus["pc1/gpu0"], subject=subject)
        for stage in range(20):
            reading = MemoryReading(50.0, f"stage{stage}", f"{subject}#0", subject, 1.0, 2.0, 3.0, None, None)
            result.recording.add(reading)
    result = replace(result, facts=run_facts(result.recording), verdicts=verdicts)
    text = summary_text(result)
    assert text.count("\n") < 120
    assert "300 ≤ 357 |  |\n" in text
    assert "In report.html: What each worker held.\n" in text
    assert len(tables_of(result.recording)) == 1


def test_a_storage_error_is_reported(result):
    assert "disk full" in summary_text(replace(result, problems=("disk full",)))
