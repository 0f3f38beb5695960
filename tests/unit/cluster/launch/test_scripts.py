"""The scripts run here, in this machine's `sh`, on processes of the test's own."""

import hashlib
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from platform import python_version

import pytest

from rigproof import __version__
from rigproof.cluster.launch import scripts as launch_scripts
from support.acceptance import CHECKOUT

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
PARENT = """
import os, subprocess, sys
env = {key: value for key, value in os.environ.items() if key != "RIGPROOF_CLUSTER"}
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=env)
print(child.pid, flush=True)
child.wait()
"""
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


@pytest.fixture
def mark(tmp_path):
    return f"RIGPROOF_CLUSTER=rigproof-{tmp_path.name}-{time.monotonic_ns()}"


@pytest.fixture
def start():
    """Start a Python with this environment; it has printed its first line."""
    started = []

    def begin(code, mark=None):
        environment = {"PATH": "/usr/bin:/bin"} | (dict([mark.split("=")]) if mark else {})
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process, process.stdout.readline().strip()

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def script(text, *arguments, status=0, **environment):
    done = subprocess.run(
        ["sh", "-c", text, "sh", *arguments],
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout.splitlines()


def ray_script(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return path


def test_looking_reports_marked_processes_and_the_tokens_hash(tmp_path, start, mark):
    ours, _ = start(SLEEPER, mark)
    start(SLEEPER, mark + "0")
    folder = tmp_path / ".ray"
    folder.mkdir()
    (folder / "auth_token").write_text("abc\n")
    lines = script(launch_scripts.LOOK, mark, "no-such-ray", HOME=str(tmp_path))
    assert lines == [f"process {ours.pid}", f"token {hashlib.sha256(b'abc').hexdigest()}"]


LONG = "#!/bin/sh\n'''exec' {} \"$0\" \"$@\"\n' '''"  # as installers write what no first line can hold


@pytest.mark.parametrize(
    "first",
    [
        f"#!{sys.executable}",
        f"#!/usr/bin/env {sys.executable}",
        LONG.format(sys.executable),
        LONG.format(f"'{sys.executable}'"),
    ],
)
def test_looking_reports_what_rays_python_has(tmp_path, mark, first):
    ray = ray_script(tmp_path / "a b" / "ray", first)
    place = {"HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT)}
    assert script(launch_scripts.LOOK, mark, "/no/ray", str(ray), **place) == [
        f"ray {ray}",
        f"has Python {python_version()}",
        f"has rigproof {__version__}",
        f"has ray {version('ray')}",
    ]


def test_looking_reports_what_rays_python_cannot_import(tmp_path, mark):
    """A clone in the home is no installation, although Python would find its folder from there."""
    (tmp_path / "rigproof").mkdir()
    ray = ray_script(tmp_path / "env/bin/ray", f"#!{sys.executable} -S")
    assert script(launch_scripts.LOOK, mark, "~/env/bin/ray", HOME=str(tmp_path)) == [
        f"ray {ray}",
        "lacks ModuleNotFoundError: No module named 'rigproof'",
    ]


# By shell: the file in which its terminal puts a folder on the path and prints a banner.
SHELLS = {
    "sh": (".profile", "PATH={}:$PATH; export PATH; echo welcome"),
    "bash": (".profile", 'case $- in *i*) PATH="{}:$PATH" ;; esac; echo welcome'),
    "csh": (".login", "set path = ({} $path); echo welcome"),
    "fish": (".config/fish/config.fish", "set -x PATH {} $PATH; echo welcome"),
}


@pytest.mark.parametrize("name", SHELLS)
def test_a_ray_that_only_a_terminal_knows_is_found_and_started_as_there(tmp_path, mark, name):
    shell = shutil.which(name)
    if shell is None:
        pytest.skip(f"no {name} here (apt-get install csh fish)")
    file, line = SHELLS[name]
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(line.format(tmp_path / "env") + "\n")
    ray = ray_script(tmp_path / "env" / "ray", "#!/bin/sh", 'echo "$@" "$MARK"; command -v ray; exit 3')
    place = {"HOME": str(tmp_path), "SHELL": shell}
    assert script(launch_scripts.LOOK, mark, "/no/ray", "ray", **place) == [f"ray {ray}"]
    start = f"env MARK='a b' {ray} start"
    assert script(launch_scripts.START, start, status=3, **place) == ["start a b", str(ray)]


def test_what_bashrc_exports_reaches_the_ray_that_is_started(tmp_path):
    """As Ubuntu has them: .profile reads .bashrc, which ends at once unless a terminal reads it."""
    (tmp_path / ".profile").write_text('[ -z "$BASH_VERSION" ] || . "$HOME/.bashrc"\n')
    (tmp_path / ".bashrc").write_text(
        "case $- in *i*) ;; *) return ;; esac\nexport {GLOO,NCCL}_SOCKET_IFNAME=eth0\n"
    )
    ray = ray_script(tmp_path / "ray", "#!/bin/sh", 'echo "$GLOO_SOCKET_IFNAME $NCCL_SOCKET_IFNAME"')
    place = {"HOME": str(tmp_path), "SHELL": shutil.which("bash"), "GLOO_SOCKET_IFNAME": "wlan0"}
    assert script(launch_scripts.START, str(ray), **place) == ["eth0 eth0"]


def test_ray_starts_even_if_the_shells_own_files_lead_elsewhere(tmp_path):
    (tmp_path / ".profile").write_text("exit 0\n")
    ray = ray_script(tmp_path / "ray", "#!/bin/sh", "echo started")
    place = {"HOME": str(tmp_path), "SHELL": "/bin/sh"}
    assert script(launch_scripts.START, str(ray), **place) == ["started"]


def programs(folder, *names):
    """A folder with these programs alone."""
    for name in names:
        (folder / name).symlink_to(shutil.which(name))
    return str(folder)


@pytest.mark.parametrize("text", [launch_scripts.LOOK, launch_scripts.END])
def test_where_nothing_can_be_looked_at_nothing_is_said_to_have_ended(tmp_path, start, mark, text):
    start(SLEEPER, mark)
    path = programs(tmp_path, "sh", "cut", "cat", "awk")  # no grep
    (line,) = script(text, mark, "1", status=1, PATH=path, HOME=str(tmp_path))
    assert line.startswith("its processes cannot be looked at: it takes grep")


def test_without_awk_nothing_is_said_to_have_ended(tmp_path, start, mark):
    start(SLEEPER, mark)
    path = programs(tmp_path, "sh", "cut", "cat", "grep", "tr")
    assert script(launch_scripts.END, mark, "1", status=1, PATH=path) == [
        "its processes cannot be ended: it takes awk"
    ]


def test_the_token_is_kept_for_its_owner_alone_and_never_replaced(tmp_path):
    script(launch_scripts.SAVE_IT, "abc", HOME=str(tmp_path))
    path = tmp_path / ".ray" / "auth_token"
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("abc", 0o600)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    script(launch_scripts.SAVE_IT, "def", HOME=str(tmp_path))
    assert path.read_text() == "abc"


def test_ending_ends_what_is_marked_with_its_children_and_nobody_else(start, mark):
    ours, child = start(PARENT, mark)
    theirs, _ = start(SLEEPER, mark + "0")
    plain, _ = start(SLEEPER)
    lines = script(launch_scripts.END, mark, "60")
    assert lines == ["ended 2"]
    ours.wait(60)
    assert gone(child)
    assert theirs.poll() is None
    assert plain.poll() is None


def test_who_does_not_end_is_killed(start, mark):
    ours, _ = start(STUBBORN, mark)
    assert script(launch_scripts.END, mark, "1") == ["ended 1"]
    assert ours.wait(60) == -9


def test_where_nothing_is_marked_nothing_is_ended(mark):
    assert script(launch_scripts.END, mark, "1") == ["ended 0"]


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
