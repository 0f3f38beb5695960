"""Workers of a driver on a clock that is set by hand, with actors and agents that only take notes."""

from dataclasses import replace
from types import SimpleNamespace

from rigproof.cluster.actors.messages import WorkerReply
from rigproof.cluster.driver.agents import AgentLink
from rigproof.cluster.driver.ground import Driving
from rigproof.cluster.driver.workers import Workers
from rigproof.cluster.ray.matching import FoundNode
from rigproof.host.processes import ProcessId
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.rig import Timeouts
from rigproof.records.crews import Member
from rigproof.records.measurements import TFLOP, Round
from rigproof.stages.registry import KINDS

START_S, STALL_S = 60.0, 10.0
FIRST, SECOND, CPU = "pc1/gpu0#0", "pc1/gpu0#1", "pc2/cpu0#0"
PLANS = [
    WorkerPlan(FIRST, "pc1/gpu0", "pc1", "cuda", 0.5, 2.0, 64.0, 256),
    WorkerPlan(SECOND, "pc1/gpu0", "pc1", "cuda", 0.5, 2.0, 64.0, 256),
    WorkerPlan(CPU, "pc2/cpu0", "pc2", "cpu", 0.0, 3.0, 64.0, 256),
]


class Calls:
    """Stands for an actor: notes every call that it is sent; `poll` is never answered by itself."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, method):
        return SimpleNamespace(remote=lambda *arguments: self.calls.append((method, *arguments)) or object())


class Staff:
    """All workers of PLANS, on a clock that is set by hand, with agents and actors that only take notes."""

    def __init__(self, plans=PLANS, start_s=START_S, stall_s=STALL_S, cpus=4.0, early=(), first=None):
        self.now_s = 0.0
        self.events, self.records, self.made, self.killed, self.agent_calls = [], [], [], [], []
        self.steps = []
        links = {
            name: AgentLink(
                name, FoundNode(f"id-{name}", name, "10.0.0.1", name, 8, 1, here=name == "pc1"), None
            )
            for name in ("pc1", "pc2")
        }
        calls = self.agent_calls
        agents = SimpleNamespace(
            links=links,
            adopt=lambda node, process: calls.append(("adopt", node, process)),
            kill=lambda node, process: calls.append(("kill", node, process)),
            note=lambda node, worker, step: self.steps.append((node, worker, step)),
            with_holders=lambda node, event: replace(event, message=f"{event.message}, held on {node}"),
        )
        self.driving = Driving(
            "run",
            Timeouts(start_s=start_s, stall_s=stall_s, task_s=60.0, stop_s=10.0),
            lambda record: (self.records if isinstance(record, Round) else self.events).append(record),
            lambda: self.now_s,
            SimpleNamespace(worker=self._make, kill=self.killed.append),
        )
        self.workers = Workers(self.driving, agents, KINDS)
        self.workers.stage = "sustained"
        self.workers.begin_start(early)
        self.workers.start(plans, {"pc1/gpu0": "group"}, {"pc1/gpu0": cpus}, first or {})

    def _make(self, name, place):
        actor = Calls()
        self.made.append((name, place, actor))
        return actor

    def slot(self, worker=FIRST):
        return self.workers.slots[worker]

    def answers(self, worker=FIRST, state="working", progress=0, records=(), error=None, task=None, pid=None):
        """One answer of a worker to a poll."""
        slot, poller = self.slot(worker), self.workers.pollers()[worker]
        process = ProcessId(pid or 100 + slot.generation, 1)
        number = slot.task if task is None else task
        reply = WorkerReply(process, state, number, progress, tuple(records), error)
        self.workers.take(worker, poller.take(reply, self.now_s))

    def works(self, worker=FIRST, begin_s=0.0):
        """It is up, and has its task."""
        self.answers(worker, "ready")
        assert self.workers.ready(worker)
        self.workers.begin(worker, "spec", begin_s, Member(self.slot(worker).plan.subject))

    def check_at(self, now_s):
        self.now_s = now_s
        self.workers.check_progress()

    def kinds(self):
        return [event.kind for event in self.events]


def done_round(t_s, worker=FIRST):
    return Round(
        t_s,
        "sustained",
        worker,
        "pc1/gpu0",
        "measure",
        0.5,
        1.0,
        TFLOP,
        True,
        {"precision": "bf16", "size": 256},
    )
