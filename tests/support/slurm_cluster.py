"""A real slurmctld and slurmd with one node, in a folder of their own, with the scripts of examples/slurm."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp

from support.acceptance import CHECKOUT
from support.waiting import wait_for

SCRIPTS = CHECKOUT / "examples" / "slurm"
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "scontrol", "sinfo")
CONFIG = """
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
AuthInfo=socket={folder}/munge/socket
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
NodeName=n1 NodeHostname=localhost CPUs=1
PartitionName=all Nodes=ALL Default=YES
"""
# What `accept` says of this machine stands in a file; `verdict` is the real one, and is counted.
RIGPROOF = """#!{python}
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from rigproof.__main__ import main
from rigproof.records.verdict import EXIT_STATUS, Decision
from support.left_verdicts import leave_verdict
folder = Path({folder!r})
if sys.argv[1] == "verdict":
    with (folder / "asked").open("a") as asked:
        asked.write(".")
    sys.exit(main())
decision = Decision((folder / "next").read_text())
leave_verdict(folder / "lib" / "reports", decision)
sys.exit(EXIT_STATUS[decision])
"""


def why_no_slurm() -> str | None:
    """Why Slurm cannot be started here; None where it can."""
    missing = [one for one in PROGRAMS if shutil.which(one, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    if missing:
        return f"no {', '.join(missing)} here (apt-get install slurmctld slurmd slurm-client munge)"
    return None if os.geteuid() == 0 else "Slurm's daemons are started by root"


class Slurm:
    """The cluster; its node is n1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reports = folder / "lib" / "reports"

    def run(self, *command: str | Path, status: int = 0) -> str:
        """What a command of the administrator prints, with what it complains about."""
        done = subprocess.run(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        return {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": f"{self.folder}/bin:/usr/sbin:/usr/bin:/bin",
        }

    @property
    def node(self) -> str:
        """The state of the node, and its reason."""
        return self.run("sinfo", "--noheader", "--nodes=n1", "--format=%T %E").strip()

    def wait_for_node(self, *begins: str) -> str:
        return wait_for(
            lambda: next((said for said in (self.node,) if said.startswith(begins)), None),
            f"a node that is {begins}", step_s=0.2,
        )  # fmt: skip

    def accept_next(self, decision: str) -> None:
        """What the next test of the node says."""
        (self.folder / "next").write_text(decision)

    def wait_for_checks(self) -> None:
        """Wait until the health check has begun after now, and once more."""
        asked = self.folder / "asked"
        before = asked.stat().st_size
        wait_for(lambda: asked.stat().st_size >= before + 2, "two health checks", step_s=0.2)


@contextmanager
def slurm(ports: tuple[int, int]) -> Iterator[Slurm]:
    """Start it, and stop all of it again."""
    folder = Path(mkdtemp(prefix="slurm-"))  # a socket's path is short
    folder.chmod(0o755)  # a job's user reads his script
    cluster = Slurm(folder)
    _write(folder, ports)
    munge = [
        f"--{one}={folder}/munge/{one.partition('-')[0]}"
        for one in ("socket", "key-file", "pid-file", "log-file", "seed-file")
    ]
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        _start(stack, cluster, "munged", "--foreground", "--force", "--num-threads=1", *munge)
        wait_for((folder / "munge" / "socket").exists, "munge")
        _start(stack, cluster, "slurmctld", "-D")
        _start(stack, cluster, "slurmd", "-D", "-N", "n1")
        stack.callback(cluster.run, "scancel", "--partition=all")
        yield cluster


def _start(stack: ExitStack, cluster: Slurm, *command: str) -> None:
    with (cluster.folder / f"{command[0]}.log").open("w") as log:
        process = subprocess.Popen(
            command,
            env=cluster.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    stack.callback(process.wait, 30)
    stack.callback(process.send_signal, signal.SIGTERM)


def _write(folder: Path, ports: tuple[int, int]) -> None:
    for one in ("bin", "etc", "lib", "munge", "spool", "state"):
        (folder / one).mkdir()
    (folder / "munge" / "key").write_bytes(os.urandom(1024))
    (folder / "munge" / "key").chmod(0o400)
    (folder / "asked").touch()
    own = {
        "/opt/rigproof/bin:": f"{folder}/bin:",
        "/opt/rigproof": folder,
        "/var/lib/rigproof": folder / "lib",
        "/etc/slurm/rigproof": folder / "etc",
        "Users=rigproof": "Users=root",
        "--uid=rigproof": "--uid=root",
        "= rigproof ]": "= root ]",
        "HealthCheckInterval=300": "HealthCheckInterval=1",
    }
    for script in SCRIPTS.iterdir():
        text = script.read_text()
        for theirs, ours in own.items():
            text = text.replace(theirs, str(ours))
        (folder / "etc" / script.name).write_text(text)
        (folder / "etc" / script.name).chmod(0o755)
    config = CONFIG.format(folder=folder, ports=ports) + (folder / "etc" / "slurm.conf").read_text()
    (folder / "slurm.conf").write_text(config)
    for program in ("scontrol", "sinfo"):  # slurmd tells its scripts nothing of where its file is
        _script(folder, program, f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec /usr/bin/{program} "$@"\n')
    path = [str(CHECKOUT), str(CHECKOUT / "tests")]
    _script(folder, "rigproof", RIGPROOF.format(python=sys.executable, path=path, folder=str(folder)))


def _script(folder: Path, name: str, text: str) -> None:
    (folder / "bin" / name).write_text(text)
    (folder / "bin" / name).chmod(0o755)
