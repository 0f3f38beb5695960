"""An ssh server on each host of a network: real OpenSSH, with a home, keys and known hosts of its own.

OpenSSH takes the home from /etc/passwd, not from $HOME: each host has a copy of that file of its own, mounted
over the real one in the mount namespace that `ip netns exec` gives every command. So is a folder for Ray,
which has one path on all hosts of a cluster: two that join at once in one folder would choose the names of
their sockets alike, and one of them would never come up.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from support.acceptance import CHECKOUT
from support.network_hosts import Host, Network
from support.waiting import wait_for

SSHD = "/usr/sbin/sshd"
OWN_PLACES = 'mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/ray" "$1" && shift && exec "$@"'
CONFIG = """
ListenAddress {host.address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
SetEnv RAY_TMPDIR={ray_tmp} PYTHONPATH={checkout}
"""


def why_no_ssh() -> str | None:
    """Why there can be no ssh server here; None where there can."""
    for program in (SSHD, "ssh", "ssh-keygen", "csh"):
        if shutil.which(program) is None:
            return f"no {program} here (apt-get install openssh-server csh)"
    return None


def ray_tmp(host: Host) -> Path:
    """Where Ray keeps its files: one path on all hosts, and on each a folder of its own."""
    return host.folder.parent / "tmp"


def serve(network: Network, *, shells: Mapping[str, str]) -> None:
    """Start a server on every host; every host's user may log in to every host, and knows its key.

    `shells`: by host, the user's login shell there; bash otherwise.
    """
    ray_tmp(network["pc1"]).mkdir()
    keys = network.folder / "ssh"
    keys.mkdir()
    _keygen(keys / "id_ed25519")
    known = ""
    for host in network.hosts.values():
        folder = host.folder / "sshd"
        (folder / "ray").mkdir(parents=True)
        _keygen(folder / "host_key")
        kind, key = (folder / "host_key.pub").read_text().split()[:2]
        known += f"{host.address} {kind} {key}\n"
        shutil.copy(keys / "id_ed25519.pub", folder / "authorized_keys")
        (folder / "config").write_text(
            CONFIG.format(host=host, folder=folder, checkout=CHECKOUT, ray_tmp=ray_tmp(host))
        )
        (folder / "passwd").write_text(_passwd(host, shells.get(host.name, "/bin/bash")))
    Path("/run/sshd").mkdir(exist_ok=True)  # where it locks itself in
    for host in network.hosts.values():
        own = host.home / ".ssh"
        shutil.copytree(keys, own)
        (own / "known_hosts").write_text(known)
        with (host.folder / "sshd.log").open("w") as log:
            host.start(
                *as_user(host, SSHD, "-D", "-e", "-f", host.folder / "sshd" / "config"),
                output=log,
                environment=host.environment(),
            )
    for host in network.hosts.values():
        log = host.folder / "sshd.log"
        wait_for(lambda log=log: "Server listening" in log.read_text(), f"{host.name}'s ssh server")


def as_user(host: Host, *command: str | Path) -> tuple[str, ...]:
    """The command where the user's home and Ray's folder are the host's own."""
    return ("sh", "-c", OWN_PLACES, str(host.folder / "sshd"), str(ray_tmp(host)), *map(str, command))


def _passwd(host: Host, shell: str) -> str:
    user = pwd.getpwuid(os.geteuid())
    lines = []
    for line in Path("/etc/passwd").read_text().splitlines():
        fields = line.split(":")
        if fields[0] == user.pw_name:
            fields[5:] = [str(host.home), shell]
        lines.append(":".join(fields))
    return "\n".join(lines) + "\n"


def _keygen(path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, stdin=subprocess.DEVNULL
    )
