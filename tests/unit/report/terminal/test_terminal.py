from dataclasses import replace
from pathlib import Path

import pytest

from rigproof.records.verdict import Decision, Outcome, Verdict
from rigproof.report.terminal.terminal import (
    duration,
    header_lines,
    print_summary,
    summary_lines,
    table_lines,
)


def test_the_header_says_what_is_about_to_happen(loaded, plan):
    lines = header_lines(loaded, plan, driver_version="580.65.06")
    assert lines[0].startswith("rig: lab (hwprofiles/rigs/lab.toml), driver 580.65.06, torch ")
    assert lines[1] == "devices: pc1/gpu0 rtx-3090, pc1/gpu1 rtx-3070"
    assert lines[2] == "plan: level quick: gemm 20 s, sustained 35 s with 2 workers; about 75 s in all"


def test_the_header_says_why_no_gpu_was_looked_for_and_that_a_run_is_simulated(loaded, plan):
    lines = header_lines(loaded, plan, nvml_error="library missing", simulated=True)
    assert lines[0].startswith("rigproof: SIMULATED")
    assert "NVML does not answer: library missing" in lines


def test_the_table_fits_eighty_columns_without_colour(verdicts):
    assert table_lines(verdicts) == [
        "Outcome         Criterion                 Subject       Measured   Limit",
        "FAIL            thermal.core_temperature  pc1/gpu1         84 °C    ≤ 80",
        "WARN            host.cpu_band             pc1               91 %    ≤ 90",
        "NOT MEASURED    power.draw                pc1/gpu1",
        "no limit        throughput.gemm_bf16      pc1/gpu1  40.2 TFLOP/s",
        "pass            throughput.gemm_bf16      pc1/gpu0  71.0 TFLOP/s  ≥ 53.4",
        "pass            thermal.core_temperature  pc1/gpu0         79 °C    ≤ 80",
        "pass            throughput.sustained      pc1/gpu0  69.1 TFLOP/s  ≥ 53.4",
        "not applicable  memory.ecc                pc1/gpu0",
    ]


def test_long_names_are_folded_not_cut():
    long = Verdict(
        "thermal.memory_temperature", "node-with-a-long-name-17/gpu10", Outcome.FAIL, "°C", 1234.5, 1000
    )
    lines = table_lines([long], 80)
    assert all(len(line) <= 80 for line in lines)
    start = lines[0].index("Subject")
    end = lines[0].index("Measured") - 2
    assert "".join(line[start:end].strip() for line in lines[1:]) == "node-with-a-long-name-17/gpu10"
    assert "thermal.memory_temperature" in lines[1]


def test_many_passes_of_one_criterion_are_one_row_and_failures_never():
    same = [
        Verdict("throughput.gemm_bf16", f"n/gpu{n}", Outcome.PASS, "TFLOP/s", 600 + n, 500) for n in range(8)
    ]
    lines = table_lines(same)
    assert lines[1:] == ["pass     throughput.gemm_bf16  all 8    600–607 TFLOP/s    500"]
    failed = [replace(one, outcome=Outcome.FAIL) for one in same]
    assert len(table_lines(failed)) == 9
    mixed = [*same[:7], replace(same[7], outcome=Outcome.FAIL)]
    assert len(table_lines(mixed)) == 9  # "all 7" would hide who is left


def test_colour_is_only_there_when_it_is_asked_for(verdicts):
    assert "\x1b[" in "".join(table_lines(verdicts, color=True))
    assert "\x1b" not in "".join(table_lines(verdicts))
    assert (
        "\x1b[31;1mREJECTED\x1b[0m" in summary_lines(Decision.REJECTED, verdicts, Path("r"), color=True)[-1]
    )


def test_the_summary_ends_with_the_decision_and_what_it_means(verdicts, tmp_path):
    (tmp_path / "report.html").touch()
    lines = summary_lines(Decision.REJECTED, verdicts, tmp_path)
    assert lines == [
        "pc1/gpu1 thermal.core_temperature: 84 °C, limit ≤ 80 °C (from t=41 s, 15 s long). "
        "Clean the heatsink or raise the fan curve.",
        "pc1 host.cpu_band: 91 %, limit ≤ 90 %. Stop other programs on this host.",
        "pc1/gpu1 power.draw: not measured: no power samples. Look at nvidia-smi -q -d POWER.",
        "what a criterion measures, and where its limit comes from: docs/criteria.md",
        "pc1/gpu0 memory.ecc: not applicable: no ECC here",
        "",
        "3 pass, 1 warn, 1 fail, 1 not measured, 1 not applicable, 1 no limit",
        f"report: {tmp_path}/report.html",
        "REJECTED: 1 criterion failed; do not train on this rig until that is fixed",
    ]


@pytest.mark.parametrize(
    ("decision", "options", "last"),
    [
        (Decision.ACCEPTED, {}, "ACCEPTED: this rig is fit for training"),
        (Decision.ACCEPTED, {"simulated": True}, "SIMULATED ACCEPTED: this rig is fit for training"),
        (Decision.INCOMPLETE, {"interrupted": True}, "INCOMPLETE: the run was interrupted"),
    ],
)
def test_the_last_line_is_the_answer(decision, options, last):
    lines = summary_lines(decision, [Verdict("c.x", "n", Outcome.PASS)], Path("r"), **options)
    assert lines[-1].startswith(last)


def test_problems_of_the_files_are_reported(verdicts):
    lines = summary_lines(Decision.REJECTED, verdicts, Path("r"), problems=["report.html: not written"])
    assert "problem: report.html: not written" in lines
    assert not any(line.startswith("report:") for line in lines)
    incomplete = summary_lines(Decision.INCOMPLETE, [], Path("r"), problems=["report.html: not written"])
    assert "could be written to disk" in incomplete[-1]


def test_printing_goes_line_by_line(verdicts):
    lines = []
    print_summary(Decision.REJECTED, verdicts, Path("r"), problems=[], write_line=lines.append)
    assert lines[0].startswith("Outcome")
    assert lines[-1].startswith("REJECTED")
    assert not any("\n" in line for line in lines)


@pytest.mark.parametrize(
    ("seconds", "expected"), [(75, "75 s"), (170, "3 min"), (3600, "1 h 0 min"), (4000, "1 h 7 min")]
)
def test_lengths_are_written_as_people_say_them(seconds, expected):
    assert duration(seconds) == expected


def test_what_one_cause_kept_from_measuring_is_reported_once():
    names = ["power.draw", "clock.ratio", "health.xid", "memory.ecc"]
    absent = [
        Verdict(name, "pc2/gpu0", Outcome.NOT_MEASURED, detail="pc2/gpu0 was not found") for name in names
    ]
    failed = Verdict("inventory.gpus_present", "pc2/gpu0", Outcome.FAIL)
    alone = Verdict("host.cpu_band", "pc1", Outcome.NOT_MEASURED, detail="no samples")
    lines = table_lines([failed, *absent, alone])
    assert [line.split()[:4] for line in lines[1:]] == [
        ["FAIL", "inventory.gpus_present", "pc2/gpu0"],
        ["NOT", "MEASURED", "4", "criteria"],
        ["NOT", "MEASURED", "host.cpu_band", "pc1"],
    ]
    lines = summary_lines(Decision.REJECTED, [failed, *absent, alone], Path("r"))
    assert "pc2/gpu0: 4 criteria not measured: pc2/gpu0 was not found" in lines


def test_the_cpu_as_the_device_is_never_called_fit_for_training():
    verdicts = [
        Verdict("memory.no_oom", "pc1/cpu0", Outcome.PASS),
        Verdict("host.cpu_band", "pc1", Outcome.PASS),
    ]
    last = summary_lines(Decision.ACCEPTED, verdicts, Path("r"))[-1]
    assert "says nothing about a GPU" in last
    assert "fit for training" not in last
    gpu = Verdict("memory.no_oom", "pc1/gpu0", Outcome.PASS)
    assert "fit for training" in summary_lines(Decision.ACCEPTED, [*verdicts, gpu], Path("r"))[-1]
