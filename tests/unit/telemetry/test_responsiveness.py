"""The sleeper process and its reader. No test here is decided by how long a delay was."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rigproof.telemetry import responsiveness
from rigproof.telemetry.responsiveness import ResponsivenessProbe
from support.waiting import wait_for

ROOT = str(Path(responsiveness.__file__).parents[2])


@pytest.fixture
def probe() -> Iterator[ResponsivenessProbe]:
    probe = ResponsivenessProbe()
    yield probe
    probe.stop()


def test_delays_come_in_milliseconds_and_are_never_negative(probe: ResponsivenessProbe) -> None:
    assert probe.alive
    delays = wait_for(probe.drain)
    assert all(delay >= 0 for delay in delays)


def test_a_stopped_probe_is_dead_and_measures_nothing(probe: ResponsivenessProbe) -> None:
    wait_for(probe.drain)
    probe.stop()
    assert not probe.alive
    probe.drain()  # what came before the end
    assert probe.drain() is None


def test_a_killed_probe_measures_nothing_rather_than_no_delays(probe: ResponsivenessProbe) -> None:
    wait_for(probe.drain)
    os.kill(probe.pid, signal.SIGKILL)
    wait_for(lambda: not probe.alive)
    probe.drain()
    assert probe.drain() is None


def run_sleeper(*command: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ROOT},
    )


def test_the_command_prints_batches_and_ends_when_its_stdin_is_closed() -> None:
    with run_sleeper("-m", "rigproof.telemetry.responsiveness") as sleeper:
        assert sleeper.stdout is not None
        assert sleeper.stdin is not None
        batch = json.loads(sleeper.stdout.readline())["delays_ms"]
        assert batch
        assert all(isinstance(delay, float) for delay in batch)
        sleeper.stdin.close()
        assert sleeper.wait(60) == 0


def test_the_sleeper_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import sys, runpy; runpy.run_module('rigproof.telemetry.responsiveness');"
        "print(sorted({n.partition('.')[0] for n in sys.modules} - sys.stdlib_module_names - {'rigproof'}))"
    )
    found = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    assert [name for name in json.loads(found.stdout.replace("'", '"')) if name != "__main__"] == []
