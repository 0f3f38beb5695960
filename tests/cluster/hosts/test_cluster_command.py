"""`rigproof cluster up` and `down` over real ssh and through real `ray up`, beside somebody else's Ray."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.acceptance import CHECKOUT
from support.network_hosts import PATIENCE_S, Host, Network
from support.ray_hosts import CPUS, RAY, SMALL, RayHosts
from support.ssh_hosts import as_user, serve, why_no_ssh

FOREIGN_PORT = 7777


@pytest.fixture
def ssh_hosts() -> Iterator[RayHosts]:
    """pc1 and pc2 with ssh servers; a token on pc1 alone."""
    if reason := why_no_ssh():
        pytest.skip(reason)
    with Network("pc1", "pc2") as network:
        serve(network)
        cluster = RayHosts.of(network)
        shutil.rmtree(network["pc2"].home / ".ray")
        yield cluster


def command(hosts: RayHosts, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`rigproof cluster …` on pc1, as its user types it."""
    pc1 = hosts.network["pc1"]
    ray_tmp = {"RAY_TMPDIR": str(pc1.folder), "TMPDIR": str(pc1.folder), "PYTHONPATH": str(CHECKOUT)}
    log = hosts.network.folder / "command.log"
    with log.open("w") as output:
        done = subprocess.run(
            pc1.command(*as_user(pc1, sys.executable, "-m", "rigproof", "cluster", *arguments)),
            env=pc1.environment(ray_tmp),
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


def test_up_starts_the_rig_and_down_ends_it_and_no_other_ray(ssh_hosts: RayHosts) -> None:
    pc1, pc2 = ssh_hosts.network["pc1"], ssh_hosts.network["pc2"]
    foreign_ray(ssh_hosts, pc2)
    rig = ssh_hosts.profile(rig=f"ssh-{ssh_hosts.network.folder.name}")
    ray = f"--ray={Path(sys.executable).parent / 'ray'}"
    try:
        up = command(ssh_hosts, "up", rig, ray)
        assert up.returncode == 0, up.stdout + logs(ssh_hosts)
        assert "pc2: in the cluster" in up.stdout
        assert "--ray-address 10.77.0.1:6379 --hwprofile " in up.stdout
        assert (raylets(pc1), raylets(pc2)) == (1, 2)
        token = pc2.home / ".ray" / "auth_token"
        assert token.read_text() == ssh_hosts.token
        assert token.stat().st_mode & 0o777 == 0o600

        status = command(ssh_hosts, "status", rig)
        assert status.returncode == 0, status.stdout
        assert "pc2  10.77.0.2  in the cluster" in status.stdout

        again = command(ssh_hosts, "up", rig, ray)
        assert again.returncode == 4
        assert "rigproof cluster down" in again.stdout

        down = command(ssh_hosts, "down", rig)
        assert down.returncode == 0, down.stdout
        assert (raylets(pc1), raylets(pc2)) == (0, 1)
        assert not [title for title in pc1.titles() if "ray::" in title or "gcs_server" in title]
    finally:
        name = hashlib.sha256(f"rigproof-{rig.stem}-6379".encode()).hexdigest()
        for folder in Path("/tmp").glob(f"ray_ssh_*/{name[:10]}"):
            shutil.rmtree(folder, ignore_errors=True)


def logs(hosts: RayHosts) -> str:
    """What `ray up` and the head's autoscaler printed."""
    found = [
        *hosts.network.folder.glob("*.log"),
        *hosts.network.folder.glob("pc1/ray/session_*/logs/monitor.*"),
    ]
    return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-4000:]}" for path in found)


def test_without_ssh_the_lines_to_type_are_printed(ssh_hosts: RayHosts) -> None:
    shutil.rmtree(ssh_hosts.network["pc1"].home / ".ssh")
    up = command(ssh_hosts, "up", ssh_hosts.profile())
    assert up.returncode == 4
    assert "type this yourself" in up.stdout
    assert "RAY_AUTH_MODE=token ray start --head --port=6379" in up.stdout
    assert "RAY_AUTH_MODE=token ray start --address=10.77.0.1:6379 --node-ip-address=10.77.0.2" in up.stdout
