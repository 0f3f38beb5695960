import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rigproof.records.verdict import Decision, Verdict
from rigproof.report.content.facts import run_facts
from rigproof.report.content.result import RunResult
from rigproof.report.files.metrics import write_metrics
from support.acceptance import CHECKOUT


@pytest.fixture
def result(recording, verdicts):
    return RunResult(recording, run_facts(recording), verdicts, Decision.REJECTED, 61.2)


def samples_of(path):
    """Every sample of the file, as Prometheus reads it: (name, labels) -> value."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


def value(samples, name, **labels):
    (found,) = [
        number
        for (named, pairs), number in samples.items()
        if named == name and labels.items() <= dict(pairs).items()
    ]
    return found


def test_prometheus_reads_what_was_written(tmp_path, result):
    write_metrics(tmp_path / "metrics.prom", result)
    samples = samples_of(tmp_path / "metrics.prom")
    assert value(samples, "rigproof_verdict", rig="lab", level="quick", verdict="REJECTED") == 1
    assert value(samples, "rigproof_verdict", verdict="ACCEPTED") == 0
    assert value(samples, "rigproof_run_elapsed_seconds", rig="lab") == 61.2
    assert value(samples, "rigproof_run_timestamp_seconds", rig="lab") == 1767323045
    hot = {"criterion": "thermal.core_temperature", "subject": "pc1/gpu1"}
    assert value(samples, "rigproof_criterion_measured", unit="°C", **hot) == 84
    assert value(samples, "rigproof_criterion_limit", direction="at_most", **hot) == 80
    assert value(samples, "rigproof_criterion_outcome", outcome="fail", **hot) == 1
    assert {dict(labels)["simulated"] for _, labels in samples} == {"false"}
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.prom"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (package prometheus) is not installed")
@pytest.mark.parametrize("simulated", [False, True])
def test_promtool_has_nothing_to_say_of_it(tmp_path, result, simulated):
    result.recording.run = replace(result.recording.run, simulated=simulated)
    write_metrics(tmp_path / "metrics.prom", result)
    text = (tmp_path / "metrics.prom").read_text()
    check = ["promtool", "check", "metrics"]
    done = subprocess.run(check, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    broken = text.replace("# TYPE rigproof_verdict gauge\n", "# TYPE rigproof_verdict counter\n", 1)
    done = subprocess.run(check, input=broken, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0, "promtool accepts anything"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (package prometheus) is not installed")
def test_the_documented_queries_find_a_rejected_rig_and_a_rate_that_is_too_low(tmp_path, result):
    slow = replace(result.verdicts[0], measured=40.5)
    assert (slow.criterion, slow.subject) == ("throughput.gemm_bf16", "pc1/gpu0")
    write_metrics(tmp_path / "metrics.prom", replace(result, verdicts=[slow, *result.verdicts[1:]]))
    lines = [line for line in (tmp_path / "metrics.prom").read_text().splitlines() if line[0] != "#"]
    samples = [line.rpartition(" ")[::2] for line in lines]
    page = (CHECKOUT / "docs" / "reports.md").read_text()
    (rejected,) = re.findall(r"`(rigproof_verdict\{.*?)`", page)
    (too_low,) = re.findall(r"^```text\n(rigproof_criterion_measured .*)\n```$", page, re.MULTILINE)
    found = {rejected: ('verdict="ACCEPTED"',), too_low: ("_measured", 'gemm_bf16"', "pc1/gpu0")}
    checks = [
        {
            "expr": query,
            "eval_time": "0m",
            "exp_samples": [
                {"labels": series, "value": float(number)}
                for series, number in samples
                if all(part in series for part in parts)
            ],
        }
        for query, parts in found.items()
    ]
    assert [len(one["exp_samples"]) for one in checks] == [1, 1]
    series = [{"series": series, "values": number} for series, number in samples]
    rules = {"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": checks}]}
    (tmp_path / "rules.yml").write_text(json.dumps(rules))  # which is YAML, too
    done = subprocess.run(
        ["promtool", "test", "rules", "rules.yml"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_was_not_measured_has_no_figure(tmp_path, result):
    write_metrics(tmp_path / "metrics.prom", result)
    named = [
        dict(labels) for name, labels in samples_of(tmp_path / "metrics.prom") if name.endswith("_measured")
    ]
    assert "power.draw" not in {labels["criterion"] for labels in named}


def test_a_card_is_known_by_its_uuid(tmp_path, result):
    write_metrics(tmp_path / "metrics.prom", result)
    samples = samples_of(tmp_path / "metrics.prom")
    uuid = "GPU-01111111-2222-3333-4444-555555555555"
    assert value(samples, "rigproof_criterion_measured", criterion="throughput.gemm_bf16", uuid=uuid) == 71.04


def test_a_simulated_run_is_labelled(tmp_path, result):
    result.recording.run = replace(result.recording.run, simulated=True, started_at="once")
    write_metrics(tmp_path / "metrics.prom", result)
    samples = samples_of(tmp_path / "metrics.prom")
    assert {dict(labels)["simulated"] for _, labels in samples} == {"true"}
    assert "rigproof_run_timestamp_seconds" not in {name for name, _ in samples}


def test_each_verdict_has_its_lines_in_the_order_of_the_verdicts(tmp_path, result):
    verdicts = [
        replace(result.verdicts[0], criterion=criterion, subject=subject, measured=measured, limit=None)
        for criterion, subject, measured in (("a.x", "n", 1.5), ("b.y", "n", None), ("a.x", "m", 2.0))
    ]
    write_metrics(tmp_path / "metrics.prom", replace(result, verdicts=verdicts))
    lines = (tmp_path / "metrics.prom").read_text().splitlines()
    found = [line.partition("{") for line in lines if line.startswith("rigproof_criterion_")]
    run = 'level="quick",rig="lab",simulated="false"'
    unit = f'unit="{verdicts[0].unit}",uuid=""'
    assert [(name, rest) for name, _, rest in found] == [
        ("rigproof_criterion_measured", f'criterion="a.x",{run},subject="n",{unit}}} 1.5'),
        ("rigproof_criterion_measured", f'criterion="a.x",{run},subject="m",{unit}}} 2.0'),
        *(
            (
                "rigproof_criterion_outcome",
                f'criterion="{criterion}",level="quick",outcome="pass",rig="lab",simulated="false",'
                f'subject="{subject}",uuid=""}} 1.0',
            )
            for criterion, subject in (("a.x", "n"), ("b.y", "n"), ("a.x", "m"))
        ),
    ]


def test_odd_names_do_not_break_the_format(tmp_path, result):
    odd = Verdict('c."x"', "a\nb\\c", result.verdicts[0].outcome, measured=1.0, unit="%")
    write_metrics(tmp_path / "metrics.prom", replace(result, verdicts=[odd]))
    assert value(samples_of(tmp_path / "metrics.prom"), "rigproof_criterion_measured", subject="a\nb\\c") == 1
