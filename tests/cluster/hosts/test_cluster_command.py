"""`rigproof cluster up`, `status` and `down` over real ssh, beside somebody else's Ray."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.acceptance import CHECKOUT
from support.network_hosts import PATIENCE_S, Host, Network
from support.ray_hosts import CPUS, RAY, SMALL, RayHosts
from support.ssh_hosts import as_user, ray_tmp, serve, why_no_ssh

FOREIGN_PORT = 7777


@pytest.fixture(scope="module", autouse=True)
def ssh_servers() -> None:
    """Skip where there can be none."""
    if reason := why_no_ssh():
        pytest.skip(reason)


@contextmanager
def ssh_hosts(shell: str, ip: int = 4) -> Iterator[RayHosts]:
    """pc1 and pc2 with ssh servers; `shell` is the login shell of pc2, and the token is on pc1 alone."""
    with Network("pc1", "pc2", ip=ip) as network:
        serve(network, shells={"pc2": shell})
        cluster = RayHosts.of(network)
        shutil.rmtree(network["pc2"].home / ".ray")
        yield cluster


def command(hosts: RayHosts, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`rigproof cluster …` on pc1, as its user types it."""
    pc1 = hosts.network["pc1"]
    own = {"RAY_TMPDIR": str(ray_tmp(pc1)), "TMPDIR": str(pc1.folder), "PYTHONPATH": str(CHECKOUT)}
    log = hosts.network.folder / "command.log"
    with log.open("w") as output:
        done = subprocess.run(
            pc1.command(*as_user(pc1, sys.executable, "-m", "rigproof", "cluster", *arguments)),
            env=pc1.environment(own),
            cwd=hosts.network.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=2 * PATIENCE_S,
            check=False,
        )
    return subprocess.CompletedProcess(done.args, done.returncode, log.read_text(), "")


def raylets(host: Host) -> int:
    return sum("/raylet/raylet " in title for title in host.titles())


def foreign_ray(hosts: RayHosts, host: Host) -> None:
    """Somebody else's Ray on that host, a cluster of its own."""
    own = (f"--port={FOREIGN_PORT}", f"--node-ip-address={host.address}", f"--num-cpus={CPUS}")
    place = f"--temp-dir={host.folder / 'foreign'}"
    with (host.folder / "foreign.log").open("w") as output:
        subprocess.run(
            host.command(
                sys.executable, *RAY, "start", "--head", "--include-dashboard=false", *own, place, *SMALL
            ),
            env=hosts.environment(host, {"RAY_AUTH_TOKEN": hosts.token}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=PATIENCE_S,
            check=True,
        )


def test_up_starts_the_rig_once_and_down_ends_it_and_no_other_ray() -> None:
    """Whatever the login shell of the other machine, which greets and knows no Ray; over IPv6."""
    with ssh_hosts("/bin/csh", ip=6) as hosts:
        pc1, pc2 = hosts.network["pc1"], hosts.network["pc2"]
        (pc2.home / ".cshrc").write_text("echo welcome to pc2\n")
        foreign_ray(hosts, pc2)
        rig = hosts.profile(rig="lab")
        up = command(hosts, "up", rig)
        assert up.returncode == 0, up.stdout
        paste = f"run: rigproof accept --hwprofile {rig} --ray-address {shlex.quote(hosts.address)}"
        assert paste in up.stdout.splitlines()
        assert [raylets(host) for host in (pc1, pc2)] == [1, 2]
        status = command(hosts, "status", rig)
        assert status.returncode == 0, status.stdout
        assert "pc2: in the cluster" in up.stdout
        assert f"pc2  {pc2.address}  in the cluster" in status.stdout
        token = pc2.home / ".ray" / "auth_token"
        assert (token.read_text(), token.stat().st_mode & 0o777) == (hosts.token, 0o600)

        again = command(hosts, "up", rig)
        end = f"afterwards: rigproof cluster down {rig}"
        told = again.stdout.splitlines()
        assert (again.returncode, told[0], told[-2:]) == (0, "this cluster runs already", [paste, end])
        assert [raylets(host) for host in (pc1, pc2)] == [1, 2]

        down = command(hosts, "down", rig)
        assert down.returncode == 0, down.stdout
        # The hosts are one kernel's: the first one sees the processes of all.
        first, second = down.stdout.splitlines()
        assert re.fullmatch(r"pc1: [1-9]\d* processes ended", first)
        assert second == "pc2: nothing of it was running"
        assert [raylets(host) for host in (pc1, pc2)] == [0, 1]
        assert not [title for title in pc1.titles() if "ray::" in title or "gcs_server" in title]


def test_a_machine_that_cannot_be_looked_at_is_no_success_of_up_or_down() -> None:
    """A login shell that refuses is quoted, and the lines to type are printed, as where there is no ssh."""
    with ssh_hosts("/usr/sbin/nologin") as hosts:
        rig = hosts.profile()
        down = command(hosts, "down", rig)
        assert down.returncode == 4, down.stdout
        assert down.stdout.splitlines()[0] == "pc1: nothing of it was running"
        assert "pc2" in down.stdout
        assert "account is currently not available" in down.stdout
        assert "pc2: 0" not in down.stdout
        assert "or `ray stop` on pc2 itself" in down.stdout
        up = command(hosts, "up", rig)
        assert up.returncode == 4
        assert "account is currently not available" in up.stdout
        assert "type this yourself, without ssh:" in up.stdout
        assert "env RAY_AUTH_MODE=token ray start --head --port=6379" in up.stdout
