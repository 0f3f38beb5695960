"""`rigproof accept`: the same run from any folder, whatever the project there makes of pytest."""

from support.acceptance import Run, rigproof

HOSTILE = {
    "pytest.ini": "[pytest]\naddopts = --no-such-option\ntestpaths = elsewhere\n",
    "conftest.py": "raise RuntimeError('not your conftest')\n",
    "test_mine.py": "def test_mine():\n    assert False\n",
}


def test_accept_runs_the_suite_in_a_project_of_its_own(two_nodes, tmp_path):
    for name, text in HOSTILE.items():
        (tmp_path / name).write_text(text)
    done = rigproof("accept", "-p", "support.canned_rig", f"--hwprofile={two_nodes}", "-q", cwd=tmp_path)
    run = Run(done.returncode, done.stdout + done.stderr, tmp_path / "reports")
    assert run.status == 0, run.output
    assert run.result["verdict"] == "ACCEPTED"
    assert "test_core_temperature[pc1/gpu0]" in run.junit
    assert "not your conftest" not in run.output


def test_accept_refuses_as_pytest_does(tmp_path):
    done = rigproof("accept", "--hwprofile=nobody", cwd=tmp_path)
    assert done.returncode == 4
    assert "dual-3090-3070" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not any(tmp_path.glob("reports/runs/*"))
