"""The workers as the driver sees them: started, polled, killed if they hang, replaced if they are lost."""

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rigproof.cluster.actors.messages import WorkerReply, WorkerSetup
from rigproof.cluster.driver.agents import Agents
from rigproof.cluster.driver.ground import Driving, Place
from rigproof.cluster.ray.calls import Gone, Poller
from rigproof.devices.specs import Spec
from rigproof.host.processes import ProcessId
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.records.black_box import step_of
from rigproof.records.crews import Member
from rigproof.records.measurements import Event, Round
from rigproof.records.message_text import not_loaded

NEVER_UP = "read in Ray's logs on that node what kept it from starting, correct that, and run again"
INSTALL = (
    "install on that node what the Python of its Ray lacks, change none of its files during a run, and run "
    "again"
)
# What is said of a process that a worker has started (`devices/own_process.py`); no card sends signal 9.
SIGKILLED = f"ended with status {-signal.SIGKILL:d}"
FIND_KILLER = (
    "find out who killed it (`sudo dmesg` names what the kernel's OOM killer ended; earlyoom, systemd-oomd "
    "and batch systems have logs of their own), and run again"
)
REPLACEMENTS = 1  # in each stage, so that a worker that dies at once is not replaced endlessly


# starting: its process or device is not ready yet. vacant: it has no process any more.
SlotState = Literal["starting", "ready", "working", "finished", "vacant"]


@dataclass(slots=True)
class Slot:
    """The place of one planned worker, which stays while processes that fill it are replaced."""

    plan: WorkerPlan
    poller: Poller | None = None
    setup: WorkerSetup | None = None  # what its process has not been told yet: which worker it is
    state: SlotState = "starting"
    generation: int = 0
    process: ProcessId | None = None
    since_s: float = 0.0  # when the process was requested
    replacements: int = 0  # in this stage
    replacing: str | None = None  # why the previous process was replaced, until the new one is ready
    task: int = 0
    progress: int = 0  # rounds and signs of life of the task
    progress_s: float = 0.0  # when the latest of them (or the task's beginning) was seen
    first_round_s: float | None = None
    last_round_s: float | None = None
    finished_s: float | None = None
    step: str = ""  # the work of its latest round, as sent to its node's agent
    outcome: Literal["none", "finished", "failed"] = "none"  # of the stage's task

    @property
    def pid(self) -> int | None:
        """The process id; None before the process's first answer and after its end."""
        return self.process.pid if self.process is not None else None


class Workers:
    """The slots of all planned workers. `stage` is the running stage's name, for events."""

    def __init__(self, driving: Driving, agents: Agents, kinds: StageKinds) -> None:
        self._driving = driving
        self._now_s = driving.now_s
        self._start_s = driving.timeouts.start_s
        self._stall_s = driving.timeouts.stall_s
        self._agents = agents
        self._kinds = kinds
        self._early: dict[str, Any] = {}  # actors without a slot, by worker
        self._groups: Mapping[str, Any] = {}
        self._group_cpus: Mapping[str, float] = {}
        self.slots: dict[str, Slot] = {}
        self.stage: str | None = None
        self.ever: set[ProcessId] = set()  # every worker process of this host; none may be left at the end

    def begin_start(self, plans: Iterable[WorkerPlan]) -> None:
        """Request the processes of these workers already; none of them has a GPU. `start` needs them."""
        self._early = {plan.worker: self._process(plan) for plan in plans}

    def start(
        self,
        plans: Sequence[WorkerPlan],
        groups: Mapping[str, Any],
        group_cpus: Mapping[str, float],
        first: Mapping[str, Any],
    ) -> None:
        """Request all workers; they start in parallel, and `take` notices when they are ready.

        The mappings are by subject. `first`: a process that is in the group already.
        """
        self._groups, self._group_cpus = groups, group_cpus
        self.slots.update((plan.worker, Slot(plan)) for plan in plans)
        spare = dict(first)
        for slot in self.slots.values():  # after all slots exist: those of a GPU share its reserved CPUs
            self._launch(slot, self._early.pop(slot.plan.worker, None) or spare.pop(slot.plan.subject, None))
        self._end_early()
        self._tell()

    def starting(self) -> bool:
        """Whether any worker is still starting."""
        return any(slot.state == "starting" for slot in self.slots.values())

    def pollers(self) -> dict[str, Poller]:
        """Pollers of all processes, by worker. One that is there by now is first told which worker it is."""
        self._tell()
        return {name: slot.poller for name, slot in self.slots.items() if slot.poller is not None}

    def take(self, worker: str, answer: WorkerReply | Gone) -> None:
        """Handle a worker's answer to a poll."""
        if isinstance(answer, Gone):
            self._gone(self.slots[worker], answer)
        else:
            self._answered(self.slots[worker], answer)

    def begin_stage(self, name: str) -> None:
        """Begin a stage, in which each worker may be replaced again."""
        self.stage = name
        for slot in self.slots.values():
            slot.replacements = 0

    def ready(self, worker: str) -> bool:
        slot = self.slots.get(worker)
        return slot is not None and slot.poller is not None and slot.state in ("ready", "finished")

    def begin(self, worker: str, spec: Spec, start_at_s: float, member: Member, *, ahead: int = 0) -> None:
        """Give a ready worker its task of the stage, and its place in a crew; `ahead` as `run_stage` says."""
        slot = self.slots[worker]
        assert slot.poller is not None
        slot.task += 1
        slot.progress, slot.outcome = 0, "none"
        slot.first_round_s = slot.last_round_s = slot.finished_s = None
        slot.step = ""
        slot.state, slot.progress_s = "working", start_at_s
        assert slot.poller.actor is not None
        slot.poller.actor.start.remote(slot.task, spec, start_at_s, member, ahead)

    def stop_tasks(self, slots: Iterable[Slot] | None = None) -> None:
        """Let the tasks of these slots, or of all, end after their current round, without waiting."""
        for slot in self.slots.values() if slots is None else slots:
            if slot.poller is not None and slot.poller.actor is not None and slot.state == "working":
                slot.poller.actor.stop.remote()

    def check_progress(self) -> None:
        """Kill and replace workers that have not answered, or not finished a round, for too long."""
        now_s = self._now_s()
        for slot in self.slots.values():
            if slot.poller is None:
                continue
            silent_s = slot.poller.silent_s(now_s)
            idle_s = now_s - slot.progress_s
            if slot.state == "starting":
                if now_s - slot.since_s > self._start_s:
                    self._start_timed_out(slot)
            elif silent_s > self._stall_s:
                self.hung(slot, f"no answer for {silent_s:.0f} s", self._stall_s)
            elif slot.state == "working":
                # Before its first round, the task fills memory and warms up: the start's limit applies.
                limit_s = self._stall_s if slot.progress else max(self._start_s, self._stall_s)
                if idle_s > limit_s:
                    self.hung(slot, f"no finished round for {idle_s:.0f} s", limit_s)

    def begin_anew(self, now_s: float) -> None:
        """Reset all deadlines: the driver itself was not polling until now."""
        for slot in self.slots.values():
            slot.progress_s = max(slot.progress_s, now_s)
            slot.since_s = max(slot.since_s, now_s)
            if slot.poller is not None:
                slot.poller.begin_anew(now_s)

    def hung(self, slot: Slot, why: str, limit_s: float) -> None:
        """Report, kill and replace a worker that makes no progress."""
        self.event("worker_hung", slot, f"{why}; rigproof ended it", limit_s=limit_s, pid=slot.pid)
        self._replace(slot, why)

    def lost(self, node: str, reason: str, **wait: float) -> None:
        """Note that a node is gone, and its workers with it; they cannot be replaced."""
        for slot in self.slots.values():
            if slot.plan.node == node and slot.poller is not None:
                self.event("worker_died", slot, f"its node is gone: {reason}", pid=slot.pid, **wait)
                self._vacate(slot)

    def event(self, kind: str, slot: Slot, message: str, **data: Any) -> None:
        """Record an event of this worker."""
        plan = slot.plan
        data = {**data, "generation": slot.generation}
        self._driving.sink(Event(self._now_s(), kind, plan.subject, message, self.stage, plan.worker, data))

    def end(self) -> None:
        """Kill all workers, without waiting."""
        self._end_early()
        for slot in self.slots.values():
            self._kill(slot)
            slot.poller, slot.state = None, "vacant"

    def _launch(self, slot: Slot, actor: Any = None) -> None:
        """Fill the slot with this actor, or with a new one."""
        plan = slot.plan
        slot.setup = WorkerSetup(plan, self._agents.links[plan.node].clock_offset_s, slot.generation)
        slot.since_s = self._now_s()
        actor = self._process(plan, slot.generation) if actor is None else actor
        slot.poller = Poller(actor, slot.since_s, self._driving.actors.kill)
        slot.state, slot.process = "starting", None

    def _process(self, plan: WorkerPlan, generation: int = 0) -> Any:
        """Request a process in the worker's place."""
        cpus = plan.cpus
        if plan.device == "cuda":
            sharing = sum(other.plan.subject == plan.subject for other in self.slots.values())
            cpus = min(cpus, self._group_cpus[plan.subject] / max(1, sharing))
        group = self._groups[plan.subject] if plan.device == "cuda" else None
        name = f"{self._driving.prefix}-worker-{plan.worker}-{generation}"
        found = self._agents.links[plan.node].found
        return self._driving.actors.worker(name, Place(found, group, plan.gpu_share, cpus, plan.memory))

    def _tell(self) -> None:
        """Tell the processes that are there which workers they are."""
        for slot in self.slots.values():
            if slot.setup is not None and slot.poller is not None and slot.poller.actor is not None:
                slot.poller.actor.become.remote(slot.setup)
                slot.setup = None

    def _end_early(self) -> None:
        """Kill the processes that got no slot, without waiting."""
        for actor in self._early.values():
            self._driving.kill(Poller(actor, self._now_s(), self._driving.actors.kill))
        self._early.clear()

    def _answered(self, slot: Slot, reply: WorkerReply) -> None:
        if slot.process is None:
            slot.process = reply.process
            if self._agents.links[slot.plan.node].found.here:
                self.ever.add(reply.process)
            self._agents.adopt(slot.plan.node, reply.process)
        for record in reply.records:
            if isinstance(record, Event) and record.kind == "oom":
                record = self._agents.with_holders(slot.plan.node, record)  # noqa: PLW2901 - in its place
            self._driving.sink(record)
            if isinstance(record, Round) and slot.state == "working":
                slot.first_round_s = slot.first_round_s or record.t_s
                slot.last_round_s = record.t_s
                self._note_step(slot, record)
        if slot.state == "starting":
            self._opened(slot, reply)
        elif slot.state == "working" and reply.task == slot.task:
            self._worked(slot, reply)

    def _note_step(self, slot: Slot, record: Round) -> None:
        """Note what a round's work was, for the node's agent, if it differs from that of the round before."""
        step = step_of(self._kinds.same_work(record.stage, record.labels))
        if step != slot.step:
            slot.step = step
            self._agents.note(slot.plan.node, slot.plan.worker, step)

    def _opened(self, slot: Slot, reply: WorkerReply) -> None:
        if reply.state == "ready":
            slot.state = "ready"
            if slot.replacing is not None:
                self.event(
                    "worker_replaced", slot, f"a new process took over: {slot.replacing}", pid=slot.pid
                )
                slot.replacing = None
        elif reply.state == "broken":
            disturbed = _no_fault(reply.error or "")
            message = f"its device did not open: {reply.error}"
            self.event("worker_failed", slot, message, error=reply.error, **disturbed)
            self._vacate(slot)

    def _worked(self, slot: Slot, reply: WorkerReply) -> None:
        if reply.progress > slot.progress:
            slot.progress, slot.progress_s = reply.progress, self._now_s()
        if reply.state == "finished":
            slot.state, slot.outcome = "finished", "finished"
            slot.finished_s = slot.last_round_s or self._now_s()
        elif reply.state == "failed":
            slot.outcome = "failed"
            disturbed = _no_fault(reply.error or "")
            message = f"its task failed: {reply.error}"
            self.event("worker_failed", slot, message, error=reply.error, **disturbed)
            # Some CUDA errors persist in the process, and so may its memory.
            self._replace(slot, "its task had failed")

    def _gone(self, slot: Slot, gone: Gone) -> None:
        never_up = slot.process is None and slot.state == "starting"
        remedy = gone.remedy or (NEVER_UP if never_up else "")
        disturbed = {"disturbed": remedy} if remedy else {}
        if slot.poller is not None and slot.poller.actor is None:  # never created: nor would another one be
            message = f"it was not started: {gone.reason}"
            self.event("worker_failed", slot, message, error=gone.reason, **disturbed)
            self._vacate(slot)
            return
        kind = "worker_failed" if never_up else "worker_died"
        message = f"the process is gone: {gone.reason}"
        self.event(kind, slot, message, error=gone.reason, pid=slot.pid, **disturbed)
        self._replace(slot, "the process was gone")

    def _start_timed_out(self, slot: Slot) -> None:
        limit_s = self._start_s
        if slot.process is None and slot.generation == 0:
            message = f"Ray found no room for {slot.plan.worker} ({slot.plan.cpus:g} CPUs) in {limit_s:g} s"
            self.event("gpu_taken", slot, message, limit_s=limit_s)
        else:
            message, setting = f"did not start in {limit_s:g} s", "timeouts.start_s"
            disturbed = {"disturbed": NEVER_UP} if slot.process is None else {}
            self.event("worker_hung", slot, message, limit_s=limit_s, setting=setting, **disturbed)
        self._vacate(slot)

    def _replace(self, slot: Slot, why: str) -> None:
        self._vacate(slot)
        if slot.replacements < REPLACEMENTS:
            slot.replacements += 1
            slot.generation += 1
            slot.replacing = why
            self._launch(slot)

    def _vacate(self, slot: Slot) -> None:
        self._kill(slot)
        slot.poller, slot.state, slot.process = None, "vacant", None
        if slot.outcome == "none":
            slot.outcome = "failed"

    def _kill(self, slot: Slot) -> None:
        if slot.process is not None:
            self._agents.kill(slot.plan.node, slot.process)
        if slot.poller is not None:
            self._driving.kill(slot.poller)


def _no_fault(error: str) -> dict[str, str]:
    """The remedy, as `data` of a failure, for an error that says nothing about hardware; empty for others."""
    if not_loaded(error):
        return {"disturbed": INSTALL}
    return {"disturbed": FIND_KILLER} if SIGKILLED in error else {}
