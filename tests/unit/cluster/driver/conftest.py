"""Workers and agents of a driver whose clock is set by hand."""

import pytest

from rigproof.cluster.driver import agents as module
from support.driven_agents import Team, duty
from support.driven_workers import PLANS, Staff


@pytest.fixture
def staff():
    """Started at 0 s."""
    return Staff()


@pytest.fixture
def lonely():
    """The first worker alone."""
    return Staff(PLANS[:1])


@pytest.fixture
def killed_here(monkeypatch):
    """The processes of this host that were sent a SIGKILL; none really is."""
    found = []
    monkeypatch.setattr(module.processes, "kill", found.append)
    return found


@pytest.fixture
def unbriefed(killed_here):
    """Both are up, and have nothing to do yet."""
    made = Team()
    assert set(made.start()) == {"pc1", "pc2"}
    return made


@pytest.fixture
def briefed(unbriefed):
    """Both know their duty, and have answered once."""
    unbriefed.agents.begin({"pc1": duty("pc1"), "pc2": duty("pc2")}, 1.0)
    for node in ("pc1", "pc2"):
        unbriefed.answers(node)
    return unbriefed


@pytest.fixture
def asked(monkeypatch):
    """The keys and the limits of everything that was asked of agents."""
    found = []
    real = module.ask

    def noted(calls, limit_s):
        found.append((sorted(calls), limit_s))
        return real(calls, limit_s)

    monkeypatch.setattr(module, "ask", noted)
    return found
