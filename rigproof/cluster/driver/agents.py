"""The agents as the driver sees them: started, polled, restarted once, and ended."""

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import rigproof
from rigproof.cluster.actors.messages import AgentDuty, AgentFacts, AgentReply
from rigproof.cluster.driver.ground import Driving
from rigproof.cluster.ray.calls import Gone, Poller, ask
from rigproof.cluster.ray.matching import FoundNode
from rigproof.host import processes
from rigproof.host.cpu_band import HostLoad
from rigproof.host.processes import ProcessId
from rigproof.host.run_lock import Claim
from rigproof.records.identity import NodeIdentity
from rigproof.records.measurements import Event, ForeignMemory
from rigproof.records.processes import GpuProcess, holding
from rigproof.records.recording import Record, Sample

MARK_LIMIT_S = 3.0  # longer than an agent itself waits for its disk
PORTS_LIMIT_S = 3.0
ROUND_TRIPS = 7
ROUND_TRIP_S = 2.0
RESTARTS = 1
NEVER_STARTED = "read in Ray's logs on that node what kept it from starting, correct that, and run again"


@dataclass(slots=True)
class AgentLink:
    """The driver's view of one node's agent, and what a new agent of that node has to be given.

    `poller` is None while there is no agent. `briefed`: whether the agent has got its duty.
    """

    node: str
    found: FoundNode
    poller: Poller | None
    process: ProcessId | None = None
    identity: NodeIdentity | None = None
    duty: AgentDuty | None = None
    load: HostLoad | None = None
    starts: int = 1
    briefed: bool = False
    workers: set[ProcessId] = field(default_factory=set)
    stage: tuple[str, float] | None = None  # the current stage, and since when (run time)
    steps: dict[str, str] = field(default_factory=dict)  # of its workers, not yet sent to it

    @property
    def actor(self) -> Any | None:
        """The actor to call; None while there is none."""
        return self.poller.actor if self.poller is not None else None

    @property
    def clock_offset_s(self) -> float:
        """Seconds to add to the node's monotonic clock to get run time."""
        return self.identity.clock_offset_s if self.identity is not None else 0.0

    def identify(self, facts: AgentFacts, offset_s: float, error_s: float) -> NodeIdentity:
        """Keep the node's identity as its agent found it, and its clock's offset from run time."""
        self.identity = NodeIdentity(
            subject=self.node,
            hostname=facts.hostname,
            address=self.found.address,
            cpus=facts.cpus,
            ram_gib=facts.ram_gib,
            os=facts.os,
            python_version=facts.python_version,
            ray_version=facts.ray_version,
            torch_version=facts.torch_version,
            driver_version=facts.driver_version,
            nvml_error=facts.nvml_error,
            agent_pid=facts.process.pid,
            clock_offset_s=offset_s,
            clock_error_s=error_s,
            cpu_model=facts.cpu_model,
            driver_cuda=facts.driver_cuda,
            **({} if facts.offers is None else asdict(facts.offers)),
        )
        return self.identity


class Agents:
    """All nodes' agents. `foreign`: how much memory others hold, as they read it last, by subject."""

    def __init__(self, driving: Driving) -> None:
        self._driving = driving
        self._now_s = driving.now_s
        self._start_s = driving.timeouts.start_s
        self._stall_s = driving.timeouts.stall_s
        self._stop_s = driving.timeouts.stop_s
        self._claim: Claim | None = None  # for which the agents hold their hosts' locks
        self.links: dict[str, AgentLink] = {}
        self.foreign: dict[str, ForeignMemory] = {}
        self._processes: dict[str, dict[int, GpuProcess]] = defaultdict(dict)  # by the GPU's subject, and pid
        self._unfinished: set[tuple[str, object]] = set()  # earlier runs that were reported, with their nodes
        self.ever: set[ProcessId] = set()  # every agent process of this host, to be gone at the end

    def begin_start(self, nodes: Mapping[str, FoundNode]) -> None:
        """Request one agent per node. `start` waits for them."""
        for name, found in nodes.items():
            self.links[name] = AgentLink(name, found, None)
            self.links[name].poller = self._poller(self.links[name])

    def start(
        self, with_gpu: Collection[str], last_lines: Callable[[], str] = lambda: ""
    ) -> dict[str, AgentFacts]:
        """Wait for the agents. Returns the facts of those that started, by node.

        An "agent_died" event reports each other one. `with_gpu` are the nodes that promise a GPU and so need
        a driver. `last_lines`: what Ray's own processes wrote about it, if they are ours.
        """
        end_s = self._now_s() + self._start_s
        pollers = {name: link.poller for name, link in self.links.items() if link.poller is not None}
        there = [name for name, poller in pollers.items() if poller.wait(max(0.0, end_s - self._now_s()))]
        calls = {
            name: self._call(self.links[name], "facts", name, name in with_gpu, self._start_s / 4)
            for name in there
        }
        refused = {name: gone for name, poller in pollers.items() if (gone := poller.refused()) is not None}
        answers = refused | ask(calls, max(self._start_s / 4, end_s - self._now_s()))
        facts = {name: answer for name, answer in answers.items() if isinstance(answer, AgentFacts)}
        for name, link in self.links.items():
            if name in facts and facts[name].rigproof_version != rigproof.__version__:
                other = facts.pop(name).rigproof_version
                way_out = f"install rigproof=={rigproof.__version__} there"
                self._give_up(link, f"{name} has rigproof {other}", way_out)
            elif name in facts:
                self._identify(link, facts[name])
            elif link.poller is not None:
                answer = answers.get(name)
                gone = answer if isinstance(answer, Gone) else Gone(f"no answer in {self._start_s:g} s")
                said = last_lines()
                message = f"the node agent did not start: {gone.reason}" + (f" ({said})" if said else "")
                self._give_up(link, message, gone.remedy or NEVER_STARTED)
        return {name: found for name, found in facts.items() if self.links[name].identity is not None}

    def take_hosts(self, claim: Claim, limit_s: float) -> dict[str, Claim | str]:
        """Take the locks of all hosts for this run, or none. Returns the runs that have some, by node."""
        links = {node: link for node, link in self.links.items() if link.actor is not None}
        answers = ask({node: self._call(link, "take_host", claim) for node, link in links.items()}, limit_s)
        held = {node: answer for node, answer in answers.items() if isinstance(answer, Claim | str)}
        if held:
            ask({node: self._call(link, "let_go_of_host") for node, link in links.items()}, limit_s)
        self._claim = None if held else claim
        self.begin_anew(self._now_s())  # nobody was polled while this run waited
        return held

    def begin(self, duties: Mapping[str, AgentDuty], limit_s: float) -> frozenset[str]:
        """Let the agents sample. Returns the subjects whose Xids are received."""
        calls = {}
        for node, duty in duties.items():
            link = self.links[node]
            link.duty = duty
            if link.actor is not None:
                link.briefed = True
                calls[node] = self._call(link, "begin", duty)
        answers = ask(calls, limit_s).values()
        return frozenset[str]().union(*(answer for answer in answers if isinstance(answer, frozenset)))

    def read(self, query: Literal["counters", "foreign_memory"], argument: Any, limit_s: float) -> None:
        """Let every agent read its GPUs once; the records come with the polls that follow."""
        calls = {
            node: self._call(link, query, argument, limit_s / 2)
            for node, link in self.links.items()
            if link.actor is not None
        }
        ask(calls, limit_s)

    def mark(self, stage: str) -> None:
        """Let every node note this stage on its own disk, before anything of it begins there."""
        calls = {}
        now_s = self._now_s()
        for node, link in self.links.items():
            link.stage, link.steps = (stage, now_s), {}
            if link.briefed and link.actor is not None:
                calls[node] = self._call(link, "mark", stage, now_s)
        ask(calls, MARK_LIMIT_S)

    def unmark(self) -> None:
        """Tell every node, without waiting, that the stage is over."""
        for link in self.links.values():
            if link.stage is not None:
                link.stage = None
                if link.briefed and link.actor is not None:
                    self._call(link, "mark", None, self._now_s())

    def note(self, node: str, worker: str, step: str) -> None:
        """Note the work of a worker's latest round, for `tell_steps` to send to the node's agent."""
        self.links[node].steps[worker] = step

    def tell_steps(self) -> None:
        """Send the agents what was noted since the last time, without waiting."""
        for link in self.links.values():
            steps, link.steps = link.steps, {}
            if steps and link.briefed and link.actor is not None:
                self._call(link, "doing", steps)

    def came_back(self, nodes: Mapping[str, FoundNode], run_id: str, limit_s: float) -> None:
        """Ask these nodes, which were lost and have returned, whether they restarted in between."""
        now_s = self._now_s()
        pollers = {
            name: self._poller_of(f"{self._driving.prefix}-back-{name}", name, found)
            for name, found in nodes.items()
        }
        end_s = time.monotonic() + limit_s
        calls = {}
        for name, poller in pollers.items():
            actor = poller.wait(max(0.0, end_s - time.monotonic()))
            if actor is not None:
                calls[name] = actor.came_back.remote(name, run_id, now_s)
        for answer in ask(calls, max(1.0, end_s - time.monotonic())).values():
            self._hear(answer if isinstance(answer, tuple) else ())
        for poller in pollers.values():
            self._driving.kill(poller)

    def free_ports(self, wanted: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], tuple[int, ...]]:
        """Free ports by (node, an address of it), as many as `wanted` says for each.

        Nodes that did not answer in time are left out.
        """
        calls = {
            place: self._call(link, "free_ports", place[1], count)
            for place, count in wanted.items()
            if (link := self.links[place[0]]).actor is not None
        }
        answers = ask(calls, PORTS_LIMIT_S)
        return {place: answer for place, answer in answers.items() if isinstance(answer, tuple)}

    def pollers(self) -> dict[str, Poller]:
        """Pollers of all agents that are to be polled, by node. One that started late first gets its duty."""
        for link in self.links.values():
            if link.actor is not None and not link.briefed:
                self._brief(link)
        return {node: link.poller for node, link in self.links.items() if link.poller is not None}

    def take(self, node: str, answer: AgentReply | Gone) -> None:
        """Deal with the answer of a node's agent to a poll."""
        if isinstance(answer, Gone):
            self._died(self.links[node], answer)
        else:
            self._came_up(self.links[node], answer.process)
            self._hear(answer.records)

    def with_holders(self, node: str, event: Event) -> Event:
        """An "oom" event of this node, with the other processes that hold the device's memory.

        They are added to its message and as `data.holders`, as far as they are known by now. None is named if
        the driver's pids differ from those our workers see, as in a container.
        """
        pids = {process.pid for process in self.links[node].workers}
        listed = self._processes[event.subject].values()
        others = [one for one in listed if not one.belongs_to(pids)]
        holders = holding(others) if len(others) < len(listed) else ""
        if not holders:
            return event
        data = event.data | {"holders": holders}
        return dataclasses.replace(event, message=f"{event.message}; {holders}", data=data)

    def check_silence(self) -> None:
        """Give up agents that have not answered for too long."""
        now_s = self._now_s()
        for link in self.links.values():
            limit_s = self._stall_s if link.process is not None else self._start_s
            if link.poller is not None and link.poller.silent_s(now_s) > limit_s:
                self._died(link, Gone(f"no answer for {limit_s:g} s"), limit_s=limit_s)

    def lost(self, node: str) -> None:
        """Note that a node is gone, and its agent with it."""
        self.links[node].poller = None

    def start_host_load(self, loads: Mapping[str, HostLoad]) -> None:
        """Hold the CPUs of these nodes in their band from now on."""
        for node, load in loads.items():
            link = self.links.get(node)
            if link is not None:
                link.load = load
                if link.briefed and link.actor is not None:
                    self._call(link, "start_host_load", load)

    def stop_host_load(self) -> None:
        """End every CPU load."""
        for link in self.links.values():
            if link.load is not None:
                link.load = None
                if link.actor is not None:
                    self._call(link, "stop_host_load")

    def adopt(self, node: str, process: ProcessId) -> None:
        """Tell an agent that a worker started there, which it may kill."""
        link = self.links[node]
        link.workers.add(process)
        if link.briefed and link.actor is not None:
            self._call(link, "adopt", process)

    def kill(self, node: str, process: ProcessId) -> None:
        """SIGKILL a worker of ours, by its agent and, on this host, directly, without waiting."""
        link = self.links[node]
        if link.actor is not None:
            self._call(link, "kill", process)
        if link.found.here:
            processes.kill(process)

    def finish(self) -> dict[str, Any]:
        """Let all agents end their work. Returns the calls, by node, for `finished`."""
        return {
            node: self._call(link, "finish", self._stop_s / 8)
            for node, link in self.links.items()
            if link.actor is not None
        }

    def finished(self, calls: dict[str, Any], limit_s: float) -> None:
        """Take the last records of agents that were told to finish."""
        for answer in ask(calls, limit_s).values():
            self._hear(answer.records if isinstance(answer, AgentReply) else ())

    def end(self) -> None:
        """Kill all agents, without waiting."""
        for link in self.links.values():
            if link.poller is not None:
                self._kill_agent(link, link.poller)
                link.poller = None

    def begin_anew(self, now_s: float) -> None:
        """Reset all deadlines: the driver itself was not polling until now."""
        for link in self.links.values():
            if link.poller is not None:
                link.poller.begin_anew(now_s)

    def _hear(self, records: Iterable[Record | Sample]) -> None:
        """Pass on what agents report, and keep what the driver needs of it.

        An agent marks an earlier run as reported only when it ends in an orderly way. Until then a second
        agent of the node, which replaces the first or asks a node that came back, finds that run again: it is
        passed on once. If the host has restarted in between, the second agent takes a run that was killed for
        one that the host did not survive.
        """
        for record in records:
            match record:
                case Event(kind="unfinished_run"):
                    run = record.subject, record.data.get("run_id")
                    if run in self._unfinished:
                        continue
                    self._unfinished.add(run)
                case GpuProcess(gone=True):
                    self._processes[record.subject].pop(record.pid, None)
                case GpuProcess():
                    self._processes[record.subject][record.pid] = record
                case ForeignMemory():
                    self.foreign[record.subject] = record
            self._driving.sink(record)

    def _poller(self, link: AgentLink) -> Poller:
        name = f"{self._driving.prefix}-agent-{link.node}-{link.starts}"
        return self._poller_of(name, link.node, link.found)

    def _poller_of(self, name: str, node: str, found: FoundNode) -> Poller:
        actors = self._driving.actors
        return Poller(actors.agent(name, node, found.node_id), self._now_s(), actors.kill)

    def _brief(self, link: AgentLink) -> None:
        """Give a restarted agent what its predecessor knew."""
        if link.duty is not None:
            link.briefed = True
            if self._claim is not None:
                self._call(link, "take_host", self._claim)
            self._call(link, "begin", link.duty)
            for worker in link.workers:
                self._call(link, "adopt", worker)
            if link.load is not None:
                self._call(link, "start_host_load", link.load)
            if link.stage is not None:
                self._call(link, "mark", *link.stage)

    @staticmethod
    def _call(link: AgentLink, method: str, *arguments: Any) -> Any:
        assert link.actor is not None
        return getattr(link.actor, method).remote(*arguments)

    def _identify(self, link: AgentLink, facts: AgentFacts) -> None:
        round_trips = []
        for _ in range(ROUND_TRIPS):
            sent_s = self._now_s()
            answer = ask({"clock": self._call(link, "clock")}, ROUND_TRIP_S).get("clock")
            if isinstance(answer, float):
                round_trips.append(RoundTrip(sent_s, self._now_s(), answer))
        if not round_trips:
            self._give_up(link, "the node agent did not report its clock", NEVER_STARTED)
            return
        offset_s, error_s = clock_offset(round_trips)
        self._came_up(link, facts.process)
        self._driving.sink(link.identify(facts, offset_s, error_s))

    def _came_up(self, link: AgentLink, process: ProcessId) -> None:
        if link.process == process:
            return
        link.process = process
        if link.found.here:
            self.ever.add(process)
        if link.identity is not None:  # a restarted agent
            link.identity = dataclasses.replace(link.identity, agent_pid=process.pid)
            self._driving.sink(link.identity)

    def _died(self, link: AgentLink, gone: Gone, **data: float) -> None:
        assert link.poller is not None
        self._give_up(link, f"the node agent is gone: {gone.reason}", gone.remedy, **data)
        if link.starts > RESTARTS or link.duty is None:
            return
        link.starts += 1
        link.poller = self._poller(link)

    def _give_up(self, link: AgentLink, message: str, remedy: str, **more: float) -> None:
        """Report an agent as gone. `remedy`: what to do about it, if it is no fault of the rig."""
        data = {"node": link.node, "starts": link.starts, **more} | ({"disturbed": remedy} if remedy else {})
        self._driving.event("agent_died", link.node, message, **data)
        if link.poller is not None:
            self._kill_agent(link, link.poller)
        link.poller = None
        link.process = None
        link.briefed = False

    def _kill_agent(self, link: AgentLink, poller: Poller) -> None:
        if link.found.here and link.process is not None:
            processes.kill(link.process)
        self._driving.kill(poller)


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Run time when a request was sent and answered, and the other clock as read in between."""

    sent_s: float
    answered_s: float
    remote_s: float


def clock_offset(round_trips: Iterable[RoundTrip]) -> tuple[float, float]:
    """(offset, error): run time = the other clock + offset ± error, both in seconds.

    Taken from the shortest round trip: the other clock was read in its middle, give or take half its length
    (Cristian's algorithm, 1989). ValueError without a reading.
    """
    best = min(round_trips, key=lambda one: one.answered_s - one.sent_s)
    middle_s = (best.sent_s + best.answered_s) / 2
    return middle_s - best.remote_s, (best.answered_s - best.sent_s) / 2
