import errno
import json
import os
import re
import subprocess
import sys

import pytest

from rigproof.history.storage import RigStorage, history_folder, remove_if_empty
from support.acceptance import forked

pytest_plugins = ["pytester"]

# A plugin as small as can be, doing with the history what the real one does.
CONFTEST = """
import os
from pathlib import Path
import pytest
from rigproof.history.goodness import keep_good
from rigproof.history.rounds import ReplayClock, benchmark_marker, clock_of, extra_info, replay
from rigproof.history.storage import direct_storage, history_folder, install_storage
from rigproof.records.identity import GpuIdentity, RunInfo
from rigproof.records.measurements import Round
from rigproof.records.measurements import FigureRate
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, Verdict
from rigproof.stages.registry import KINDS

RUN_ID = os.environ.get("RUN_ID", "run-1")
FACTOR = float(os.environ.get("FACTOR", "1"))
recording = Recording(RunInfo(RUN_ID, "2026-01-02T03:04:05Z", "quick", "0", "3", {"name": "lab"}, ("gemm",)))
for index in range(2):
    subject = f"pc1/gpu{index}"
    recording.add(GpuIdentity(subject, "cuda", f"GPU-{index}", "NVIDIA H200", index, 143771))
    for number in range(10):
        worker, work = subject + "#0", 3.5 * FACTOR
        did = {"precision": "bf16", "size": 8192}
        recording.add(Round(number, "gemm", worker, subject, "measure", 0.05, work, "TFLOP", True, did))
verdicts = []
folder = history_folder(Path("reports"), "lab").absolute()
storages = []

def pytest_configure(config):
    direct_storage(config, folder, RUN_ID)

def pytest_sessionstart(session):
    storages.append(install_storage(session.config, folder, run_json=Path("benchmark.json"),
                                    keep=lambda json: keep_good(json, verdicts, stages_of=lambda _: ())))

def pytest_unconfigure(config):
    if storages[0] and storages[0].problem:
        print("PROBLEM", storages[0].problem)

def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(benchmark_marker("throughput.gemm_bf16"))

@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_generate_machine_info(config):
    return {"rig": "lab"}

@pytest.fixture
def keep_rounds(benchmark, request):
    def keep(subject):
        rounds = [one for one in recording.rounds if one.subject == subject]
        figure = KINDS.figures["gemm_bf16_tflops"]
        extra = extra_info(recording, "throughput.gemm_bf16", figure, subject, rounds)
        return replay(benchmark, rounds, clock_of(request.node), extra)
    return keep
"""
TESTS = """
import pytest
from conftest import FigureRate, Outcome, Verdict, verdicts

@pytest.mark.parametrize("subject", ["pc1/gpu0", "pc1/gpu1", "pc1/gpu9"])
def test_gemm_bf16(subject, keep_rounds):
    assert keep_rounds(subject) == (subject != "pc1/gpu9")
    outcome = Outcome.FAIL if subject == "pc1/gpu1" else Outcome.PASS
    rate = FigureRate("gemm_bf16_tflops", 70.0, "TFLOP/s", {}, 1)
    verdicts.append(Verdict("throughput.gemm_bf16", subject, outcome, rates=(rate,)))
    if outcome is Outcome.FAIL:
        pytest.fail("too slow", pytrace=False)
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    """A folder whose tests replay rounds of two cards, one of which fails its criterion."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(*arguments, **environment):
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        done = forked("pytest", ("-p", "no:cacheprovider", *arguments), pytester.path)
        return pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), 0.0)

    return run


def history_of(pytester):
    return sorted((pytester.path / "reports/history/lab").iterdir())


def test_ops_is_the_rate_and_what_failed_is_not_stored(pytester, suite):
    suite().assert_outcomes(passed=2, failed=1)
    (path,) = history_of(pytester)
    assert path.name == "0001_run-1.json"
    content = json.loads(path.read_text())
    (stored,) = content["benchmarks"]
    assert stored["extra_info"]["subject"] == "pc1/gpu0"
    assert stored["extra_info"]["gpu_uuid"] == "GPU-0"
    assert stored["stats"]["ops"] == pytest.approx(70.0)
    assert stored["stats"]["rounds"] == 10
    assert stored["stats"]["min"] == pytest.approx(0.05 / 3.5)
    assert "data" not in stored["stats"]
    assert content["machine_info"]["rig"] == "lab"
    assert "cpu" not in content["machine_info"]


def test_the_run_keeps_its_own_copy_with_every_round_of_every_card(pytester, suite):
    suite()
    content = json.loads((pytester.path / "benchmark.json").read_text())
    assert [one["extra_info"]["subject"] for one in content["benchmarks"]] == ["pc1/gpu0", "pc1/gpu1"]
    assert content["benchmarks"][1]["stats"]["data"] == [0.05 / 3.5] * 10


def test_pytest_benchmark_compare_works_on_what_was_stored(pytester, suite):
    suite(RUN_ID="run-1")
    suite(RUN_ID="run-2", FACTOR="0.5")
    assert [path.name for path in history_of(pytester)] == ["0001_run-1.json", "0002_run-2.json"]
    storage = f"file://{pytester.path}/reports/history/lab"
    command = [
        sys.executable,
        "-m",
        "pytest_benchmark",
        "--storage",
        storage,
        "compare",
        "--columns=ops,rounds",
    ]
    elsewhere = pytester.mkdir("elsewhere")
    done = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("test_gemm_bf16")]
    assert len(rows) == 2
    assert any("0001_run-1" in row and "70.0000" in row for row in rows)
    assert any("0002_run-2" in row and "35.0000" in row for row in rows)
    assert done.stderr == ""
    between = [*command[:1], "-W", "error", *command[1:-1], "0001", "0002", "--between=ops", "-k", "bf16"]
    done = subprocess.run(between, cwd=elsewhere, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^test_gemm_bf16.* 70\.0000.* 35\.0000.*-50", done.stdout, re.MULTILINE), done.stdout


def test_a_run_can_be_compared_with_the_last_one_while_it_goes(pytester, suite):
    suite(RUN_ID="run-1")
    result = suite("--benchmark-compare", "--benchmark-columns=ops", RUN_ID="run-2")
    result.stdout.fnmatch_lines(["*pc1/gpu0* (0001_run-1*70.0000*"])


def test_what_was_imported_is_compared_with_only_if_it_is_named(tmp_path):
    for name in ("0001_run-1", "0002_imported-2026-01-02"):
        (tmp_path / f"{name}.json").write_text('{"benchmarks": []}')
    storage = RigStorage(tmp_path, Silent(), run_json=None, keep=dict)
    assert [str(path) for path, _ in storage.load()] == ["0001_run-1.json"]
    assert [str(path) for path, _ in storage.load("0002")] == ["0002_imported-2026-01-02.json"]


def test_a_folder_outside_the_working_directory_is_no_internal_error(pytester, suite, tmp_path_factory):
    outside = tmp_path_factory.mktemp("reports")
    conftest = (
        (pytester.path / "conftest.py").read_text().replace('Path("reports")', f"Path({str(outside)!r})")
    )
    pytester.makeconftest(conftest)
    suite().assert_outcomes(passed=2, failed=1)
    assert [path.name for path in (outside / "history/lab").iterdir()] == ["0001_run-1.json"]


def test_disabled_benchmarks_keep_nothing_and_fail_nothing(pytester, suite):
    suite("--benchmark-disable").assert_outcomes(passed=2, failed=1)
    assert history_of(pytester) == []


def test_it_works_without_pytest_benchmark(pytester, suite):
    result = suite("-p", "no:benchmark")
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_a_storage_of_the_users_own_is_left_alone(pytester, suite):
    suite("--benchmark-storage=file://./mine")
    assert not (pytester.path / "reports").exists()
    assert list((pytester.path / "mine").rglob("0001_run-1.json"))


def test_a_folder_that_takes_nothing_is_reported_and_no_traceback(pytester, suite):
    (pytester.path / "reports/history").mkdir(parents=True)
    (pytester.path / "reports/history/lab").write_text("in the way")
    result = suite()
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        ["PROBLEM *history/lab: the throughput history was not written: File exists*"]
    )
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


class Silent:
    def info(self, *_, **__): ...
    def warning(self, *_, **__): ...


def test_nothing_good_writes_no_file(tmp_path):
    storage = RigStorage(
        tmp_path, Silent(), run_json=None, keep=lambda content: {**content, "benchmarks": []}
    )
    storage.save({"benchmarks": [{"stats": {}}]}, "run-1")
    assert (storage.saved, storage.problem, list(tmp_path.iterdir())) == (None, None, [])


def test_a_full_disk_is_a_problem_not_an_exception(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "0001_run-1.json")

    monkeypatch.setattr("rigproof.history.storage.replacing", full)
    storage = RigStorage(tmp_path, Silent(), run_json=None, keep=dict)
    storage.save({"benchmarks": [{"stats": {}}]}, "run-1")
    assert "No space left on device" in storage.problem


def test_a_folder_that_was_removed_meanwhile_is_made_anew(tmp_path):
    folder = history_folder(tmp_path, "lab")
    storage = RigStorage(folder, Silent(), run_json=None, keep=dict)
    remove_if_empty(folder)
    assert not folder.parent.exists()
    storage.save({"benchmarks": [{"stats": {}}]}, "run-1")
    assert (storage.saved, storage.problem) == (folder / "0001_run-1.json", None)


def test_the_history_is_named_after_the_rig_alone(tmp_path):
    assert history_folder(tmp_path, "lab") == tmp_path / "history" / "lab"


def test_a_file_over_its_limit_is_not_compared_with(tmp_path, monkeypatch):
    warned = []
    logger = type("Logger", (), {"warning": staticmethod(warned.append)})
    (tmp_path / "0001_run-1.json").write_text('{"benchmarks": []}')
    (tmp_path / "0002_run-2.json").write_text('{"benchmarks": []' + " " * 100 + "}")
    monkeypatch.setattr("rigproof.history.storage.HISTORY_BYTES_MAX", 77)
    storage = RigStorage(tmp_path, logger, run_json=None, keep=dict)
    assert [str(path) for path, _ in storage.load()] == ["0001_run-1.json"]
    assert "0002_run-2.json: left out: 118 bytes are more than the 77 it can have" in warned[0]


def test_a_link_out_of_the_folder_is_not_compared_with(tmp_path):
    warned = []
    logger = type("Logger", (), {"warning": staticmethod(warned.append)})
    folder = tmp_path / "lab"
    folder.mkdir()
    (tmp_path / "elsewhere.json").write_text('{"benchmarks": []}')
    (folder / "0001_run-1.json").write_text('{"benchmarks": []}')
    (folder / "0002_run-2.json").symlink_to(tmp_path / "elsewhere.json")
    storage = RigStorage(folder, logger, run_json=None, keep=dict)
    assert [str(path) for path, _ in storage.load()] == ["0001_run-1.json"]
    assert "0002_run-2.json: left out: a symbolic link leads out of" in warned[0]


def test_what_would_hang_who_reads_it_is_not_compared_with(tmp_path):
    warned = []
    logger = type("Logger", (), {"warning": staticmethod(warned.append)})
    os.mkfifo(tmp_path / "0001_run-1.json")
    assert list(RigStorage(tmp_path, logger, run_json=None, keep=dict).load()) == []
    assert warned == [f"{tmp_path / '0001_run-1.json'}: left out: is not a regular file"]
