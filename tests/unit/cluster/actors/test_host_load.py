"""The CPU load in its own process: one, humble, and gone with whoever started it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rigproof.cluster.actors import host_load
from rigproof.cluster.actors.agent import NodeAgent
from rigproof.cluster.actors.host_load import NICE, HostLoadProcess, means
from rigproof.cluster.actors.messages import AgentDuty
from rigproof.host.cpu_band import HostLoad, Usage
from rigproof.host.cpu_load import LoadReading
from rigproof.host.processes import own_process, process_id, wait_gone
from rigproof.records.measurements import Event
from rigproof.records.samples import HostSample
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import SimulatedDriver
from support.hog import orphaned_hog
from support.waiting import wait_for

LIMIT_S = 30.0
ANOTHER_CHANCE_S = 3  # for a process to be among the three hungriest: other tests beside it may be as busy
MANY = HostLoad(primary_threads=56, secondary_threads=12, target_percent=1)  # of 80 CPUs, hardly working


@pytest.fixture
def load():
    made = HostLoadProcess(MANY)
    yield made
    made.stop()


def children(pid):
    return [
        other.name
        for other in Path("/proc").glob("[0-9]*")
        if (stat := _stat(other)) and int(stat.rpartition(") ")[2].split()[1]) == pid
    ]


def _stat(folder):
    try:
        return (folder / "stat").read_text()
    except OSError:
        return None


def test_as_many_threads_as_80_cpus_get_are_one_process_that_yields_to_everybody(load):
    wait_for(lambda: load.seconds)
    threads = list(Path(f"/proc/{load.pid}/task").iterdir())
    assert len(threads) == MANY.threads + 3  # they are told when, by one; one waits for the end, one reports
    assert children(load.pid) == []
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    assert {os.getpriority(os.PRIO_PROCESS, int(one.name)) for one in threads} == {min(19, mine + NICE)}


def test_it_ends_by_itself_when_told_to(load):
    wait_for(lambda: load.seconds)
    found = process_id(load.pid)
    load.stop(LIMIT_S)
    assert load.returncode == 0
    assert wait_gone([found], 0) == ()


def test_a_frozen_load_is_killed(load):
    os.kill(load.pid, signal.SIGSTOP)
    load.stop(0.1)
    assert load.returncode == -signal.SIGKILL


def test_it_goes_with_whoever_started_it():
    code = (
        "import time; from rigproof.cluster.actors.host_load import HostLoadProcess;"
        "from rigproof.host.cpu_band import HostLoad;"
        "print(HostLoadProcess(HostLoad(1, 0, 1.0)).pid, flush=True); time.sleep(600)"
    )
    root = str(Path(host_load.__file__).parents[3])
    environment = os.environ | {"PYTHONPATH": root}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as parent:
        found = process_id(int(parent.stdout.readline()))
        assert found
        parent.kill()
    assert wait_gone([found], LIMIT_S) == ()


def test_it_reports_what_it_did_and_what_everybody_else_did(load):
    wait_for(lambda: len(load.seconds) >= 2)
    report = load.report()
    assert (report["threads"], report["primary_threads"], report["secondary_threads"]) == (68, 56, 12)
    assert report["share"] >= 0
    assert report["own_percent"] >= 0
    assert report["foreign_percent"] >= 0
    assert report["error"] is None


def test_a_second_is_the_mean_of_its_steps():
    steps = [
        LoadReading(1.0, Usage(3.0, 1.0, 4.0), share=0.5, short_cpus=0.0),
        LoadReading(1.1, Usage(1.0, 1.5, 4.0), share=0.7, short_cpus=1.0),
    ]
    assert means(steps) == {
        "share": pytest.approx(0.6),
        "own_percent": 31.25,
        "foreign_percent": 18.75,
        "short_cpus": 0.5,
    }
    assert means([]) == {}


def test_the_agent_reports_primary_and_secondary_threads():
    with installed(SimulatedDriver([])):
        agent = NodeAgent()
        agent.start_host_load(MANY)
        agent.stop_host_load()
        begun, ended = [record for record in agent.finish(LIMIT_S).records if record.kind == "host_load"]
    assert begun.message == "56 primary and 12 secondary threads aim at 1 % of the CPU"
    assert ended.message == "the CPU load has ended"
    for event in (begun, ended):
        assert (event.data["primary_threads"], event.data["secondary_threads"]) == (56, 12)


def test_the_agent_of_a_run_names_who_else_used_the_cpu_and_says_what_its_own_run_did(tmp_path, monkeypatch):
    """A busy process whose parent has gone is foreign; the load is the run's own."""
    monkeypatch.setenv("RIGPROOF_STATE_HOME", str(tmp_path))
    foreign = orphaned_hog()
    agent = NodeAgent(lambda: "")
    samples = []
    try:
        agent.begin(AgentDuty("here", 0.0, 10.0, LIMIT_S, {}, "run-9", driver=own_process()))
        agent.start_host_load(HostLoad(1, 0, target_percent=90))

        def named():
            samples.extend(one for one in agent.poll().records if isinstance(one, HostSample))
            known = any(one.own_percent is not None for one in samples)
            users = agent._sensing.users
            found = known and foreign in [one.pid for one in users.hungriest()]
            if not found and users._counted_s > ANOTHER_CHANCE_S:
                users.restart()
            return found

        wait_for(named)
        agent.stop_host_load()
        (ended,) = [one for one in agent.poll().records if isinstance(one, Event) and one.kind == "host_load"]
    finally:
        os.kill(foreign, signal.SIGKILL)
        agent.finish(LIMIT_S)
    assert any(re.match(rf"pid {foreign} \(\S+, user \S+\) \d+ %$", one) for one in ended.data["foreign"])
