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
import sys
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
SECOND = "10.78.0.{}"  # addresses of a second link
INDEX = 10  # of eth0, stated: which one the kernel would take next depends on what it put there itself
SWITCH = "switch"
# What `ethtool -K eth0 tso off gso off` does (linux/ethtool.h, linux/sockios.h).
NO_OFFLOAD = """
import array, fcntl, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    for what in (0x1F, 0x24):  # ETHTOOL_STSO, ETHTOOL_SGSO
        value = array.array("B", struct.pack("II", what, 0))
        asked = struct.pack("16sP16x", sys.argv[1].encode(), value.buffer_info()[0])
        fcntl.ioctl(any_socket.fileno(), 0x8946, asked)  # SIOCETHTOOL
"""
FIRST = ("nice", "-n", "-5")  # three times as much as at 0
ETC = Path("/etc/netns")  # files that `ip netns exec` shows over those of /etc


class CannotBuild(Exception):  # noqa: N818 - says what is the case
    """This machine has no namespaces for us; the message says why."""


@dataclass
class Host:
    """One host: its name, its address, its namespace, and a folder that holds its home."""

    name: str
    address: str
    namespace: str
    folder: Path
    named: bool = False  # it knows itself by its name, and all others
    first: bool = False  # its processes come before others of this machine
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
        inside = [*(FIRST if self.first else ()), "ip", "netns", "exec", self.namespace]
        if self.named:
            inside += ["unshare", "--uts", "sh", "-c", f'hostname {self.name}; exec "$@"', "sh"]
        return [*inside, *map(str, arguments)]

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

    `named`: each has its own name and /etc/hosts, as PCs have; else all have this machine's. `first`: they
    get more of the CPUs than tests beside them, for what is about rates as they are where nobody else works.

    Raises on entering:
        CannotBuild: the kernel, or who we are, does not allow it.
    """

    def __init__(self, *names: str, ip: int = 4, named: bool = False, first: bool = False) -> None:
        self._ip_version = ip
        self._prefix = f"rp{os.getpid()}-{secrets.token_hex(3)}"
        self.folder = Path(tempfile.mkdtemp(prefix="rpn-", dir="/tmp"))  # short enough for Ray's sockets
        self.hosts = {
            name: Host(
                name, self._place(number)[0], f"{self._prefix}-{name}", self.folder / name, named, first
            )
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

    def resolve(self, name: str, **addresses: str) -> None:
        """What a named host's /etc/hosts has, by name; by default the address of each host's cable.

        `ip netns exec` shows it to each command that it starts.
        """
        known = {one: host.address for one, host in self.hosts.items()} | addresses
        lines = ["127.0.0.1 localhost", *(f"{address} {one}" for one, address in known.items())]
        (ETC / self[name].namespace).mkdir(parents=True, exist_ok=True)
        (ETC / self[name].namespace / "resolv.conf").write_text("nameserver 127.0.0.1\n")  # refuses at once
        (ETC / self[name].namespace / "hosts").write_text("\n".join(lines) + "\n")

    def second_link(self, interface: str, *, first: bool = False) -> None:
        """Another interface of that name on each host, joined by a switch of its own, at SECOND.

        Its index is the one after eth0's, or if `first` the one before, which lists it before eth0.
        """
        bridge = f"br-{interface}"
        _ip("-n", self._switch, "link", "add", bridge, "type", "bridge")
        _ip("-n", self._switch, "link", "set", "dev", bridge, "up")
        for number, (name, host) in enumerate(self.hosts.items(), 1):
            port = f"{name}-{interface}"[:15]
            own = ("index", f"{INDEX - 1 if first else INDEX + 1}")
            peer = ("peer", "name", port, "netns", self._switch)
            _ip("link", "add", interface, *own, "netns", host.namespace, "type", "veth", *peer)
            _ip("-n", self._switch, "link", "set", "dev", port, "master", bridge, "up")
            _ip("-n", host.namespace, "addr", "add", f"{SECOND.format(number)}/24", "dev", interface)
            _ip("-n", host.namespace, "link", "set", "dev", interface, "up")

    def without_offload(self) -> None:
        """Frames are as large on the wires as the interfaces' MTUs say: no card cuts larger pieces into them.

        A veth pair passes those pieces whole, whatever the MTU of the switch between.
        """
        for host in self.hosts.values():
            for interface in ("eth0", "lo"):
                command = [sys.executable, "-c", NO_OFFLOAD, interface]
                _run(["ip", "netns", "exec", host.namespace, *command])

    def configure(self, name: str, *arguments: str) -> str:
        """`ip` with these arguments on that host; on the switch if that is its name."""
        return _ip("-n", self._switch if name == SWITCH else self[name].namespace, *arguments)

    def slow_down(self, name: str, *, delay_ms: int, rate_kbit: int) -> None:
        """A bad cable, both ways, until `carry`: late (netem), or where this kernel has no netem, narrow."""
        ends = [(self._switch, name), (self[name].namespace, "eth0")]
        late = ["netem", "delay", f"{delay_ms}ms", f"{delay_ms // 4}ms"]
        narrow = ["tbf", "rate", f"{rate_kbit}kbit", "burst", "16kb", "latency", "400ms"]
        try:
            for namespace, device in ends:
                _tc("replace", namespace, device, late)
        except CannotBuild:
            for namespace, device in ends:
                _tc("replace", namespace, device, narrow)

    def narrow(self, interface: str, *, rate_kbit: int) -> None:
        """Let each host send no faster than that over the interface."""
        limited = ["tbf", "rate", f"{rate_kbit}kbit", "burst", "16kb", "latency", "400ms"]
        for host in self.hosts.values():
            _tc("replace", host.namespace, interface, limited)

    def firewall(self, name: str, *rule: str) -> None:
        """Add a rule to what comes into a host (iptables)."""
        _run(["ip", "netns", "exec", self[name].namespace, "iptables", "-A", "INPUT", *rule])

    def carry(self, name: str, *, mbit: float) -> None:
        """Let the host's cable carry so many Mbit/s each way, as a link of that speed does."""
        narrow = ["tbf", "rate", f"{mbit}mbit", "burst", "256kb", "latency", "20ms"]
        for namespace, device in ((self._switch, name), (self[name].namespace, "eth0")):
            _tc("replace", namespace, device, narrow)

    def carry_between(self, one: str, other: str, *, mbit: float, else_mbit: float) -> None:
        """Let two hosts send each other so many Mbit/s, and `else_mbit` to all others, until `carry`."""
        for host, to in ((self[one], self[other]), (self[other], self[one])):
            _tc("replace", host.namespace, "eth0", ["handle", "1:", "htb", "default", "1"])
            for more in (
                f"class add dev eth0 parent 1: classid 1:1 htb rate {else_mbit}mbit burst 256kb",
                f"class add dev eth0 parent 1: classid 1:2 htb rate {mbit}mbit burst 64kb",
                f"filter add dev eth0 parent 1: protocol ip u32 match ip dst {to.address} flowid 1:2",
            ):
                _run(["ip", "netns", "exec", host.namespace, "tc", *more.split()])

    def lose(self, name: str, *, share: float) -> str:
        """Drop that share of the packets that come to the host, at random. Why this kernel cannot, or "".

        A program of the packet filter draws a number for each packet; many packets of a stream are one here.
        """
        kept = min(int(2**32 * (1 - share)), 2**32 - 1)
        drawn = f"4,32 0 0 4294963256,53 0 1 {kept},6 0 0 2,6 0 0 4294967295"  # ld rand, jge, drop, go on
        place = ["ip", "netns", "exec", self[name].namespace, "tc"]
        try:
            if share == 0:
                _run([*place, "qdisc", "del", "dev", "eth0", "clsact"])
                return ""
            _run([*place, "qdisc", "add", "dev", "eth0", "clsact"])
            _run([*place, "filter", "add", "dev", "eth0", "ingress", "bpf", "da", "bytecode", drawn])
        except CannotBuild as error:
            return str(error)
        return ""

    def _build(self) -> None:
        for namespace in (self._switch, *(host.namespace for host in self.hosts.values())):
            _ip("netns", "add", namespace)
            _ip("-n", namespace, "link", "set", "dev", "lo", "up")
        _ip("-n", self._switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "dev", "br0", "up")
        for number, (name, host) in enumerate(self.hosts.items(), 1):
            host.home.mkdir(parents=True)
            peer = ("peer", "name", name, "netns", self._switch)
            _ip("link", "add", "eth0", "index", f"{INDEX}", "netns", host.namespace, "type", "veth", *peer)
            _ip("-n", self._switch, "link", "set", "dev", name, "master", "br0", "up")
            address, length = self._place(number)
            lone = ("nodad",) if self._ip_version == 6 else ()  # else it is not there for a second
            _ip("-n", host.namespace, "addr", "add", f"{address}/{length}", "dev", "eth0", *lone)
            _ip("-n", host.namespace, "link", "set", "dev", "eth0", "up")
            # What looks for its own outer address asks for the route to somewhere far away.
            _ip(f"-{self._ip_version}", "-n", host.namespace, "route", "add", "default", "dev", "eth0")
            if host.named:
                self.resolve(name)

    def _place(self, number: int) -> tuple[str, str]:
        """The address of a host, and the length of its subnet's prefix."""
        address, _, length = SUBNETS[self._ip_version].format(number).partition("/")
        return address, length

    def _remove(self) -> None:
        for host in self.hosts.values():
            kill_all(host)
        for namespace in (self._switch, *(host.namespace for host in self.hosts.values())):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)
            shutil.rmtree(ETC / namespace, ignore_errors=True)
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
