"""An agent of a simulated node reads on its grid, in simulated time."""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pynvml
import pytest

from rigproof.cluster.actors.messages import AgentDuty
from rigproof.records.measurements import Event
from rigproof.records.recording import Record, Sample
from rigproof.records.samples import GpuSample, HostSample
from rigproof.run.simulated import sensing
from rigproof.run.simulated.agent import SimulatedAgent
from rigproof.telemetry.nvml.session import Nvml
from support.simulated import DUAL, STAGES, rig_named, simulated

RATE_HZ, STUCK_S = 10.0, 30.0


class Agent:
    """The agent of pc1, asked at moments of simulated time. Closed: the process's NVML is another's then."""

    def __init__(self, *faults: str) -> None:
        rig = simulated(rig_named(DUAL), *faults)
        self.uuid = rig.uuid_of("pc1/gpu0")
        self._agent = SimulatedAgent(rig, "pc1")
        self.call(0.0, "begin", AgentDuty("pc1", 0.0, RATE_HZ, STUCK_S, {self.uuid: "pc1/gpu0"}))

    def call(self, t_s: float, method: str, *arguments: object) -> object:
        return self._agent.at(t_s, STAGES, method, arguments)

    def poll(self, t_s: float) -> list[Record | Sample]:
        return list(self._agent.at(t_s, STAGES, "poll", ()).records)

    def close(self) -> None:
        self._agent.let_go()


@pytest.fixture
def agent_of() -> Iterator[Callable[..., Agent]]:
    """Agents of a pc1 with these faults."""
    agents: list[Agent] = []

    def make(*faults: str) -> Agent:
        agents.append(Agent(*faults))
        return agents[-1]

    yield make
    for agent in agents:
        agent.close()


def gpu_samples(records: list[Record | Sample]) -> list[GpuSample]:
    return [one for one in records if isinstance(one, GpuSample)]


def events(records: list[Record | Sample], kind: str) -> list[Event]:
    return [one for one in records if isinstance(one, Event) and one.kind == kind]


def test_nvml_is_closed_when_it_has_finished_however_long_that_takes(
    agent_of: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    close, closed = Nvml.close, []

    def late(self: Nvml) -> None:
        time.sleep(0.2)
        close(self)
        closed.append(pynvml._nvmlLib_refcount)

    monkeypatch.setattr(Nvml, "close", late)
    agent_of().call(1.0, "finish", 0.01)
    assert closed == [0]


def test_every_point_of_the_grid_is_read_however_late_the_poll_comes(agent_of: Callable[..., Agent]) -> None:
    agent = agent_of()
    records = agent.poll(3.0) + agent.poll(3.05) + agent.poll(25.0)
    moments = [one.t_s for one in gpu_samples(records)]
    assert len(moments) == pytest.approx(250, abs=1)
    assert all(later - sooner == pytest.approx(0.1) for sooner, later in pairwise(moments))
    assert len([one for one in records if isinstance(one, HostSample)]) == len(moments)


def test_samples_show_the_card_as_it_was_at_their_moment(agent_of: Callable[..., Agent]) -> None:
    agent = agent_of()
    samples = gpu_samples(agent.poll(30.0))
    idle = [one for one in samples if one.t_s < 0.9]
    loaded = [one for one in samples if 5 < one.t_s < 20]
    assert all(one.utilization_percent == 0 for one in idle)
    assert all(one.utilization_percent == 99 for one in loaded)


def test_an_xid_has_the_time_at_which_it_was_raised(agent_of: Callable[..., Agent]) -> None:
    agent = agent_of("xid@pc1/gpu0:code=48,after=50%")
    [xid] = events(agent.poll(80.0), "xid")
    assert xid.data["xid"] == 48
    assert xid.t_s == pytest.approx(22.0 + 30.0, abs=0.2)


def test_a_gpu_whose_readings_hang_is_given_up_after_its_limit(
    agent_of: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensing, "ANSWER_S", 0.5)
    agent = agent_of("nvml-hang@pc1/gpu0:after=10")
    records = agent.poll(80.0)
    assert gpu_samples(records)[-1].t_s == pytest.approx(32.0, abs=0.2)
    [given_up] = events(records, "timeout")
    assert given_up.subject == "pc1/gpu0"
    assert given_up.data["limit_s"] == STUCK_S
    assert 32.0 + STUCK_S < given_up.t_s <= 80.0
    assert [one for one in records if isinstance(one, HostSample)][-1].t_s > 79


def test_a_lost_gpu_is_reported_once(agent_of: Callable[..., Agent]) -> None:
    agent = agent_of("gpu-lost@pc1/gpu0:after=10")
    records = agent.poll(50.0) + agent.poll(80.0)
    [lost] = events(records, "gpu_lost")
    assert lost.t_s <= 80.0
    assert [one.data["xid"] for one in events(records, "xid")] == [79]


def test_a_frozen_host_leaves_a_gap_that_is_reported(agent_of: Callable[..., Agent]) -> None:
    agent = agent_of("host-frozen@pc1:after=10,for=5")
    [gap] = events(agent.poll(80.0), "sampling_gap")
    assert gap.data["missed"] == pytest.approx(50, abs=2)
