"""A host that lets no Ray of our own work is refused before any load; who has no home gets a verdict."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.acceptance import CHECKOUT, PATIENCE_S, PYTEST, SHORT_PCS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="control groups and namespaces are root's to make")
CGROUPS = Path("/sys/fs/cgroup")
PIDS_MAX = 60
# In a network of its own, whose loopback interface is down, with a /dev/shm and a folder that are full.
INSIDE = """
mount -t tmpfs -o size=1m tmpfs /dev/shm && mount -t tmpfs -o size=4m tmpfs "$TMPDIR" || exit 99
exec "$@"
"""


NAMESPACES = ("unshare", "--net", "--mount")


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group that allows PIDS_MAX threads."""
    tried = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:  # in a container that may not, or where the root is no mount
        pytest.skip(f"no namespaces can be made here: {tried.stderr.strip()}")
    root = CGROUPS if (CGROUPS / "cgroup.controllers").exists() else CGROUPS / "pids"
    made = root / f"rigproof-test-{secrets.token_hex(4)}"
    try:
        made.mkdir()
        (made / "pids.max").write_text(str(PIDS_MAX))
    except OSError as error:
        shutil.rmtree(made, ignore_errors=True)
        pytest.skip(f"no control group for threads can be made here: {error}")
    yield made
    made.rmdir()


def test_every_limit_that_is_too_tight_is_refused_with_its_figure_and_the_way_out(group, tmp_path):
    """Each ended REJECTED after a minute, or asked whether there was space where there was."""
    full = Path("/tmp") / f"rpf-{secrets.token_hex(2)}"  # a longer path would not do for sockets
    full.mkdir()
    command = [sys.executable, *PYTEST, "-m", "hardware", "--hw-simulate", "--hw-level=quick"]
    command += ["--hwprofile=dual-3090-3070", f"--hw-report-dir={tmp_path / 'reports'}"]
    try:
        done = subprocess.run(
            [*NAMESPACES, "sh", "-c", INSIDE, "-", *command],
            cwd=CHECKOUT,
            env=os.environ | {"PYTHONPATH": str(CHECKOUT), "TMPDIR": str(full)},
            preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    finally:
        full.rmdir()
    assert done.returncode == 4, done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert f"{group}/pids.max = {PIDS_MAX}: " in said
    assert "a run with 2 workers starts about" in said
    assert "127.0.0.1 cannot be reached here (Network is unreachable)" in said
    assert f"{full} has 4.0 MiB free; Ray's files need 91 MiB there, 75 of them because /dev/shm has" in said
    assert "Traceback" not in said
    assert not (tmp_path / "reports").exists()


# Each ended with 4, too, but after half a minute or more, and without the cause.
MOUNTS = {
    'printf "203.0.113.9 localhost\\n" > "$0/hosts" && mount --bind "$0/hosts" /etc/hosts': (
        "/etc/hosts, or the name server, says that localhost is 203.0.113.9"
    ),
    # A TMPDIR that is too long for Ray's sockets, and /tmp in its place.
    'mount --bind /tmp /tmp && mount -o remount,ro,bind /tmp && mount --bind "$0" "$0" '
    '&& mount -o remount,rw,bind "$0" && export TMPDIR="$0"': (
        "/tmp cannot be written, and Ray keeps its files and sockets there; set TMPDIR to a folder that can "
        "be, with a path of at most 13 bytes"
    ),
    "mount -t tmpfs -o ro tmpfs /dev/shm": "/dev/shm cannot be written, and Ray keeps its object store there",
}


@pytest.mark.parametrize(("mounts", "said"), MOUNTS.items(), ids=["hosts", "tmp", "shm"])
def test_what_ray_waits_for_in_vain_is_refused_with_its_cause(tmp_path, mounts, said):
    command = [sys.executable, *PYTEST, "-m", "hardware", "--hw-simulate", "--hw-level=quick"]
    command += ["--hwprofile=dual-3090-3070", f"--hw-report-dir={tmp_path / 'reports'}"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{mounts} || exit 99; exec "$@"', tmp_path, *command],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode in (1, 99) and "rigproof" not in done.stdout:
        pytest.skip(f"no mounts can be made here: {done.stderr.strip()}")
    assert done.returncode == 4, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not (tmp_path / "reports").exists()


# Root's Python may be in root's own folder: what stays of root is that it may read.
NOBODY = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--inh-caps=-all,+dac_read_search")
NOBODY += ("--ambient-caps=-all,+dac_read_search",)
INLINE = ("accept", "--simulate-inline", f"--hwprofile={SHORT_PCS}", "--level=quick")
ROOTS = Path("~root").expanduser()
HOMES = {
    "no home": {},
    "a home of another user": {
        "HOME": str(ROOTS),
        "XDG_STATE_HOME": str(ROOTS / "state"),
        "XDG_CACHE_HOME": str(ROOTS / "cache"),
    },
}


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A folder of the user below; those of pytest are in one of root's."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rpf-") as folder:
        os.chown(folder, 12345, 12345)
        yield Path(folder)


@pytest.fixture
def as_nobody(theirs):
    """Runs a command of rigproof as a user who has no entry in /etc/passwd, in a folder of theirs."""
    tried = subprocess.run([*NOBODY, sys.executable, "-c", ""], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no other user can be had here: {tried.stderr.strip()}")

    def run(arguments, **settings):
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        return subprocess.run(
            [*NOBODY, "env", f"--chdir={theirs}", sys.executable, "-m", "rigproof", *arguments],
            env={**kept, "PYTHONPATH": str(CHECKOUT), **settings},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    return run


@pytest.mark.parametrize("home", HOMES)
def test_a_user_without_an_entry_or_a_home_gets_a_verdict(as_nobody, theirs, home):
    done = as_nobody(INLINE, **HOMES[home])
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((theirs / "reports" / "latest" / "verdict.json").read_text())
    assert (result["verdict"], result["exit_status"], result.get("problems")) == ("ACCEPTED", 0, None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            (),
            "No user exists for uid 12345; `ssh 192.168.1.10` has to log in"
            if shutil.which("ssh")
            else "no `ssh`",
        ),
        (("--ssh-user=anna", "--ssh-key=~/id"), "--ssh-key ~/id: "),
    ],
)
def test_nor_does_a_cluster_begin_with_a_traceback(as_nobody, options, said):
    done = as_nobody(("cluster", "up", "dual-3090-3070", *options))
    assert done.returncode == 4, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["history/short-pcs", "champions/short-pcs/gpus"])
def test_what_root_has_in_the_report_folder_is_noticed_before_the_load(as_nobody, theirs, name):
    """A first run by root leaves such things to the runs of others."""
    path = theirs / "reports" / name
    path.parent.mkdir(parents=True)
    path.mkdir()
    for above in path.relative_to(theirs).parents:
        os.chown(theirs / above, 12345, 12345)
    done = as_nobody(INLINE)
    assert done.returncode == 4, done.stdout + done.stderr
    said = f"{path}: cannot be written (Permission denied); change its owner or mode"
    assert said in done.stdout + done.stderr
    assert list(theirs.glob("reports/runs/*")) == []
