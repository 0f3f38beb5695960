"""The throughput history that runs leave, as pytest-benchmark and `rigproof history` read it."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from rigproof.history.reading import read_history
from support.acceptance import Run, accept, rigproof, runs_in_order
from support.rig_profile import LIMITS, profile_text

GEMMS = {f"throughput.gemm_{precision}" for precision in ("fp32", "tf32", "fp16", "bf16", "fp8")}


@pytest.fixture(scope="module")
def two_runs(two_nodes, tmp_path_factory) -> Run:
    """The second of two runs into one report folder; the first had one card slow."""
    reports = tmp_path_factory.mktemp("reports")
    accept(reports, two_nodes, "slow")
    return accept(reports, two_nodes, "healthy")


def test_two_runs_append_to_one_history(two_runs):
    first, second = (path.name for path in runs_in_order(two_runs.reports))
    assert [path.name for path in two_runs.history] == [f"0001_{first}.json", f"0002_{second}.json"]


def test_only_good_figures_are_kept(two_runs):
    history = read_history(two_runs.reports / "history" / "two-nodes")
    assert history.problems == ()
    first, second = (
        {(one.kept.title, one.kept.subject) for one in history.rates if one.file == path.name}
        for path in two_runs.history
    )
    both = {(name, subject) for name in GEMMS for subject in ("pc1/gpu0", "pc2/gpu0")}
    others = {
        (name, subject)
        for name in ("throughput.sustained", "training.step")
        for subject in ("pc1/gpu0", "pc2/gpu0")
    }
    assert second == both | others
    assert first == {key for key in both if key[1] == "pc2/gpu0"} | others


def test_what_a_foreign_process_disturbed_is_no_reference_for_later_runs(acceptance):
    run = acceptance("stranger")
    assert (run.status, run.result["verdict"]) == (6, "INCOMPLETE"), run.output
    good = {key[1] for key, one in run.criteria.items() if key[0] in GEMMS and one["outcome"] == "pass"}
    assert good == {"pc1/gpu0", "pc2/gpu0"}
    kept = read_history(run.reports / "history" / "two-nodes").rates
    assert {one.kept.subject for one in kept} == {"pc2/gpu0"}


def test_the_rounds_of_a_failed_criterion_stay_with_the_run(acceptance):
    run = acceptance("slow")
    own = json.loads((run.folder / "benchmark.json").read_text())["benchmarks"]
    slow = next(one for one in own if one["name"] == "test_gemm_bf16[pc1/gpu0]")
    assert slow["stats"]["ops"] == pytest.approx(220)
    (stored,) = run.history
    assert "test_gemm_bf16[pc1/gpu0]" not in stored.read_text()


def test_operations_per_second_are_tflops(two_runs):
    stored = json.loads(two_runs.history[-1].read_text())["benchmarks"]
    rates = {one["name"]: one["stats"]["ops"] for one in stored}
    assert rates["test_gemm_fp32[pc1/gpu0]"] == pytest.approx(50)
    assert rates["test_gemm_bf16[pc2/gpu0]"] == pytest.approx(660)
    assert rates["test_sustained[pc1/gpu0]"] == pytest.approx(660)  # of two workers together
    assert {one["extra_info"]["gpu_uuid"] for one in stored} == {"GPU-pc1/gpu0", "GPU-pc2/gpu0"}


def test_what_the_history_lists_is_what_was_judged(two_runs):
    kept = read_history(two_runs.reports / "history" / "two-nodes").rates
    listed = {
        (one.kept.title, one.kept.subject): one.kept.rate
        for one in kept
        if one.file == two_runs.history[-1].name
    }
    assert len(listed) == 14
    for (criterion, subject), rate in listed.items():
        assert rate == pytest.approx(two_runs.criteria[criterion, subject]["measured"], rel=1e-6), criterion


@pytest.mark.parametrize(("sku", "other"), [("h200-sxm", False), ("h100-sxm", True)])
def test_a_comparison_warns_of_another_machine_only_if_it_is_one(two_runs, two_nodes, tmp_path, sku, other):
    reports, profile = tmp_path / "reports", tmp_path / "two-nodes.toml"
    shutil.copytree(two_runs.reports / "history", reports / "history")
    text = two_nodes.read_text()
    assert 'sku = "h200-sxm"' in text
    profile.write_text(text.replace('sku = "h200-sxm"', f'sku = "{sku}"'))
    output = accept(reports, profile, "healthy", "--benchmark-compare").output
    assert "Comparing against benchmarks from" in output
    assert ("machine_info is different" in output) is other
    assert ("arning" in output) is other
    # A rate over a thousand is shown in its unit, not as `1.2500 Kops/s`.
    assert re.search(r"^test_gemm_fp8\[pc1/gpu0\] .* 1,250\.0000 ", output, re.MULTILINE)
    assert "ops/s" not in output


def test_pytest_benchmark_compares_the_runs(two_runs, tmp_path):
    storage = f"file://{two_runs.reports}/history/two-nodes"
    command = ["-m", "pytest_benchmark", "--storage", storage, "compare", "--columns=ops,rounds"]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("test_gemm_bf16[pc2/gpu0]")]
    assert len(rows) == 2
    assert all("660.0000" in row for row in rows)


def test_without_pytest_benchmark_the_rig_is_judged_all_the_same(acceptance):
    run = acceptance("healthy", "-p", "no:benchmark")
    assert run.status == 0, run.output
    assert run.result["verdict"] == "ACCEPTED"
    assert run.criteria == acceptance("healthy").criteria
    assert not run.history


@pytest.mark.parametrize(
    ("faster", "outcome", "status"),
    [((), "pass", 0), (("pc1/gpu0",), "fail", 1), (("pc1/gpu0", "pc2/gpu0"), "warn", 0)],
)
def test_a_run_is_held_against_the_ones_before_it(tmp_path, faster, outcome, status):
    once = tmp_path / "two-nodes.toml"  # what was recorded beforehand cannot be repeated
    once.write_text(profile_text({"limits": LIMITS | {"regression_repeats": 0}}))
    first = accept(tmp_path, once, "healthy")
    assert first.outcome("history.regression", "pc1/gpu0") == "no_limit"
    (kept,) = first.history
    content = json.loads(kept.read_text())
    rates = [one["extra_info"]["rate"] for one in content["benchmarks"]]
    for number in range(6):  # what other runs would have kept
        for rate, one in zip(rates, content["benchmarks"], strict=True):
            extra = one["extra_info"]
            extra["run_id"] = f"run-{number}"
            extra["rate"] = rate * (1.05 if extra["subject"] in faster else 1.0) * (1 + number % 2 / 1000)
        (kept.parent / f"{number:04d}_run-{number}.json").write_text(json.dumps(content))
    kept.unlink()
    second = accept(tmp_path, once, "healthy")
    assert second.status == status, second.output
    assert {one for one, found in second.criteria.items() if found["outcome"] == "fail"} == (
        {("history.regression", "pc1/gpu0")} if status else set()
    )
    own = second.criteria["history.regression", "pc1/gpu0"]
    assert own["outcome"] == outcome
    assert " % of 6 earlier runs; " in own["detail"]
    judged = rigproof("judge", second.folder)
    assert judged.returncode == status, judged.stderr
