"""A process that Ray holds ends all the same: in time, and where it can with its own status."""

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
HANG = """
import atexit, sys, threading
sys.path.insert(0, {root!r})
from rigproof.cluster.ray import leaving
leaving.EXIT_S = 0.2
atexit.register(threading.Event().wait)  # what Ray's destructors may do
"""


def ended(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HANG.format(root=str(ROOT)) + code],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_an_exit_that_hangs_is_ended_by_the_alarm():
    done = ended("assert not leaving.held_by_ray()\nleaving.expect_stuck_exit()\nleaving.expect_stuck_exit()")
    assert done.returncode == -signal.SIGALRM, done.stderr


def test_leaving_keeps_status_and_output():
    done = ended("leaving.expect_stuck_exit()\nassert leaving.held_by_ray()\nprint('said')\nleaving.leave(2)")
    assert (done.returncode, done.stdout) == (2, "said\n")
