"""Hosts on one machine: network namespaces, each with a cable to a switch, that can be pulled out and slowed.

    host ── eth0 ═══ port ── switch (a bridge in a namespace of its own) ── port ═══ eth0 ── host

Each host has its own addresses, ports and loopback; processes and files are this machine's. The addresses are
the same in every network, which nothing outside it sees. Needs root and `ip` (iproute2).
"""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from support.alone import UNYIELDING

PATIENCE_S = 120.0  # for a step of a test on a busy machine; never what a test is about
COMMAND_S = 30.0
SUBNETS = {4: "10.77.0.{}/24", 6: "fd00:77::{}/64"}  # by the version of IP
SWITCH = "switch"


class CannotBuild(Exception):  # noqa: N818 - says what is the case
    """This machine has no namespaces for us; the message says why."""


@dataclass
class Host:
    """One host: its name, its address, its namespace, and a folder that holds its home."""

    name: str
    address: str
    namespace: str
    folder: Path
    started: list[subprocess.Popen[Any]] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """Its user's home."""
        return self.folder / "home"

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What a shell on that host has: nothing of this process but where programs are."""
        own = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"} | UNYIELDING
        own["RIGPROOF_LOCK_DIR"] = str(self.home)  # all of them are one kernel's
        return own | dict(more or {})

    def command(self, *arguments: str | Path) -> list[str]:
        """The command as it is typed on that host."""
        return ["ip", "netns", "exec", self.namespace, *map(str, arguments)]

    def start(
        self, *arguments: str | Path, output: IO[Any], environment: Mapping[str, str], cwd: Path | None = None
    ) -> subprocess.Popen[Any]:
        """Start a command there, in a session of its own."""
        process = subprocess.Popen(
            self.command(*arguments),
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def pids(self) -> list[int]:
        """Everything that runs in its network."""
        return [int(pid) for pid in _ip("netns", "pids", self.namespace).split()]

    def titles(self) -> list[str]:
        """The whole command lines of what runs in its network."""
        found = []
        for pid in self.pids():
            with suppress(OSError):  # it has ended meanwhile
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found


class Network:
    """Hosts joined by a switch. A context manager: leaving kills whatever runs in it and removes it.

    Raises on entering:
        CannotBuild: the kernel, or who we are, does not allow it.
    """

    def __init__(self, *names: str, ip: int = 4) -> None:
        self._ip_version = ip
        self._prefix = f"rp{os.getpid()}-{secrets.token_hex(3)}"
        self.folder = Path(tempfile.mkdtemp(prefix="rpn-", dir="/tmp"))  # short enough for Ray's sockets
        self.hosts = {
            name: Host(name, self._place(number)[0], f"{self._prefix}-{name}", self.folder / name)
            for number, name in enumerate(names, 1)
        }
        self._switch = f"{self._prefix}-{SWITCH}"

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def pull_out(self, name: str) -> None:
        """Pull out the host's cable: its interface has no carrier, its addresses stay."""
        _ip("-n", self._switch, "link", "set", "dev", name, "down")

    def put_back(self, name: str) -> None:
        """Plug it in again."""
        _ip("-n", self._switch, "link", "set", "dev", name, "up")

    def slow_down(self, name: str, *, delay_ms: int, rate_kbit: int) -> str:
        """A bad cable, both ways: late (netem), or where this kernel has no netem, narrow. How it is done."""
        ends = [(self._switch, name), (self[name].namespace, "eth0")]
        late = ["netem", "delay", f"{delay_ms}ms", f"{delay_ms // 4}ms"]
        narrow = ["tbf", "rate", f"{rate_kbit}kbit", "burst", "16kb", "latency", "400ms"]
        try:
            for namespace, device in ends:
                _tc("replace", namespace, device, late)
        except CannotBuild:
            for namespace, device in ends:
                _tc("replace", namespace, device, narrow)
            return "narrow"
        return "late"

    def mend(self, name: str) -> None:
        """A good cable again, after `slow_down`."""
        for namespace, device in ((self._switch, name), (self[name].namespace, "eth0")):
            _tc("del", namespace, device, [])

    def _build(self) -> None:
        for namespace in (self._switch, *(host.namespace for host in self.hosts.values())):
            _ip("netns", "add", namespace)
            _ip("-n", namespace, "link", "set", "dev", "lo", "up")
        _ip("-n", self._switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "dev", "br0", "up")
        for number, (name, host) in enumerate(self.hosts.items(), 1):
            host.home.mkdir(parents=True)
            peer = ("peer", "name", name, "netns", self._switch)
            _ip("link", "add", "eth0", "netns", host.namespace, "type", "veth", *peer)
            _ip("-n", self._switch, "link", "set", "dev", name, "master", "br0", "up")
            address, length = self._place(number)
            lone = ("nodad",) if self._ip_version == 6 else ()  # else it is not there for a second
            _ip("-n", host.namespace, "addr", "add", f"{address}/{length}", "dev", "eth0", *lone)
            _ip("-n", host.namespace, "link", "set", "dev", "eth0", "up")
            # What looks for its own outer address asks for the route to somewhere far away.
            _ip(f"-{self._ip_version}", "-n", host.namespace, "route", "add", "default", "dev", "eth0")

    def _place(self, number: int) -> tuple[str, str]:
        """The address of a host, and the length of its subnet's prefix."""
        address, _, length = SUBNETS[self._ip_version].format(number).partition("/")
        return address, length

    def _remove(self) -> None:
        for host in self.hosts.values():
            kill_all(host)
        for namespace in (self._switch, *(host.namespace for host in self.hosts.values())):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def kill_all(host: Host) -> None:
    """End everything on that host, as a power cut does."""
    end_s = time.monotonic() + PATIENCE_S
    while (pids := _pids_or_none(host)) and time.monotonic() < end_s:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    for process in host.started:
        process.wait(COMMAND_S)


def _pids_or_none(host: Host) -> list[int]:
    try:
        return host.pids()
    except CannotBuild:  # its namespace was never made
        return []


@cache
def why_not() -> str | None:
    """Why this machine cannot build such a network; None where it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "no `ip` here (iproute2)"
    try:
        with Network("pc1") as network:
            network.pull_out("pc1")
    except CannotBuild as error:
        return f"no network namespaces here: {error}"
    return None


def _ip(*arguments: str) -> str:
    return _run(["ip", *arguments])


def _tc(what: str, namespace: str, device: str, discipline: Sequence[str]) -> None:
    _run(["ip", "netns", "exec", namespace, "tc", "qdisc", what, "dev", device, "root", *discipline])


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        raise CannotBuild(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
