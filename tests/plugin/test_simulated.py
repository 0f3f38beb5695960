"""Simulated rigs as users type it: every output says SIMULATED, nothing is kept for real rigs."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.acceptance import Run, properties, rigproof, run_pytest

RIG = "--hwprofile=dual-3090-3070"
CPU_RIG = """
name = "cpu"
[[nodes]]
name = "host"
cpus = 2
ram_gib = 8
[[nodes.gpus]]
sku = "unknown"
device = "cpu"
"""
UNKNOWN_CARD = """
name = "unknown"
[[nodes]]
name = "a"
address = "10.0.0.1"
[[nodes.gpus]]
sku = "unknown"
memory_gib = 24
[[nodes]]
name = "b"
address = "10.0.0.2"
[[nodes.gpus]]
sku = "rtx-3090"
"""


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """A simulated run with these options. Each runs once for all tests: what it left is to be read only."""

    @cache
    def run(*options: str) -> Run:
        reports = tmp_path_factory.mktemp("reports")
        done = run_pytest("-m", "hardware", "--hw-simulate-inline", f"--hw-report-dir={reports}", *options)
        return Run(done.returncode, done.stdout + done.stderr, reports)

    return run


def quick(simulated: Callable[..., Run], *options: str) -> Run:
    return simulated(RIG, "--hw-level=quick", *options)


def test_the_rig_of_two_pcs_is_accepted(simulated):
    run = quick(simulated)
    assert run.status == 0, run.output
    assert run.result["verdict"] == "ACCEPTED"
    assert "warning" not in run.output.splitlines()[-1]


def test_the_terminal_says_simulated_at_the_top_and_at_the_end(simulated):
    output = quick(simulated).output
    assert "SIMULATED: no real device is measured; this says nothing about any rig" in output
    assert "SIMULATED ACCEPTED: nothing failed on the simulated rig" in output


def test_every_file_for_people_says_simulated(simulated):
    folder = quick(simulated).folder
    assert "SIMULATED" in (folder / "summary.md").read_text()
    page = (folder / "report.html").read_text()
    assert "<title>rigproof: SIMULATED" in page
    assert "SIMULATED: no real device was measured" in page


def test_every_file_for_machines_says_simulated(simulated):
    run = quick(simulated)
    assert run.result["simulated"] is True
    metrics = (run.folder / "metrics.prom").read_text().splitlines()
    values = [line for line in metrics if not line.startswith("#")]
    assert values
    assert all('simulated="true"' in line for line in values)
    suite = ElementTree.parse(run.folder / "junit.xml").find(".//testsuite")
    assert properties(suite)["simulated"] == "true"
    assert all(case.findtext("system-out").startswith("SIMULATED ") for case in run.junit.values())
    assert '"simulated":true' in (run.folder / "recording.jsonl").read_text().replace(" ", "")


def test_nothing_is_kept_for_the_history_and_no_champion(simulated):
    run = simulated(RIG)  # the standard level, from which champions come
    assert run.status == 0, run.output
    assert sorted(path.name for path in run.reports.iterdir()) == ["latest", "runs"]


def test_what_it_keeps_when_asked_stays_apart_and_says_simulated(simulated):
    run = simulated(RIG, "--hw-level=quick", "--hw-keep-history", "--hw-tag=paste=new")
    assert run.status == 0, run.output
    assert run.result["tags"] == ["paste=new"]
    assert "level quick · paste=new · " in (run.folder / "report.html").read_text()
    assert f"run `{run.folder.name}` · paste=new\n" in (run.folder / "summary.md").read_text()
    suite = ElementTree.parse(run.folder / "junit.xml").find(".//testsuite")
    assert properties(suite)["tags"] == "paste=new"
    assert sorted(path.name for path in run.reports.iterdir()) == ["history-simulated", "latest", "runs"]
    real = rigproof("history", "--report-dir", run.reports)
    assert real.stdout.endswith(
        "nothing is kept yet; a real run keeps its good rates (simulated ones: --simulated)\n"
    )
    listed = rigproof("history", "--simulated", "--report-dir", run.reports).stdout.splitlines()
    assert listed[0].startswith("SIMULATED dual-3090-3070: 1 run, ")
    assert [line[:19] for line in listed if "GPU-" in line] == ["SIMULATED pc1/gpu0 ", "SIMULATED pc2/gpu0 "]
    assert "tags paste=new" in " ".join(listed[1:3])
    assert len(listed) > 10


def test_judging_it_again_says_simulated_too(simulated):
    run = quick(simulated)
    done = rigproof("judge", run.folder)
    assert done.returncode == 0, done.stderr
    assert "SIMULATED ACCEPTED" in done.stdout


def test_its_report_written_again_says_simulated_too(simulated, tmp_path):
    run = simulated(
        RIG, "--hw-level=quick", "--hw-simulate-seed=1"
    )  # a run of its own: files of it are written
    done = rigproof("report", run.folder)
    assert done.returncode == 0, done.stderr
    assert "SIMULATED" in done.stdout
    assert "SIMULATED" in (run.folder / "summary.md").read_text()
    assert "SIMULATED" in (run.folder / "report.html").read_text()


def test_a_fault_rejects_the_rig_by_name(simulated):
    run = quick(simulated, "--hw-inject=overheat@pc2/gpu0")
    assert run.status == 1, run.output
    assert run.outcome("thermal.core_temperature", "pc2/gpu0") == "fail"
    assert run.outcome("thermal.core_temperature", "pc1/gpu0") == "pass"
    assert "SIMULATED REJECTED" in run.output


def test_a_plan_whose_memory_others_take_really_runs_out(simulated):
    run = quick(simulated, "--hw-inject=memory-taken@pc1/gpu0:to=6500")
    assert run.status == 6, run.output
    assert run.outcome("memory.no_oom", "pc1/gpu0") == "not_measured"
    assert "memory ran out" in run.criteria["memory.no_oom", "pc1/gpu0"]["detail"]
    assert run.outcome("memory.no_oom", "pc2/gpu0") == "pass"


def test_what_a_geforce_cannot_have_does_not_apply_to_it_and_stands_in_every_output(simulated):
    run = quick(simulated)
    ecc = run.criteria["memory.ecc", "pc1/gpu0"]
    assert (ecc["outcome"], ecc["measured"]) == ("not_applicable", None)
    assert run.result["counts"]["not_applicable"] == 19
    assert run.result["counts"]["not_measured"] == 0
    assert re.search(r"\n12 not applicable: all-gather, .* uncorrected ECC, remapped rows", run.output)
    assert "19 not applicable" in run.output.splitlines()[-1]
    (case,) = [case for name, case in run.junit.items() if name.endswith("ecc[pc1/gpu0]")]
    assert case.findtext("system-out").startswith("SIMULATED not applicable: ")
    assert case.find("skipped") is not None
    for file in ("summary.md", "report.html"):
        assert "not applicable" in (run.folder / file).read_text()


def test_a_soak_of_seven_seconds_says_so_in_every_output_and_when_it_is_judged_again(simulated):
    run = simulated("--hwprofile=h200-x2", "--hw-level=soak", "--hw-duration=0.1")
    assert run.status == 0, run.output
    (short,) = run.result["shortened"]
    assert (short["stage"], short["length_s"]) == ("sustained", 2100)
    assert 5 < short["done_s"] <= 7
    line = f"ACCEPTED for {short['done_s']:.2g} s of load, not a soak"
    for output in (run.output, rigproof("judge", run.folder).stdout):
        assert f"SIMULATED {line}: nothing failed in that" in output
        assert "fit for training" not in output
    assert (run.folder / "summary.md").read_text().startswith(f"# rigproof: SIMULATED {line}\n")
    assert f"<title>rigproof: SIMULATED {line} " in (run.folder / "report.html").read_text()
    lines = (run.folder / "metrics.prom").read_text().splitlines()
    assert [one[-4:] for one in lines if one.startswith("rigproof_shortened{")] == [" 1.0"]
    suite = ElementTree.parse(run.folder / "junit.xml").find(".//testsuite")
    assert suite is not None
    named = {one.attrib["name"]: one.attrib["value"] for one in suite.findall("properties/property")}
    assert f"ACCEPTED {named['shortened']}" == line


def test_a_rate_that_misses_its_limit_by_little_is_measured_once_more_and_warns(simulated):
    run = simulated(
        "--hwprofile=h200-x2", "--hw-level=quick", "--hw-inject=straggler@localhost/gpu1:by=7%,for=100%"
    )
    assert run.status == 0, run.output
    peer = run.criteria["throughput.peer_outlier", "localhost/gpu1"]
    assert (peer["outcome"], peer["limit"]) == ("warn", 94)
    assert peer["detail"].startswith("measured twice, the first time 9")
    assert "nothing failed on the simulated rig; look at 1 warning" in run.output
    assert run.result["shortened"] == []
    assert (
        "sustained is measured once more: localhost/gpu1 throughput.peer_outlier"
        in (run.folder / "recording.jsonl").read_text()
    )
    assert (run.folder / "report.html").read_text().count("sustained 12 s with 2 workers") == 2
    again = rigproof("judge", run.folder)
    assert (again.returncode, "measured twice, the first time 9" in again.stdout) == (0, True)


def test_another_seed_is_another_run(simulated):
    key = ("throughput.sustained", "pc1/gpu0")
    one, other = quick(simulated), quick(simulated, "--hw-simulate-seed=1")
    assert one.criteria[key]["measured"] != other.criteria[key]["measured"]
    assert other.status == 0


def test_a_plan_of_it_loads_nothing(hardware, tmp_path):
    done = hardware("--hw-simulate", RIG, "--hw-plan")
    assert done.returncode == 0, done.stdout
    assert "SIMULATED" in done.stdout
    assert not (tmp_path / "reports" / "runs").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--hw-simulate",), ("--hw-simulate", "--hwprofile dual-3090-3070")),
        (
            ("--hw-simulate", RIG, "--hw-ray-address=127.0.0.1:1"),
            ("--hw-ray-address", "leave out the option"),
        ),
        ((RIG, "--hw-inject=oom"), ("--hw-inject oom", "add --hw-simulate")),
        (("--hw-simulate", RIG, "--hw-inject=oomm"), ("did you mean 'oom'?",)),
        (("--hw-simulate", RIG, "--hw-inject=oom@pc9"), ("pc1/gpu0", "pc2/gpu0")),
        (("--hw-simulate", RIG, "--hw-inject=oom:by=3%"), ("takes no 'by'",)),
    ],
)
def test_what_cannot_be_simulated_is_refused_before_anything_starts(hardware, tmp_path, options, words):
    done = hardware(*options)
    output = done.stdout + done.stderr
    assert done.returncode == 4, output
    assert all(word in output for word in words), output
    assert "Traceback" not in output
    assert not (tmp_path / "reports" / "runs").exists()


@pytest.mark.parametrize(
    ("profile", "words"),
    [(CPU_RIG, ("promises the CPU", "host/cpu0")), (UNKNOWN_CARD, ("this card is unknown", "rtx-3090"))],
    ids=["cpu", "unknown-card"],
)
def test_a_rig_without_known_gpus_is_refused(hardware, tmp_path: Path, profile, words):
    file = tmp_path / "rig.toml"
    file.write_text(profile)
    done = hardware("--hw-simulate", f"--hwprofile={file}")
    output = done.stdout + done.stderr
    assert done.returncode == 4, output
    assert all(word in output for word in words), output
    assert "Traceback" not in output
