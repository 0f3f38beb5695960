"""tests/conftest.py: what CI says of a skipped test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

OTHER = "import pytest\ndef test_other():\n    pytest.skip('no tool here')\n"
FILE = "import pytest\npytest.importorskip('no_such_module')\n"
GPU = "from support.two_devices import needs_gpus\n@needs_gpus(1, 0)\ndef test_gpu(): assert 0\n"
pytest_plugins = ["pytester"]
PASSING = "def test_passing():\n    pass\n"


@pytest.fixture
def strict(pytester, monkeypatch):
    monkeypatch.setenv("RIGPROOF_NO_SKIPS", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeconftest((TESTS / "conftest.py").read_text())
    return pytester


@pytest.mark.parametrize("spread", [(), ("-n", "1")], ids=["alone", "xdist"])
@pytest.mark.parametrize(
    ("code", "named"),
    [(OTHER, "test_it.py::test_other: Skipped: no tool here"), (FILE, "*could not import 'no_such_module'*")],
    ids=["test", "file"],
)
def test_a_skip_fails_the_run_and_is_named(strict, code, named, spread):
    strict.makepyfile(test_it=code, test_passing=PASSING)
    done = strict.runpytest("-p", "no:cacheprovider", *spread)
    done.stdout.fnmatch_lines(["*skipped, though nothing but a GPU may be missing*", named])
    assert done.ret == pytest.ExitCode.TESTS_FAILED


def test_for_want_of_a_gpu_a_test_may_be_skipped(strict):
    strict.makepyfile(test_it=GPU, test_passing=PASSING)
    done = strict.runpytest("-p", "no:cacheprovider")
    done.assert_outcomes(passed=1, skipped=1)
    assert done.ret == 0


def test_elsewhere_a_skip_fails_nothing(strict, monkeypatch):
    monkeypatch.delenv("RIGPROOF_NO_SKIPS")
    strict.makepyfile(test_it=OTHER)
    assert strict.runpytest("-p", "no:cacheprovider").ret == 0


def test_who_runs_the_acceptance_suite_alone_needs_nothing_of_these_tests(tmp_path):
    """`rigproof accept` of a checkout, from the folder of another project."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTEST_ADDOPTS")
    }
    options = ("--simulate-inline", "--hwprofile=dual-3090-3070", "--collect-only", "-q")
    command = [sys.executable, "-m", "rigproof", "accept", *options]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
