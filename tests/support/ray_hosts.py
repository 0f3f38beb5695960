"""A Ray cluster across the hosts of a network, as people type it on their PCs, and acceptance runs on it."""

import contextlib
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rigproof.host.addresses import host_port
from rigproof.records.disk.store import RecordingError, read_recording
from rigproof.stages.registry import KINDS
from support.acceptance import CHECKOUT, PYTEST, Run
from support.alone import NONE_IN_ADVANCE
from support.fault_times import record
from support.network_hosts import PATIENCE_S, Host, Network
from support.ray_start import BARE_RAY
from support.real_runs import INSIDE
from support.waiting import wait_for

PORT = 6379
CPUS = 2
START_S = 60
PATIENT_STAGE_S = 300  # for a run to come to a later stage: 92 s beside four loops
PATIENT_START_S = 240  # for what is not about it: a busy machine takes long to start a worker
RAY = ("-c", BARE_RAY)
SMALL = ("--num-gpus=0", "--object-store-memory=78643200", "--disable-usage-stats")

PROFILE = """
name = "{rig}"
[cpu]
enabled = false # the hosts share this machine's CPUs: no band to hold
[responsiveness] # and these, as wide as they may be: what is tested is the network, not this machine's load
p99_ms = 1000
max_ms = 10000
[limits]
active_work_share = 0.5
stability_worst_window_share = 0.3
sample_coverage_share = 0.2
success_share = 0.5
[timeouts]
start_s = {start_s}
stall_s = {stall_s}
task_s = 60
stop_s = 10
[sampling]
rate_hz = 5
[levels]
round_s.{level} = 0.05
"""
# Of a stage, beside its length. How fast hosts exchange data together is a matter of who else uses the CPUs.
SETTINGS = {
    "gemm": "settle_s.{level} = 0.5\nmeasure_s.{level} = 1.5\n",
    "sustained": "settle_s.{level} = 0.5\nstability_drop_share = 0.5\n",
    "collective": "nodes_share = 0.1\nnodes_tcp_share = 0.05\n",
    "ddp": "batch = 64\n",
}
CPU_DEVICE = """
[[nodes.gpus]]
sku = "unknown"
device = "cpu"
gemm_size = 256
vram_gib_per_worker = 0.02
cpus_per_worker = 1
"""
NODE = """
[[nodes]]
name = "{name}"
address = "{address}"
cpus = {cpus}
ram_gib = 8
"""


@dataclass
class Running:
    """An acceptance run that goes on on a host."""

    process: subprocess.Popen[Any]
    reports: Path
    log: Path
    begun_s: float = field(default_factory=time.monotonic)

    def records(self, kind: str) -> list[dict[str, Any]]:
        """The records of one kind that are on disk by now."""
        found = []
        for path in self.reports.glob("runs/*/recording.jsonl"):
            for line in path.read_text().splitlines():
                try:
                    record = json.loads(line)
                except ValueError:
                    continue  # the line that is being written
                if record["type"] == kind:
                    found.append(record)
        return found

    def working(self, stage: str, subject: str) -> bool:
        """Whether this device has finished a round of the stage."""
        if not any(one["name"] == stage for one in self.records("stage")):
            return False  # reading the rounds takes much longer
        for path in self.reports.glob("runs/*"):
            with contextlib.suppress(RecordingError):  # its first line is not whole yet
                rounds = read_recording(path).rounds.of(subject)
                if any(one.stage == stage for one in rounds):
                    return True
        return False

    def until(self, what: Callable[[], Any], message: str) -> Any:
        """Wait until `what` is true while the run goes on. If it never is, end the run: it has the hosts."""

        def true_or_over() -> Any:
            return what() or self.process.poll() is not None

        try:
            wait_for(true_or_over, message, PATIENT_STAGE_S, step_s=0.5)  # each look reads a whole recording
            found = what()
            assert found, f"{message}: the run ended first"
        except AssertionError as vain:
            self.process.terminate()
            raise AssertionError(f"{vain}:\n{self.end().output}") from None
        return found

    def end(self) -> Run:
        """Wait for its end."""
        status = self.process.wait(3 * PATIENCE_S)
        return Run(status, self.log.read_text(), self.reports)


@dataclass
class RayHosts:
    """The Ray of a network's hosts: the first is the head."""

    network: Network
    token: str

    @classmethod
    def of(cls, network: Network) -> "RayHosts":
        """Nothing started yet; every host has the token file, as docs/cluster.md says to make it."""
        cluster = cls(network, secrets.token_hex(32))
        for host in network.hosts.values():
            cluster.give_token(host, cluster.token)
        return cluster

    @cached_property
    def head(self) -> Host:
        return next(iter(self.network.hosts.values()))

    @property
    def address(self) -> str:
        """Of the head, HOST:PORT."""
        return host_port(self.head.address, PORT)

    @staticmethod
    def give_token(host: Host, token: str) -> None:
        """Write the host's token file, for its owner alone."""
        path = host.home / ".ray" / "auth_token"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(token)

    def environment(self, host: Host, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """A shell's there, with token authentication. Workers know the tests' own stage, and rest."""
        path = f"{INSIDE}:{CHECKOUT}:{CHECKOUT / 'tests'}"
        own = {"RAY_AUTH_MODE": "token", "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"} | NONE_IN_ADVANCE
        return host.environment(own | dict(more or {}))

    def python(
        self, host: Host, *arguments: str | Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """An interpreter there, to its end."""
        return subprocess.run(
            host.command(sys.executable, *arguments),
            env=self.environment(host, environment),
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def ray_start(
        self, host: Host, *more: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`ray start` there; the head's where it is the first host."""
        role = (f"--address={self.address}",)
        if host is self.head:
            role = ("--head", f"--port={PORT}", "--include-dashboard=false")
        own = (f"--node-ip-address={host.address}", f"--node-name={host.name}", f"--num-cpus={CPUS}")
        place = f"--temp-dir={host.folder / 'ray'}"
        log = host.folder / f"start-{secrets.token_hex(3)}.log"
        with log.open("w") as output:  # Ray's own processes keep it open: a pipe would never end
            done = subprocess.run(
                host.command(sys.executable, *RAY, "start", *role, *own, place, *SMALL, *more),
                env=self.environment(host, environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=PATIENCE_S,
                check=False,
            )
        return subprocess.CompletedProcess(done.args, done.returncode, log.read_text(), "")

    def profile(
        self,
        *names: str,
        rig: str = "hosts",
        stall_s: int = 20,
        start_s: int = START_S,
        level: str = "quick",
        more: Mapping[str, str] = {},
        **length_s: float,
    ) -> Path:
        """A rig of these hosts (default: all), with one CPU device each. One that is no host never comes.

        `length_s`: of stages; of the others that have a length, sustained takes 3 s and the rest does not
        run. `more`: settings of stages in place of SETTINGS. Hosts without names of their own have this
        machine's, which leads none of them to the others: they do without `route`.
        """
        text = PROFILE.format(rig=rig, stall_s=stall_s, start_s=start_s, level=level)
        for kind in KINDS:
            text += f"[stages.{kind.name}]\n"
            if "length_s" in kind.settings.model_fields:
                text += f"length_s.{level} = {({'sustained': 3.0} | length_s).get(kind.name, 0)}\n"
            text += more.get(kind.name, SETTINGS.get(kind.name, "")).format(level=level)
        for name in names or self.network.hosts:
            host = self.network.hosts.get(name)
            address = host.address if host else "10.77.0.99"
            text += NODE.format(name=name, address=address, cpus=CPUS) + CPU_DEVICE
        path = self.network.folder / f"{rig}.toml"
        path.write_text(text)
        return path

    def accept(
        self,
        profile: Path,
        *options: str,
        environment: Mapping[str, str] | None = None,
    ) -> Running:
        """`pytest -m hardware` on the head, as a user starts it there."""
        host = self.head
        folder = host.folder / f"run-{secrets.token_hex(3)}"
        folder.mkdir()
        log = folder / "output.txt"
        pytest = (*PYTEST, "-m", "hardware", f"--hwprofile={profile}")
        with log.open("w") as output:
            process = host.start(
                *(sys.executable, *pytest, f"--hw-ray-address={self.address}", f"--hw-report-dir={folder}"),
                *options,
                output=output,
                environment=self.environment(host, environment),
                cwd=CHECKOUT,
            )
        return Running(process, folder, log)


@dataclass(frozen=True)
class Ended:
    """A run that ended after a fault, and how long that took (s); `deadline_s`: what the profile gives it."""

    fault: str
    deadline_s: float
    took_s: float
    run: Run

    @property
    def outcome(self) -> str:
        """In a word, for a table."""
        return "refused" if self.run.status == 4 else str(self.run.result["verdict"])


def ended_after(
    running: Running, fault: str, deadline_s: float, hurt: Callable[[], object] | None = None
) -> Ended:
    """Do the harm now, and wait for the run's end. Without `hurt` it was there when the run began."""
    begun_s = running.begun_s
    if hurt is not None:
        begun_s = time.monotonic()
        hurt()
    run = running.end()
    ended = Ended(fault, deadline_s, time.monotonic() - begun_s, run)
    record(fault, "hosts", deadline_s=deadline_s, took_s=ended.took_s, outcome=ended.outcome)
    return ended
