"""The best accepted rates that runs keep, and the floors that later runs make of them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from rigproof.cli.rejudge import rejudge
from rigproof.history.champions import champions_folder, gpu_file, read_champions
from rigproof.plugin import champions
from rigproof.plugin.champions import may_become_champion
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.disk.store import read_recording
from rigproof.records.verdict import Outcome, Verdict
from rigproof.stages.registry import KINDS
from support.acceptance import accept, rigproof
from support.bench import Bench
from support.rig_profile import loaded_rig

RIG, BF16 = "two-nodes", "throughput.gemm_bf16"
BF16_RATE = "gemm_bf16_tflops"
UUID = "GPU-pc1/gpu0"


def champions_of(reports: Path) -> Path:
    return champions_folder(reports, RIG)


def test_an_accepted_run_is_kept_and_says_so(acceptance):
    run = acceptance("healthy")
    assert run.status == 0, run.output
    kept = read_champions(champions_of(run.reports))
    assert kept.rates()[UUID][BF16_RATE][0].value == pytest.approx(660)
    assert kept.rig.figures[0].value == run.criteria["throughput.combined", "rig"]["measured"]
    figure = kept.gpus[UUID].figures[0]
    assert figure.run_id == run.folder.name
    assert (run.reports / kept.gpus[UUID].runs[figure.run_id].folder).samefile(run.folder)
    assert "champion: pc1/gpu0 throughput.gemm_bf16: 660 TFLOP/s (the first)" in run.output


def test_the_command_of_a_champion_names_a_profile_that_plans_the_same(acceptance, two_nodes):
    run = acceptance("healthy")
    (named,) = read_champions(champions_of(run.reports)).rig.runs.values()
    words = named.command.split()
    assert words[:3] == ["pytest", "-m", "hardware"]
    assert "--hw-level=standard" in words
    (profile,) = (word.partition("=")[2] for word in words if word.startswith("--hwprofile="))
    assert make_plan(load_rig(profile, KINDS), "standard") == make_plan(
        load_rig(str(two_nodes), KINDS), "standard"
    )


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (("slow",), 1),
        (("without-sensor",), 6),
        (("sigterm",), 2),
        (("healthy", "-k", "thermal"), 6),
    ],
)
def test_no_other_run_is_kept(acceptance, options, status):
    run = acceptance(*options)
    assert run.status == status, run.output
    assert not (run.reports / "champions").exists()


@pytest.fixture(scope="module")
def judged_by_champions(acceptance, two_nodes, tmp_path_factory):
    """A healthy run after one that had been a tenth faster on one card, and one that was rejected."""
    reports = tmp_path_factory.mktemp("reports")
    rejected = acceptance("slow").folder
    shutil.copytree(rejected, reports / "runs" / rejected.name)
    before = acceptance("healthy")
    shutil.copytree(champions_of(before.reports), champions_of(reports))
    path = gpu_file(champions_of(reports), UUID)
    content = json.loads(path.read_text())
    for figure in content["figures"]:
        figure["value"] *= 1.1 if figure["criterion"] == BF16 else 1.0
    path.write_text(json.dumps(content))
    return accept(reports, two_nodes, "healthy")


def test_a_card_that_was_rejected_before_is_named(judged_by_champions):
    (remark,) = judged_by_champions.result["remarks"]
    assert remark.startswith("pc1/gpu0 (")
    assert "was rejected in 1 of its last 1 run: " in remark
    assert remark in judged_by_champions.output


def test_a_gpu_that_is_slower_than_its_champion_is_rejected(judged_by_champions):
    run = judged_by_champions
    assert run.status == 1, run.output
    failed = {key for key, one in run.criteria.items() if one["outcome"] == "fail"}
    assert failed == {(BF16, "pc1/gpu0")}
    verdict = run.criteria[BF16, "pc1/gpu0"]
    assert verdict["limit"] == pytest.approx(660 * 1.1 * 0.95)
    assert verdict["limit_source"].startswith("this GPU's champion (run ")
    assert run.criteria[BF16, "pc2/gpu0"]["limit"] == pytest.approx(660 * 0.95)


def test_the_champions_of_a_run_are_recorded_and_judge_it_again_the_same(judged_by_champions, tmp_path):
    run = judged_by_champions
    (event,) = [one for one in read_recording(run.folder).events if one.kind == "champions"]
    assert set(event.data["gpus"]) == {UUID, "GPU-pc2/gpu0"}
    shutil.copytree(run.folder, tmp_path / "moved")
    lines = []
    assert rejudge(tmp_path / "moved", None, lines.append) == 1
    assert any(line.startswith(f"pc1/gpu0 {BF16}: 660 TFLOP/s, limit ≥ 690 TFLOP/s") for line in lines)


def test_other_champions_judge_only_where_they_are_asked_for(judged_by_champions, acceptance, tmp_path):
    run, others = judged_by_champions, champions_of(acceptance("healthy").reports)
    assert rejudge(run.folder, None, lambda line: None, others) == 0
    refused = rigproof("judge", run.folder, "--champions", tmp_path / "nowhere")
    assert refused.returncode == 4
    assert "no such folder" in refused.stderr


def test_a_rejected_run_leaves_the_champions_as_they_were(judged_by_champions):
    runs = read_champions(champions_of(judged_by_champions.reports)).gpus[UUID].runs
    assert judged_by_champions.folder.name not in runs


def test_a_damaged_champion_is_refused_before_any_load(acceptance, two_nodes, tmp_path):
    shutil.copytree(champions_of(acceptance("healthy").reports), champions_of(tmp_path))
    path = gpu_file(champions_of(tmp_path), UUID)
    path.write_bytes(path.read_bytes()[:500])
    run = accept(tmp_path, two_nodes, "healthy")
    assert run.status == 4
    assert f"ERROR: {path}: " in run.output
    assert "restore the file from a copy, or move it away" in run.output
    assert "Traceback" not in run.output
    assert not (tmp_path / "runs").exists()


def test_history_lists_the_champions(acceptance):
    reports = acceptance("healthy").reports
    done = rigproof("history", RIG, "--report-dir", reports)
    assert done.returncode == 0, done.stderr
    assert f"champions of {RIG}" in done.stdout
    assert "    throughput.combined  1320.00 TFLOP/s  standard, runs/" in done.stdout


# Which accepted runs may become champions


@pytest.fixture(scope="module")
def healthy():
    bench = Bench()
    return bench, bench.verdicts()


def prepared(level="standard"):
    return SimpleNamespace(level=level)


@pytest.fixture(autouse=True)
def lengths_of_the_canned_rig(monkeypatch):
    """A level is as long as the canned run was."""
    monkeypatch.setattr(champions, "default_rig", lambda _kinds, _rig: loaded_rig())


@pytest.mark.parametrize(
    ("level", "loaded_s", "may"),
    [
        ("standard", 40.0, True),
        ("soak", 40.0, True),
        ("quick", 40.0, False),
        ("standard", 13.6, True),
        ("standard", 13.4, False),  # of 15 s
    ],
)
def test_only_runs_that_are_long_enough_become_champions(level, loaded_s, may):
    bench = Bench()
    verdicts = bench.verdicts()
    bench.recording.run = replace(bench.recording.run, level=level)
    bench.stage("sustained", loaded_from_s=70.0 - loaded_s)
    assert may_become_champion(prepared(level), bench.recording, verdicts) is may


def test_a_simulated_run_never_does(healthy):
    bench, verdicts = healthy
    simulated = replace(bench.recording, run=replace(bench.recording.run, simulated=True))
    assert not may_become_champion(prepared(), simulated, verdicts)


@pytest.mark.parametrize(("outcome", "may"), [(Outcome.NOT_MEASURED, False), (Outcome.NOT_APPLICABLE, True)])
@pytest.mark.parametrize("rate", ["throughput.gemm_fp16", "memory.bandwidth"])
def test_all_its_rates_must_be_measured_but_those_that_a_device_cannot_give(healthy, rate, outcome, may):
    bench, verdicts = healthy
    missing = Verdict(rate, "pc1/gpu0", outcome)
    assert may_become_champion(prepared(), bench.recording, [*verdicts, missing]) is may
