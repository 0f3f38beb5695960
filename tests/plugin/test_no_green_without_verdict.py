"""Whatever another plugin, an option or a broken pipe does: 0 is ACCEPTED, 1 is REJECTED, nothing else is.

The last line, verdict.json and the exit status say the same.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.acceptance import (
    CHECKOUT,
    PRELOADED,
    PYTEST,
    SHORT_PCS,
    Run,
    accept,
    forked,
    python,
    rigproof,
    run_pytest,
)
from support.forked_commands import programs

pytest.importorskip("xdist", reason="pytest-xdist is one of the plugins that are tried")

SIMULATED = ("--hw-simulate-inline", f"--hwprofile={SHORT_PCS}", "--hw-level=quick")
ACCEPTED_AS = tuple(one.replace("--hw-", "--") for one in SIMULATED)
WELL = "nothing failed in that time; the whole level is not proven"  # for it is a short one
SAID = re.compile(r"^(?:SIMULATED )?(ACCEPTED|REJECTED|INCOMPLETE)\b.*?: (.*)", re.MULTILINE)
LINK = "runs/an-earlier-one"

# What others' plugins do, and what a run of a sound rig ends with, and says.
PLUGINS = {
    "skips": (
        "def pytest_runtest_setup(item): pytest.skip('not today')",
        (6, "nothing was tested: {tests} tests were skipped by another plugin or a conftest.py: not today"),
    ),
    "runs no test": (
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_protocol(item, nextitem): return True",
        (6, "nothing was tested: no test was run, perhaps by other"),
    ),
    "has a loop of its own": (
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtestloop(session): return True",
        (6, "nothing was tested: no test was run, perhaps by other"),
    ),
    "calls no test's function, counts none and sums up nothing": (  # the whole recording is judged at the end
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_pyfunc_call(pyfuncitem): return True\n"
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_sessionfinish(session):\n    yield\n    session.exitstatus = 1\n"
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_terminal_summary(): raise ValueError('no summary')",
        (0, WELL),
    ),
    "exits red": (
        "def pytest_collection_finish(session): pytest.exit('enough', returncode=1)",
        (6, "nothing was tested: pytest.exit ended the session: enough"),
    ),
    "exits green at the last test": (
        "def pytest_runtest_logreport(report):\n"
        "    if 'test_transfer' in report.nodeid: pytest.exit('enough', returncode=0)",
        (6, "pytest.exit ended the session: enough"),
    ),
    "exits at the very end": (
        "def pytest_unconfigure(config): raise SystemExit(1)",
        (0, WELL),
    ),
    "raises before our end": (
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_sessionfinish(session):\n    raise ValueError('no end')\n    yield",
        (6, "another plugin ended the session before its end: ValueError: no end"),
    ),
    "raises at the end": (
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_sessionfinish(session): raise ValueError('no end')",
        (6, "another plugin failed at the session's end: ValueError: no end"),
    ),
    "raises in a hook": (
        "def pytest_runtest_logreport(report): raise ValueError('no report')",
        (3, "an error of pytest or of a plugin ended the session: ValueError: no report"),
    ),
    "counts a failure": (  # as pytest-cov does, if too little is covered
        "@pytest.hookimpl(wrapper=True)\n"
        "def pytest_runtestloop(session):\n    done = yield\n    session.testsfailed += 1\n    return done",
        (6, "pytest, or a plugin, ended with exit status 1, though no criterion failed"),
    ),
    "removes what was recorded": (
        "import shutil\n@pytest.hookimpl(tryfirst=True)\ndef pytest_sessionfinish(session):\n"
        "    shutil.rmtree(session.config.pluginmanager.get_plugin('rigproof-session').folder)",
        (6, "{folder}: somebody moved or removed what was recorded there; leave it alone"),
    ),
    "makes a test fail": (
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_runtest_makereport(item, call):\n"
        "    report = yield\n"
        "    if 'nodes_present[pc1]' in item.nodeid and call.when == 'call':\n"
        "        report.outcome, report.longrepr = 'failed', 'mine'\n"
        "    return report",
        (6, "tests/hardware/test_cluster.py::test_nodes_present[pc1] failed, though no criterion did"),
    ),
}


def said(output: str) -> tuple[str, str]:
    """The decision of the last line that has one, and what it means."""
    *_, last = SAID.finditer(output)
    return last[1], last[2]


def agreed(run: Run) -> tuple[int, str]:
    """Exit status and meaning, after a look at what else tells the verdict."""
    decision, meaning = said(run.output)
    assert (decision == "ACCEPTED") == (run.status == 0), run.output
    assert (decision == "REJECTED") == (run.status == 1), run.output
    if (run.reports / "latest").exists():
        assert (run.result["verdict"], run.result["exit_status"]) == (decision, run.status), run.output
    else:
        assert decision == "INCOMPLETE"
        assert not list((run.reports / "runs").iterdir()), "a folder without a verdict"
    return run.status, meaning


def simulated(reports: Path, *options: str) -> Run:
    """`pytest -m hardware` on a simulated rig, with the plugins that are installed."""
    command = ("-p", "no:hypothesispytest", "-m", "hardware", *SIMULATED, f"--hw-report-dir={reports}")
    done = forked("pytest", (*command, f"--override-ini=cache_dir={reports / 'cache'}", *options), CHECKOUT)
    return Run(done.returncode, done.stdout + done.stderr, reports)


@pytest.fixture
def with_plugin(tmp_path, monkeypatch):
    """A run with another plugin, of which this is the text."""

    def run(text: str, *options: str) -> Run:
        (tmp_path / "other.py").write_text(f"import pytest\n{text}\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return simulated(tmp_path / "reports", "-p", "other", *options)

    return run


@pytest.mark.parametrize("does", PLUGINS)
def test_a_plugin_turns_nothing_green_or_red(with_plugin, does):
    text, (status, words) = PLUGINS[does]
    run = with_plugin(text)
    found, meaning = agreed(run)
    assert found == status
    tests = re.search(r"(\d+) skipped", run.output)
    assert meaning.startswith(words.format(tests=tests and tests[1], folder=run.folder))


TURNS_GREEN = {
    "sets the status, and makes every test pass": (
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_sessionfinish(session):\n    yield\n    session.exitstatus = 0\n"
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_runtest_makereport(item, call):\n"
        "    report = yield\n    report.outcome, report.longrepr = 'passed', None\n    return report"
    ),
    "exits at the very end": "def pytest_unconfigure(config): raise SystemExit(0)",
    "answers for the command": (
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\ndef pytest_cmdline_main():\n    yield\n    return 0"
    ),
}
HOT = "--hw-inject=overheat@pc2/gpu0:stage=sustained"


@pytest.mark.parametrize("does", TURNS_GREEN)
def test_a_rig_that_failed_stays_rejected(with_plugin, does):
    assert agreed(with_plugin(TURNS_GREEN[does], HOT))[0] == 1


@pytest.mark.parametrize(
    "options",
    [["--exitfirst"], ["--stepwise"], ["--reruns=1"], ["--pdb", "--pdbcls=nosuch:Debugger"]],
    ids=" ".join,
)
def test_where_pytest_stops_at_a_failure_the_rig_is_rejected(tmp_path, options):
    run = simulated(tmp_path, HOT, *options)
    assert "Traceback" not in run.output
    assert agreed(run)[0] == 1


@pytest.mark.parametrize(
    "options",
    [
        (
            *("--no-summary", "--max-warnings=0", "--benchmark-skip", "-q", "-q"),
            *("-n", "0", "--dist=load", "--tx=popen", "-p", "no:junitxml", "-o", "faulthandler_timeout=60"),
        ),
        ("-p", "no:terminal", "-p", "no:timeout", "--benchmark-disable"),
    ],
    ids=" ".join,
)
def test_options_that_keep_no_verdict_from_being_found_change_none(tmp_path, options):
    assert agreed(simulated(tmp_path, *options)) == (0, WELL)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--benchmark-only",), "--benchmark-only: pytest-benchmark would skip every test that judges"),
        (("--benchmark-compare", "--benchmark-compare-fail=mean:1%"), "--benchmark-compare-fail: history."),
        (("--setup-only",), "--setup-only: all GPUs would be loaded, and no test would judge them"),
        (("--dist", "load", "--tx", "2*popen"), "--dist, --tx: the acceptance suite itself loads all GPUs"),
        (("-d", "--tx", "popen"), "--dist, --tx: the acceptance suite itself loads all GPUs"),
        (("-f",), "-f/--looponfail: an acceptance run ends with a verdict; leave it out"),
        (
            ("-o", "faulthandler_timeout=1", "-o", "faulthandler_exit_on_timeout=true"),
            "faulthandler_exit_on_timeout: it would end a run without a verdict",
        ),
        (
            ("-p", "no:rigproof-session", "-p", "no:rigproof-last-word"),
            "-p no:rigproof-last-word: it is a part of what makes the run",
        ),
        (("-n", "auto"), "-n/--numprocesses: the acceptance suite itself loads all GPUs"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "",
)
def test_an_option_with_which_nothing_would_be_judged_is_refused(
    tmp_path, two_nodes, monkeypatch, options, named
):
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(options))  # as if they were typed
    run = accept(tmp_path / "reports", two_nodes, "healthy")
    assert run.status == 4, run.output
    assert f"ERROR: {named}" in run.output
    assert re.search(r"; (leave .* out|give -)", run.output)
    assert not run.reports.exists()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--junit-xml=file/x.xml", "Not a directory; name another file, or leave it out"),
        ("--benchmark-json=.", ". is a folder; name another file, or leave it out"),
        ("--benchmark-json=file/x.json", "Not a directory; name another file, or leave it out"),
        ("--benchmark-json=nothing/x.json", "its folder is not there; name another file, or leave it out"),
        ("--benchmark-storage=file", "file is a file, not a folder; name another folder, or leave it out"),
        ("--benchmark-storage=nosuch://x", "no such kind of storage; name another folder, or leave it out"),
        ("--benchmark-histogram=file/x", "Not a directory; name another file, or leave it out"),
        ("--log-file=file/x.log", "Not a directory; name another file, or leave it out"),
    ],
)
def test_a_file_that_could_not_be_written_after_the_load_is_refused_before_it(tmp_path, option, said):
    (tmp_path / "file").touch()
    done = rigproof("accept", *ACCEPTED_AS, option, cwd=tmp_path)
    assert done.returncode == 4, done.stdout + done.stderr
    assert done.stderr.startswith(f"ERROR: {option.replace('=', ' ')}: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "reports").exists()


def test_where_nothing_is_written_nothing_has_to_be_writable(tmp_path):
    """The working folder, if the reports are elsewhere."""
    done = rigproof("accept", *ACCEPTED_AS, f"--report-dir={tmp_path}", cwd=Path("/proc"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_file_that_pytest_opens_before_any_plugin_is_refused_too(tmp_path):
    done = rigproof("accept", *ACCEPTED_AS, "--debug=nothing/x.log", cwd=tmp_path)
    assert done.returncode == 4, done.stdout + done.stderr
    assert done.stderr.startswith("rigproof: pytest did not begin: [Errno 2] No such file or directory: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--collect-only", "--setup-plan", "--fixtures", "--fixtures-per-test"])
def test_an_option_that_only_shows_says_so(hardware, tmp_path, option):
    done = hardware(*SIMULATED, option)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, last = done.stdout.splitlines()
    assert last == f"nothing was tested: {option} only shows what there is; there is no verdict"
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize(
    ("option", "named"),
    [
        *[(one, one) for one in ("--collect-only", "--setup-plan", "--fixtures", "--help", "--version")],
        *[("--co", "--collect-only"), ("-h", "--help"), ("--hw-plan", "--hw-plan")],
    ],
)
def test_an_option_that_nobody_typed_and_that_only_shows_is_refused(
    hardware, tmp_path, monkeypatch, option, named
):
    """`--color=no`, which begins like `--co`, is not that option."""
    monkeypatch.setenv("PYTEST_ADDOPTS", option)
    done = hardware(*SIMULATED, "--color=no")
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"ERROR: {named}: PYTEST_ADDOPTS or an ini file asks for it, and nothing would be" in done.stderr
    assert "or type it" in done.stderr
    assert not (tmp_path / "reports").exists()


def test_so_is_help_where_the_marker_is_part_of_what_was_typed(monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--help")
    assert run_pytest("-mhardware").returncode == 4


@pytest.mark.parametrize(
    "plugin", ["sys.exit(0)", "def pytest_load_initial_conftests(): sys.exit()", "sys.exit('no rig here')"]
)
def test_a_plugin_that_leaves_before_the_run_is_no_verdict(tmp_path, monkeypatch, plugin):
    (tmp_path / "leaves.py").write_text(f"import sys\n{plugin}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = rigproof("accept", "-p", "leaves", *ACCEPTED_AS, cwd=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "rigproof: a plugin or a conftest.py ended pytest (SystemExit" in done.stderr


LEAVES = "import atexit, os\n"  # past every hook of pytest


@pytest.mark.parametrize(
    ("plugin", "status"),
    [
        ("os._exit(0)", 3),
        ("def pytest_runtest_logreport(report): os._exit(1)", 3),
        ("import posix\ndef pytest_runtest_logreport(report): posix._exit(0)", 3),
        ("atexit.register(os._exit, 0)", 1),
    ],
)
def test_who_leaves_by_os_exit_makes_rigproof_accept_neither_green_nor_red(
    tmp_path, monkeypatch, plugin, status
):
    (tmp_path / "leaves.py").write_text(LEAVES + plugin)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fault = "--inject=overheat@pc2/gpu0:stage=sustained"
    done = rigproof("accept", "-p", "leaves", *ACCEPTED_AS, fault, f"--report-dir={tmp_path}", cwd=tmp_path)
    assert done.returncode == status, done.stdout + done.stderr
    assert (tmp_path / "latest" / "verdict.json").exists() == (status == 1)
    if status == 3:
        said = re.search(
            r"^rigproof: os\._exit\([01]\) of .* ended this process; no verdict$", done.stderr, re.M
        )
        assert said, done.stderr


def test_nor_does_a_hook_in_plain_pytest(with_plugin):
    run = with_plugin("import os\ndef pytest_runtest_logreport(report): os._exit(0)")
    assert run.status == 3, run.output
    assert not (run.folder / "verdict.json").exists()


def test_a_verdict_that_was_not_written_is_none(tmp_path, monkeypatch):
    removes = "import pathlib\ndef pytest_unconfigure(config):\n"
    (tmp_path / "removes.py").write_text(
        f"{removes}    for one in pathlib.Path({str(tmp_path)!r}).glob('runs/*/verdict.json'): one.unlink()"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = rigproof("accept", "-p", "removes", *ACCEPTED_AS, f"--report-dir={tmp_path}", cwd=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "pytest ended with 0, and no verdict of this run says so; no verdict" in done.stderr


def test_a_verdict_is_read_whatever_the_locale_is(tmp_path):
    """A process of its own: Python asks for the locale when it starts."""
    plain = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "rigproof", "accept", *ACCEPTED_AS, "--json"],
        cwd=tmp_path,
        env=os.environ | plain | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["verdict"] == "ACCEPTED"
    assert "SIMULATED ACCEPTED" in done.stderr


def test_rigproof_accept_runs_no_other_tests(tmp_path):
    (tmp_path / "test_mine.py").write_text("import pytest\n@pytest.mark.mine\ndef test_mine(): pass\n")
    done = rigproof("accept", "-m", "mine", "test_mine.py", *ACCEPTED_AS, cwd=tmp_path)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "ERROR: -m 'mine': selects no test of the acceptance suite; leave it out" in done.stderr


@pytest.mark.parametrize("option", ["--version", "-V", "--markers", "--help", "--co", "--plan"])
def test_what_is_only_asked_needs_no_verdict(tmp_path, option):
    done = rigproof("accept", option, *(ACCEPTED_AS if option in ("--co", "--plan") else ()), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "reports").exists()


def test_nor_does_one_of_an_ini_file_make_rigproof_accept_green(tmp_path):
    (tmp_path / "mine.ini").write_text("[pytest]\naddopts = --collect-only\n")
    done = rigproof("accept", "-c", "mine.ini", *ACCEPTED_AS, cwd=tmp_path)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "ERROR: --collect-only: PYTEST_ADDOPTS or an ini file asks for it" in done.stderr


@pytest.mark.parametrize("command", [["-m", "pytest", "-m", "hardware"], ["-m", "rigproof", "accept"]])
def test_a_python_that_is_inspected_at_its_end_keeps_the_status(tmp_path, command):
    """By itself it ends 1 whatever it was told to."""
    options = SIMULATED if "pytest" in command else ACCEPTED_AS
    done = python("-i", *command, *options, "-k", "nosuch", "--override-ini=cache_dir=" + str(tmp_path))
    assert done.returncode == 5, done.stdout + done.stderr


def test_a_python_without_asserts_runs_the_suite_too():
    done = python("-O", "-m", "pytest", "-m", "hardware", *SIMULATED, "--hw-plan")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("PYTEST_ADDOPTS='\"-x'", "PYTEST_ADDOPTS: No closing quotation; correct it, or unset it"),
        ("mkdir gone; cd gone; rmdir ../gone;", "the current folder: No such file or directory; change to"),
        ("ulimit -f 0;", "No usable temporary directory found in"),
    ],
)
def test_what_pytest_would_end_with_a_traceback_for_is_refused(tmp_path, script, named):
    command = [sys.executable, "-m", "rigproof", "accept", *ACCEPTED_AS]
    done = subprocess.run(
        ["bash", "-c", f'{script} "$@"', "bash", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4, done.stdout + done.stderr
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_removed_in_a_run_is_named_and_no_plugin_is_blamed(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    (tmp_path / "other.py").write_text(
        f"import os\ndef pytest_collection_finish(session): os.rmdir({str(gone)!r})\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    reports = f"--report-dir={tmp_path / 'reports'}"
    done = rigproof("accept", *ACCEPTED_AS, reports, "-p", "other", cwd=gone)
    status, meaning = agreed(Run(done.returncode, done.stdout, tmp_path / "reports"))
    assert status == 6
    assert meaning.startswith(
        f"{gone}: the run was started in this folder, and somebody removed it meanwhile"
    )
    assert "Traceback" not in done.stdout + done.stderr


def test_a_failed_test_of_somebody_else_is_no_verdict_on_the_rig(tmp_path, two_nodes):
    mine = tmp_path / "test_mine.py"
    mine.write_text("import pytest\n@pytest.mark.hardware\ndef test_mine(): assert False, 'mine'\n")
    run = accept(tmp_path / "reports", two_nodes, "healthy", "tests/hardware", str(mine))
    status, meaning = agreed(run)
    assert status == 6
    assert "::test_mine failed, though no criterion did" in meaning
    assert run.result["problems"][0] in meaning


def test_hooks_that_are_switched_off_make_nothing_green(tmp_path, two_nodes):
    run = accept(tmp_path / "reports", two_nodes, "healthy", "-p", "no:rigproof-wanted")
    assert run.status in (2, 3, 4, 6), run.output
    assert not run.reports.exists()


def test_accept_without_the_plugin_is_refused(tmp_path):
    done = rigproof("accept", "-p", "no:rigproof.plugin", cwd=tmp_path)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "-p no:rigproof.plugin: it is what makes the run" in done.stderr


def test_a_run_that_cannot_begin_leaves_nothing_and_moves_nothing(tmp_path, two_nodes):
    reports, junit = tmp_path / "reports", tmp_path / "junit.xml"
    reports.mkdir()
    (reports / "latest").symlink_to(LINK)
    run = accept(reports, two_nodes, "not-started", f"--junitxml={junit}")
    assert run.status == 4, run.output
    cause = "ERROR: Ray did not start within 60 s; look at /tmp/ray/session_latest/logs"
    assert run.output.count("Ray did not start") == 1
    assert f"\n{cause}\n" in run.output
    assert run.output.index(cause) < run.output.index("_pytest.outcomes.Exit: the run was refused")
    assert str((reports / "latest").readlink()) == LINK
    assert not list((reports / "runs").iterdir())
    assert not junit.exists()
    assert not SAID.search(run.output)


def test_what_ended_a_run_comes_first_in_every_file(acceptance):
    run = acceptance("broken")
    cause = "an error of the run itself ended it: RuntimeError: the driver fell off the bus"
    assert said(run.output)[1].startswith(cause)
    assert run.result["problems"] == [cause]
    summary = (run.folder / "summary.md").read_text()
    assert 0 < summary.index(cause[1:]) < summary.index("not measured")
    page = (run.folder / "report.html").read_text().partition("<body>")[2]
    assert 0 < page.index(cause[1:]) < page.index("not measured")


def test_a_file_that_could_not_be_written_makes_the_run_incomplete_everywhere(with_plugin):
    breaks = (
        "from rigproof.report.files import files\n"
        "def full(path, result): raise OSError(28, 'No space left on device')\n"
        "writer = files._writer\n"
        "files._writer = lambda name: full if name == 'report.html' else writer(name)"
    )
    run = with_plugin(breaks)
    status, meaning = agreed(run)
    assert status == 6
    assert "report.html: not written: No space left on device" in meaning
    assert "report.html: not written" in run.result["problems"][0]
    assert "# rigproof: SIMULATED INCOMPLETE" in (run.folder / "summary.md").read_text()
    assert run.outcome("throughput.gemm_bf16", "pc1/gpu0") == "pass"


# Nobody reads what is printed


def in_shell(command: list[str], shell: str) -> subprocess.CompletedProcess[str]:
    """The command, its output where the shell's text says; its own exit status."""
    script = f'"$@" {shell}; exit ${{PIPESTATUS[0]}}'
    return subprocess.run(
        ["bash", "-c", script, "bash", *command],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.fixture(scope="module")
def on_path(tmp_path_factory):
    """Where a program for each module is, forked from a process that has imported what it needs."""
    folder = tmp_path_factory.mktemp("forked")
    with programs(folder, {"pytest": "pytest", "rigproof": "rigproof"}, CHECKOUT, PRELOADED):
        yield folder


def simulated_in_shell(
    program: list[str | Path], shell: str, reports: Path
) -> subprocess.CompletedProcess[str]:
    return in_shell([*map(str, program), "-m", "hardware", *SIMULATED, f"--hw-report-dir={reports}"], shell)


@pytest.mark.parametrize("shell", ["| head -1", "> /dev/full", "-s > /dev/full", ">&- 2>&- <&-"])
def test_an_output_that_nobody_can_read_ends_no_run(tmp_path, on_path, shell):
    # What is forked is given its three streams, which must be there.
    program = [sys.executable, *PYTEST] if "&-" in shell else [on_path / "pytest", *PYTEST[2:]]
    done = simulated_in_shell(program, shell, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "latest" / "verdict.json").read_text())
    assert (result["verdict"], result["exit_status"], result.get("problems")) == ("ACCEPTED", 0, None)
    told = "standard output cannot be written: No space left on device; the exit status holds"
    assert done.stderr.count(told) == (1 if shell.endswith("/dev/full") else 0)


def test_it_does_not_make_a_rejected_rig_green(tmp_path, on_path):
    shell = "--hw-inject=overheat@pc2/gpu0:stage=sustained > /dev/full"
    done = simulated_in_shell([on_path / "pytest", *PYTEST[2:]], shell, tmp_path)
    assert done.returncode == 1, done.stderr


@pytest.mark.parametrize(
    ("shell", "scenario", "status"),
    [
        *[("| head -1", "healthy", 0), ("> /dev/full", "slow", 1), (">&-", "without-sensor", 6)],
    ],
)
def test_judge_ends_as_the_rig_is_whoever_reads_it(acceptance, on_path, shell, scenario, status):
    # A stream that is closed is none to give to what is forked.
    program = [sys.executable, "-m", "rigproof"] if "&-" in shell else [str(on_path / "rigproof")]
    done = in_shell([*program, "judge", str(acceptance(scenario).folder), "-v"], shell)
    assert done.returncode == status, done.stderr
    assert ("cannot be written: No space left on device" in done.stderr) == (shell == "> /dev/full")
