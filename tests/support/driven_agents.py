"""Agents of a driver on a clock that is set by hand, whose actors give what they were told to give."""

from types import SimpleNamespace

import rigproof
from rigproof.cluster.actors.messages import AgentDuty, AgentFacts, AgentReply
from rigproof.cluster.driver.agents import Agents
from rigproof.cluster.driver.ground import Driving
from rigproof.cluster.ray.calls import Gone, LocalCall
from rigproof.cluster.ray.matching import FoundNode
from rigproof.host.cpu_band import HostLoad
from rigproof.host.processes import ProcessId
from rigproof.profiles.tables.rig import Timeouts
from rigproof.records.measurements import Event

START_S, STALL_S, STOP_S = 60.0, 10.0, 8.0
TIMEOUTS = Timeouts(start_s=START_S, stall_s=STALL_S, stop_s=STOP_S, task_s=60.0)
LOAD = HostLoad(6, 1, 77.5)
WORKER = ProcessId(500, 1)


def facts(pid=7, version=rigproof.__version__):
    return AgentFacts(
        ProcessId(pid, 1), "host", 8, 64.0, "Linux", "3.11", "2.60", version, "2.13", "580", None, ()
    )


class Agent:
    """Stands for an agent's actor: notes every call, and gives what it was told to give."""

    def __init__(self, given):
        self.every_call = []
        self.given = {"facts": facts(), "clock": 5.0, "begin": frozenset(), **given}

    def __getattr__(self, method):
        def remote(*arguments):
            self.every_call.append((method, *arguments))
            answer = self.given.get(method)
            if isinstance(answer, list):
                answer = answer.pop(0) if answer else None
            return answer if isinstance(answer, LocalCall) else LocalCall(answer)

        return SimpleNamespace(remote=remote)

    def calls(self, method):
        return [arguments for name, *arguments in self.every_call if name == method]


class Team:
    """Agents of pc1 (this host) and pc2, on a clock that is set by hand."""

    def __init__(self, **given):
        self.now_s = 0.0
        self.records, self.made, self.killed, self.given = [], [], [], given
        actors = SimpleNamespace(agent=self._make, kill=self.killed.append)
        self.driving = Driving("run", TIMEOUTS, self.records.append, lambda: self.now_s, actors)
        self.agents = Agents(self.driving)
        self.nodes = {
            name: FoundNode(f"id-{name}", name, "10.0.0.1", name, 8, 1, here=name == "pc1")
            for name in ("pc1", "pc2")
        }

    def _make(self, name, node, node_id):
        actor = Agent(self.given.get(node, {}))
        self.made.append((name, node, node_id, actor))
        return actor

    def start(self):
        self.agents.begin_start(self.nodes)
        return self.agents.start({"pc1"})

    def link(self, node="pc1"):
        return self.agents.links[node]

    def actor(self, node="pc1"):
        return self.link(node).actor

    def answers(self, node="pc1", pid=7, records=()):
        poller = self.agents.pollers()[node]
        self.agents.take(node, poller.take(AgentReply(ProcessId(pid, 1), records), self.now_s))

    def ends(self, node="pc1", gone=None):
        self.agents.take(node, gone or Gone("exit code 9"))

    def silent_at(self, now_s):
        self.now_s = now_s
        self.agents.check_silence()

    @property
    def deaths(self):
        return [one for one in self.records if isinstance(one, Event)]


def duty(node):
    return AgentDuty(node, 0.0, 10.0, 5.0, {})
