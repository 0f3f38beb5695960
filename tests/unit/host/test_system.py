"""On another system than Linux a run is refused with a sentence, before it imports what is not there."""

import os
import subprocess
import sys

import pytest

from rigproof.host.package import refusal
from support.acceptance import CHECKOUT

AS_ON_ANOTHER = """
import runpy, sys, zoneinfo  # which reads how Python was built, by the platform's name
sys.platform = {platform!r}
sys.modules |= dict.fromkeys(["fcntl", "resource", "torch", "ray"])
sys.argv = {arguments!r}
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def typed(platform, *arguments):
    code = AS_ON_ANOTHER.format(platform=platform, arguments=list(arguments))
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        "rigproof accept --simulate --hwprofile dual-3090-3070",
        "rigproof detect",
        "rigproof monitor --once",
        "rigproof cluster up dual-3090-3070",
        "pytest -m hardware -p no:cacheprovider",
    ],
)
def test_a_run_elsewhere_is_refused_with_a_sentence(command):
    done = typed("darwin", *command.split())
    said = done.stdout + done.stderr
    assert done.returncode == 4, said
    assert "rigproof tests Linux hosts alone" in said
    assert "Traceback" not in said


def test_files_are_read_everywhere():
    done = typed("darwin", "rigproof", "lint", "dual-3090-3070")
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["clean"]), done.stderr


def test_linux_is_never_refused():
    assert refusal() is None
