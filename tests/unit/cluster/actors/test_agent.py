"""The agent's class in this process, over a simulated driver; Ray only carries its calls."""

import threading
import time
from contextlib import contextmanager

import pytest

from rigproof.cluster.actors import sensing as sensing_module
from rigproof.cluster.actors.agent import NodeAgent
from rigproof.cluster.actors.messages import AgentDuty
from rigproof.records.measurements import ForeignMemory, GpuCounters
from rigproof.records.processes import GpuProcess, ProcessLimits, ProcessWatch
from rigproof.records.samples import GpuSample, PcieErrors
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import Fault, SimulatedDriver, SimulatedGpu, SimulatedProcess
from rigproof.telemetry.nvml.protocol import Code

A, B = "GPU-a", "GPU-b"
SUBJECTS = {A: "pc1/gpu0", B: "pc1/gpu1"}
LIMIT_S = 30.0
SAMPLED = "nvmlDeviceGetUtilizationRates"


@contextmanager
def agent_on(driver, stuck_s=LIMIT_S, processes=None):
    """An agent that samples both GPUs."""
    with installed(driver):
        agent = NodeAgent()
        try:
            agent.begin(AgentDuty("pc1", 0.0, 50.0, stuck_s, SUBJECTS, processes=processes))
            yield agent
        finally:
            for fault in driver.faults:
                if fault.hang is not None:
                    fault.hang.set()
            agent.finish(LIMIT_S)


def two_gpus():
    return SimulatedDriver([SimulatedGpu(A), SimulatedGpu(B)])


def gather(agent, enough):
    """Poll until `enough(records)`."""
    records = []
    end_s = time.monotonic() + LIMIT_S
    while not enough(records):
        assert time.monotonic() < end_s, [getattr(record, "kind", None) for record in records]
        time.sleep(0.02)
        records += agent.poll().records
    return records


def events(records, *kinds):
    return [record for record in records if getattr(record, "kind", None) in kinds]


def samples(records, subject):
    return [record for record in records if isinstance(record, GpuSample) and record.subject == subject]


def test_a_sample_that_hangs_is_a_timeout_of_that_gpu_alone():
    driver = two_gpus()
    driver.inject(Fault(SAMPLED, uuid=A, hang=threading.Event()))
    with agent_on(driver, stuck_s=0.2) as agent:
        records = gather(agent, lambda found: events(found, "timeout"))
        records += gather(agent, lambda found: len(samples(found, SUBJECTS[B])) > 5)
        agent.counters("after", LIMIT_S)
        records += agent.poll().records
        driver.faults[0].hang.set()  # the driver comes back: the GPU stays given up
        records += gather(agent, lambda found: len(samples(found, SUBJECTS[B])) > 5)
    (event,) = events(records, "timeout", "gpu_lost", "nvml_error")
    assert (event.kind, event.subject, event.data) == (
        "timeout",
        SUBJECTS[A],
        {"limit_s": 0.2, "query": "sample"},
    )
    assert [record.subject for record in records if isinstance(record, GpuCounters)] == [SUBJECTS[B]]


def test_a_gpu_that_is_lost_while_it_is_sampled_is_reported_once():
    driver = two_gpus()
    with agent_on(driver) as agent:
        records = gather(agent, lambda found: samples(found, SUBJECTS[A]))
        driver.gpu(A).lost = True
        records += gather(agent, lambda found: events(found, "gpu_lost"))
        agent.counters("after", LIMIT_S)
        records += gather(agent, lambda found: len(samples(found, SUBJECTS[B])) > 5)
    (event,) = events(records, "timeout", "gpu_lost", "nvml_error")
    assert (event.kind, event.subject) == ("gpu_lost", SUBJECTS[A])
    assert "does not answer" in event.message


def test_a_gpu_that_an_xid_took_off_the_bus_is_lost():
    driver = two_gpus()
    with agent_on(driver) as agent:
        gather(agent, lambda found: samples(found, SUBJECTS[A]))
        driver.raise_xid(A, 79)
        records = gather(agent, lambda found: events(found, "gpu_lost") and events(found, "xid"))
    (lost,) = events(records, "gpu_lost")
    assert lost.subject == SUBJECTS[A]
    assert "Xid 79" in lost.message


def test_foreign_memory_comes_with_the_next_poll():
    driver = two_gpus()
    driver.gpu(B).memory_used_mib = 9000.0
    driver.gpu(B).processes = [SimulatedProcess(17, 8999.0)]
    with agent_on(driver) as agent:
        agent.foreign_memory(frozenset(), LIMIT_S)
        records = agent.poll().records
    found = {record.subject: record for record in records if isinstance(record, ForeignMemory)}
    assert found[SUBJECTS[A]].used_mib == 1.0
    assert (found[SUBJECTS[B]].used_mib, found[SUBJECTS[B]].pids) == (9000.0, (17,))


def test_processes_are_watched_beside_the_samples_and_the_watch_is_reported_with_the_counters():
    driver = two_gpus()
    driver.gpu(B).processes = [SimulatedProcess(17, 8999.0, sm_percent=60)]
    duty = AgentDuty("pc1", 0.0, 50.0, LIMIT_S, SUBJECTS, processes=ProcessLimits(512, 5))
    with installed(driver):
        agent = NodeAgent()
        agent.begin(duty)
        seen = gather(agent, lambda found: [one for one in found if isinstance(one, GpuProcess)])
        agent.counters("after", LIMIT_S)
        first = agent.poll().records
        last = agent.finish(LIMIT_S).records
    [process] = [one for one in seen if isinstance(one, GpuProcess)]
    assert (process.subject, process.pid, process.used_mib) == (SUBJECTS[B], 17, 8999.0)
    for records in (first, last):
        watches = {one.subject: one for one in records if isinstance(one, ProcessWatch)}
        assert watches.keys() == set(SUBJECTS.values())
        assert all(one.readings >= 1 and one.sm_readable for one in watches.values())


def test_a_process_list_that_hangs_is_given_up_like_any_query():
    driver = two_gpus()
    driver.inject(Fault("nvmlDeviceGetComputeRunningProcesses_v3", uuid=A, hang=threading.Event()))
    with agent_on(driver, stuck_s=0.2, processes=ProcessLimits(512, 5)) as agent:
        records = gather(agent, lambda found: events(found, "timeout"))
    [event] = events(records, "timeout")
    assert (event.subject, event.data["query"]) == (SUBJECTS[A], "processes")


@pytest.mark.parametrize(
    ("code", "promised", "expected"),
    [
        (Code.LIBRARY_NOT_FOUND, False, None),
        (Code.LIBRARY_NOT_FOUND, True, "no NVIDIA driver is installed"),
        (Code.LIB_RM_VERSION_MISMATCH, False, "driver/library version mismatch"),
        (Code.LIB_RM_VERSION_MISMATCH, True, "driver/library version mismatch"),
    ],
)
def test_no_driver_is_an_error_only_where_a_gpu_is_promised(code, promised, expected):
    driver = SimulatedDriver([])
    driver.inject(Fault("nvmlInitWithFlags", code=code))
    with installed(driver):
        agent = NodeAgent()
        facts = agent.facts("pc1", promised, LIMIT_S)
        agent.finish(LIMIT_S)
    assert facts.gpus == ()
    assert facts.driver_version is None
    if expected is None:
        assert facts.nvml_error is None
    else:
        assert expected in facts.nvml_error


def test_facts_name_what_is_there():
    with installed(two_gpus()):
        agent = NodeAgent()
        facts = agent.facts("pc1", True, LIMIT_S)
        agent.finish(LIMIT_S)
    assert [gpu.uuid for gpu in facts.gpus] == [A, B]
    assert (facts.driver_version, facts.nvml_error) == ("580.95.05", None)


def test_cards_that_ray_was_started_without_are_told_apart_from_missing_ones():
    with installed(two_gpus()):
        agent = NodeAgent(visible_devices=lambda: "1")
        found = agent.facts("pc1", True, LIMIT_S)
        agent.finish(LIMIT_S)
    assert [gpu.uuid for gpu in found.gpus] == [B]
    assert ([gpu.uuid for gpu in found.hidden], found.visible_devices) == ([A], "1")


def test_pcie_errors_are_recorded_first_and_whenever_the_counters_are(monkeypatch):
    counts = {"00000000:17:00.0": 4, "": None}

    def read(t_s, subject, bus_id):
        return PcieErrors(t_s, subject, correctable=counts[bus_id])

    monkeypatch.setattr(sensing_module, "pcie_errors", read)
    addresses = {SUBJECTS[A]: "00000000:17:00.0", SUBJECTS[B]: ""}
    with installed(two_gpus()):
        agent = NodeAgent()
        try:
            agent.begin(AgentDuty("pc1", 0.0, 50.0, LIMIT_S, SUBJECTS, pci_bus_ids=addresses))
            gather(agent, lambda found: sum(isinstance(one, PcieErrors) for one in found) == 2)
            counts["00000000:17:00.0"] = 9
            agent.counters("after", LIMIT_S)
            found = [one for one in agent.poll().records if isinstance(one, PcieErrors)]
        finally:
            agent.finish(LIMIT_S)
    assert {one.subject: one.correctable for one in found} == {SUBJECTS[A]: 9, SUBJECTS[B]: None}
