"""Whole acceptance runs in a process of their own, on real devices, and a hand to hurt them with."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE_S = 240  # for a step of a run; never what a test is about


def has_gpus(count: int) -> bool:
    """Whether this machine has at least `count` NVIDIA GPUs."""
    return sum(1 for _ in Path("/proc/driver/nvidia/gpus").glob("*")) >= count


@dataclass
class Run:
    """An acceptance run that goes on in the background."""

    process: subprocess.Popen[str]
    report_dir: Path
    output: Path

    def records(self, kind: str) -> list[dict[str, Any]]:
        """The records of one kind that are on disk by now."""
        found = []
        for path in self.report_dir.glob("runs/*/recording.jsonl"):
            for line in path.read_text().splitlines():
                try:
                    record = json.loads(line)
                except ValueError:
                    continue  # the line that is being written
                if record["type"] == kind:
                    found.append(record)
        return found

    def wait_for(self, what: Callable[["Run"], Any]) -> Any:
        """Wait until `what` is true of the run, and return it."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if result := what(self):
                return result
            assert self.process.poll() is None, f"the run ended first:\n{self.text()}"
            time.sleep(0.1)
        raise AssertionError(f"waited {PATIENCE_S} s in vain:\n{self.text()}")

    def in_stage(self, name: str) -> list[dict[str, Any]]:
        """The rounds of a stage that were recorded so far; wait_for(...) until a stage is under load."""
        return [record for record in self.records("round") if record["stage"] == name]

    def finish(self) -> int:
        """Wait for the exit status."""
        return self.process.wait(PATIENCE_S)

    def text(self) -> str:
        """What the run printed."""
        return self.output.read_text()

    def verdict(self) -> dict[str, Any]:
        """verdict.json of the latest run."""
        return json.loads((self.report_dir / "latest" / "verdict.json").read_text())

    def outcomes(self) -> dict[tuple[str, str], str]:
        """Outcome by criterion and subject."""
        return {(c["criterion"], c["subject"]): c["outcome"] for c in self.verdict()["criteria"]}


@pytest.fixture
def two_devices(tmp_path: Path) -> tuple[str, tuple[str, str]]:
    """A short profile of two devices, and their subjects: GPUs where there are two, else the CPU twice."""
    if has_gpus(2):
        kind, gpu = "gpu", 'sku = "unknown"\ngemm_size = 8192\nvram_gib_per_worker = 64'
    else:
        kind, gpu = "cpu", 'sku = "unknown"\ndevice = "cpu"\ngemm_size = 256\nvram_gib_per_worker = 0.25'
    path = tmp_path / "two.toml"
    path.write_text(
        f"""
name = "two-devices"
[cpu]
enabled = false # two workers on two CPUs leave no band to hold
[timeouts]
stall_s = 10
task_s = 30
[levels.quick]
gemm_settle_s = 1
gemm_measure_s = 0.5
sustained_s = 10
round_s = 0.05
[[nodes]]
name = "here"
[[nodes.gpus]]
{gpu}
[[nodes.gpus]]
{gpu}
"""
    )
    return f"--hwprofile={path}", (f"here/{kind}0", f"here/{kind}1")


@pytest.fixture
def start_run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Start an acceptance run with these options; it is killed at the test's end if it still goes on."""
    runs: list[Run] = []

    def start(*options: str) -> Run:
        report_dir = tmp_path / f"reports{len(runs)}"
        output = tmp_path / f"output{len(runs)}.txt"
        command = [sys.executable, "-m", "pytest", "-m", "hardware", "-p", "no:cacheprovider"]
        with output.open("w") as stdout:
            process = subprocess.Popen(
                [*command, f"--report-dir={report_dir}", *options],
                cwd=CHECKOUT,
                stdout=stdout,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        runs.append(Run(process, report_dir, output))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.send_signal(signal.SIGINT)
            try:
                run.process.wait(20)
            except subprocess.TimeoutExpired:
                run.process.kill()
