"""A simulated rig on a real Ray: a raylet for each node, found by the name of its node, and nothing left."""

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rigproof.records.disk.store import read_recording
from rigproof.run.simulated.actors import FIRST_PID
from support.acceptance import CHECKOUT, PYTEST, Run
from support.alone import NONE_IN_ADVANCE

LIMIT_S = 300  # on a machine that is busy with much else; alone it takes 10 s
RIG = "dual-3090-3070"
PATIENT = f"""
name = "patient"
extends = "{RIG}"
[timeouts]
start_s = {LIMIT_S / 2}
[stages]
feeding.length_s.quick = 5  # after the stage that loses a worker: it begins when the next one is up
route.length_s.quick = 0
lan.length_s.quick = 0
collective.length_s.quick = 0
pattern.length_s.quick = 0
transfer.length_s.quick = 0
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where Ray keeps its files. A longer path would not do for its sockets, and it would take /tmp."""
    while (made := Path("/tmp") / secrets.token_hex(2)).exists():
        pass
    made.mkdir(mode=0o700)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Callable[..., Run]:
    """Run the rig with these options; what it left."""

    def start(rig: object, *options: str, below: tuple[str, ...] = (), **variables: str) -> Run:
        command = [*below, sys.executable, *PYTEST, "-m", "hardware", "--hw-simulate"]
        path = os.pathsep.join([*variables.pop("PYTHONPATH", "").split(), str(CHECKOUT)])
        done = subprocess.run(
            [*command, "--hw-level=quick", f"--hwprofile={rig}", f"--hw-report-dir={tmp_path}", *options],
            cwd=CHECKOUT,
            env=os.environ | {"PYTHONPATH": path, "TMPDIR": str(folder)} | NONE_IN_ADVANCE | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return Run(done.returncode, done.stdout, tmp_path)

    return start


@pytest.fixture
def patient(tmp_path: Path) -> Path:
    """The simulated rig, with more time for a worker's start than a busy machine takes."""
    path = tmp_path / "patient.toml"
    path.write_text(PATIENT)
    return path


def _naming(folder: Path) -> list[bytes]:
    """The command lines that hold the folder's name."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in command:
                found.append(command)
    return found


def _nothing_is_left(folder: Path) -> None:
    end_s = time.monotonic() + 30
    while left := _naming(folder):
        assert time.monotonic() < end_s, left
        time.sleep(0.2)
    assert not list(folder.glob("rigproof-ray-*"))


def test_a_killed_worker_is_a_killed_process_and_a_node_that_never_joins_is_missing_by_name(
    run, folder, patient, tmp_path
):
    """Another worker takes over.

    On a Ray that was not tested, which starts as Ray starts it: nothing private of it is changed, and its own
    agents run, which a Ray that was tested starts without.
    """
    (tmp_path / "sitecustomize.py").write_text(
        "from importlib import metadata\n"
        "whole = metadata.version\n"
        "metadata.version = lambda name: '2.99.0' if name == 'ray' else whole(name)\n"
    )
    faults = ("--hw-inject=worker-killed@pc1/gpu0", "--hw-inject=node-missing@pc2")
    done = run(patient, *faults, PYTHONPATH=str(tmp_path))
    assert done.status == 1, done.output
    assert done.outcome("cluster.no_timeouts", "rig") == "fail"
    recording = read_recording(done.folder)
    assert [one.worker for one in recording.events if one.kind == "worker_died"] == ["pc1/gpu0#0"]
    first, second = [one for one in recording.workers if one.subject == "pc1/gpu0"]
    assert first.pid != second.pid
    assert not Path(f"/proc/{first.pid}").exists()
    assert done.outcome("cluster.nodes_present", "pc2") == "fail"
    assert done.outcome("cluster.nodes_present", "pc1") == "pass"
    _nothing_is_left(folder)


# Each of them alone kept an agent from starting, or ended it.
OF_SOMEBODY_ELSE = {
    "RAY_JOB_CONFIG_JSON_ENV_VAR": '{"runtime_env": {"env_vars": {"A": "1"}}}',  # the entry point of a job
    "RAY_RUNTIME_ENV_HOOK": "nobody.has.this",
    "RAY_memory_usage_threshold": "0.01",
    "RAY_worker_register_timeout_seconds": "1",
    "RAY_num_workers_soft_limit": "0",
}


def test_the_rig_of_two_pcs_is_accepted_whatever_is_set_around_it_and_nothing_is_left(run, folder):
    """A Ray of our own inherits neither a setting nor a job's environment.

    Below `uv run`, too, by whose command line Ray's driver has its workers started.
    """
    script = folder / "run"
    script.write_text('"$@"\n')
    uv = ("bash", "-c", 'exec -a uv bash run "$@"', "-")
    path = f"{folder}:{os.environ['PATH']}"  # where bash finds `run`
    done = run(RIG, below=uv, PATH=path, **OF_SOMEBODY_ELSE)
    assert done.status == 0, done.output
    assert "SIMULATED ACCEPTED" in done.output
    assert done.result["simulated"] is True
    recording = read_recording(done.folder)
    pids = {node.agent_pid for node in recording.nodes.values()} | {one.pid for one in recording.workers}
    assert len(pids) == 4  # two agents and two workers, each a process
    assert max(pids) < FIRST_PID
    assert "warning" not in done.output.splitlines()[-1]
    _nothing_is_left(folder)
