"""`--notify CMD` is told of every end of a run when the verdict is on the disk, and changes nothing of it."""

import json

import pytest

from support.acceptance import SHORT_PCS, accept, rigproof

SIMULATED = ("--simulate-inline", f"--hwprofile={SHORT_PCS}", "--level=quick")
NOTE = (
    'env | grep -E "^RIGPROOF_(VERDICT|EXIT_STATUS|RIG|REPORT)=" >> told; cat > lines; '
    'ls "$RIGPROOF_REPORT" > files; echo "no such host" >&2; exit 7'
)
CTRL_C = (
    "def pytest_runtest_logreport(report):\n"
    "    if 'test_power' in report.nodeid and report.when == 'call': raise KeyboardInterrupt\n"
)
NO_CLUSTER = (
    "from rigproof.cluster.ray.preconditions import ClusterError\nfrom rigproof.plugin.run import Run\n"
    "def refuse(*_): raise ClusterError('another run did not end')\nRun.open = refuse\n"
)


@pytest.fixture
def told(tmp_path, monkeypatch):
    """A run that notes what its command was told; `plugin` is the text of a plugin beside it."""

    def run(*options, plugin="", command=NOTE):
        (tmp_path / "other.py").write_text(plugin)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        done = rigproof("accept", *SIMULATED, f"--notify={command}", "-p", "other", *options, cwd=tmp_path)
        path = tmp_path / "told"
        lines = path.read_text().splitlines() if path.exists() else []
        variables = dict(line.split("=", 1) for line in lines)
        assert len(lines) == len(variables), "it was run twice"
        return done.returncode, done.stdout + done.stderr, variables

    return run


@pytest.mark.parametrize(
    ("options", "plugin", "status", "verdict"),
    [
        ((), "", 0, "ACCEPTED"),
        (("--inject=overheat@pc2/gpu0",), "", 1, "REJECTED"),
        (("--inject=memory-taken@pc1/gpu0",), "", 6, "INCOMPLETE"),
        ((), CTRL_C, 2, "INCOMPLETE"),
    ],
    ids=["accepted", "rejected", "incomplete", "interrupted"],
)
def test_it_is_told_of_every_verdict_and_its_failure_changes_none(
    told, tmp_path, options, plugin, status, verdict
):
    returned, output, variables = told(*options, plugin=plugin)
    run = (tmp_path / "reports" / "latest").resolve()
    result = json.loads((run / "verdict.json").read_text())
    assert (returned, result["exit_status"], result["verdict"]) == (status, status, verdict), output
    assert variables == {
        "RIGPROOF_VERDICT": f"SIMULATED {verdict}",  # which no script takes for the verdict on a real rig
        "RIGPROOF_EXIT_STATUS": str(status),
        "RIGPROOF_RIG": "short-pcs",
        "RIGPROOF_REPORT": str(run),
    }
    assert {"verdict.json", "report.html", "junit.xml"} <= {*(tmp_path / "files").read_text().split()}
    first, *more = (tmp_path / "lines").read_text().splitlines()
    last = next(line for line in reversed(output.splitlines()) if line.startswith(f"SIMULATED {verdict}"))
    assert first == f"short-pcs {last}"
    failed = [one["criterion"] for one in result["criteria"] if one["outcome"] == "fail"]
    assert [name for name in failed if name not in "\n".join(more)] == []
    assert " ended with exit status 7: no such host" in output
    assert "problems" not in result or not [one for one in result["problems"] if "notify" in one]
    assert (
        NOTE not in (run / "recording.jsonl").read_text()
    )  # others read it, and a command may hold a password


def test_a_run_that_is_refused_after_it_waited_is_told_too(told, tmp_path):
    status, output, variables = told(plugin=NO_CLUSTER)
    assert status == 4
    assert (variables["RIGPROOF_VERDICT"], variables["RIGPROOF_REPORT"]) == ("REFUSED", "")
    assert (tmp_path / "lines").read_text() == "short-pcs REFUSED: another run did not end\n"
    assert output.index("ended with exit status 7") < output.index("ERROR: another run did not end")


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--plan",), 0, ""),
        (("--inject=nobody",), 4, "there is no fault 'nobody'"),
        (("--notify=",), 4, "its value is empty"),
        (('--notify=echo "',), 4, '--notify echo ": '),
    ],
)
def test_where_nothing_is_loaded_nobody_is_told(told, tmp_path, options, status, said):
    returned, output, variables = told(*options)
    assert (returned, variables) == (status, {}), output
    assert said in output
    assert "Traceback" not in output
    assert not (tmp_path / "reports").exists()


def test_one_that_ends_well_is_not_heard(tmp_path, two_nodes):
    run = accept(tmp_path / "reports", two_nodes, "healthy", f"--hw-notify=echo loud; cat > {tmp_path}/said")
    assert (tmp_path / "said").read_text().startswith("two-nodes ACCEPTED")
    assert run.status == 0
    assert "loud" not in run.output
    assert "notify" not in run.output
