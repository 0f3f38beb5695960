"""Runs one stage: its crews begin together and are polled until all have ended; none delays the others."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from rigproof.cluster.driver.agents import Agents
from rigproof.cluster.driver.crews import CrewAtWork, begin_turn
from rigproof.cluster.driver.ground import Driving, Watch
from rigproof.cluster.driver.workers import Slot, Workers
from rigproof.cluster.ray.calls import FETCH_S, collect
from rigproof.devices.further import Further
from rigproof.devices.specs import Spec
from rigproof.host.cpu_band import HostLoad
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.records.crews import Turn
from rigproof.records.measurements import Stage

TICK_S = 0.5
# A beat is no longer than this share of its turn, whose end is noticed with the next beat.
TICK_SHARE, LEAST_TICK_S = 0.05, 0.1
# If a beat takes this much longer than it may, the driver itself stalled (SIGSTOP, a suspended machine, a
# disk that accepts no writes), and no one else counts as late because of it.
PAUSE_S = 2.0
HEAD_START_S = 0.1  # for the tasks to reach all workers; one that is late begins at once
LAST_CALL_S = 0.5
FURTHER = 100  # turns that a stage can ask for, after those of its plan
NO_ANSWER = "health check"  # as Ray words that a node did not answer its head: a wait, not an end

# Waits for the rest of a beat, given its length, the seconds spent so far, and whether a process is starting.
Pause = Callable[[float, float, bool], None]
Window = tuple[float | None, float | None]
NO_WINDOW: Window = (None, None)
Status = Literal["finished", "partial", "failed", "interrupted"]


class Polling:
    """The driver's beat: polls all agents and workers, takes their answers, and acts on missing ones.

    `paused_s` is how long the driver itself has stalled so far. `next_step` returns what brings back a lost
    node of that name.
    """

    def __init__(
        self,
        driving: Driving,
        agents: Agents,
        workers: Workers,
        watch: Watch,
        *,
        pause: Pause,
        next_step: Callable[[str], str],
    ) -> None:
        self.driving = driving
        self.agents = agents
        self.workers = workers
        self.paused_s = 0.0
        self.lost: set[str] = set()  # nodes
        self._watch = watch
        self._now_s = driving.now_s
        self._pause = pause
        self._next_step = next_step
        self._head_s = driving.timeouts.stall_s
        self._head_reported = False
        self._due_s: float | None = None  # when this beat must be over, unless the driver stalls

    def beat(self, length_s: float = TICK_S, working: Callable[[], bool] | None = None) -> None:
        """Poll for about `length_s` seconds, whether or not all agents and workers answer.

        If nobody is `working` any more, it ends at once.
        """
        begun_s = time.monotonic()
        if self._due_s is None:
            self._due_s = self._now_s() + length_s + FETCH_S + PAUSE_S
        self.gather(length_s)
        if not self._stalled():
            self._notice_lost_nodes()
            self._notice_silent_head()
            self.agents.check_silence()
            self.workers.check_progress()
        spent_s = time.monotonic() - begun_s
        self._due_s = self._now_s() + max(length_s, spent_s) + length_s + FETCH_S + PAUSE_S
        if working is None or working():
            self._pause(length_s, spent_s, self.workers.starting())

    def gather(self, timeout_s: float) -> None:
        """Poll all agents and workers once, and take the answers that come within `timeout_s`."""
        agents, workers = self.agents.pollers(), self.workers.pollers()
        for name, answer in collect(agents | workers, timeout_s, self._now_s()).items():
            if name in agents:
                self.agents.take(name, answer)
            else:
                self.workers.take(name, answer)
        self.agents.tell_steps()

    def until_up(self, on_tick: Callable[[], None] | None, length_s: float = TICK_S) -> None:
        """Wait, by beats of this length, for the workers that are starting; each has its own deadline."""
        self.rest()
        while self.workers.starting():
            self.beat(length_s)
            if on_tick is not None:
                on_tick()

    def rest(self) -> None:
        """Allow any time until the next beat begins: the driver is not expected to poll until then."""
        self._due_s = None

    def look_again(self, timeout_s: float) -> None:
        """List the nodes once more, since a worker may have been lost together with its node."""
        self._watch.look(timeout_s)
        self._notice_lost_nodes()

    def _stalled(self) -> bool:
        """Whether the driver stalled since the last beat; then every wait is restarted."""
        now_s = self._now_s()
        if self._due_s is None or now_s <= self._due_s:
            return False
        late_s = now_s - self._due_s + PAUSE_S
        self.paused_s += late_s
        self.agents.begin_anew(now_s)
        self.workers.begin_anew(now_s)
        self._watch.begin_anew(now_s)
        message = f"the driver itself stalled for about {late_s:.0f} s; no one else counts as late for that"
        self.driving.event("paused", "rig", message, paused_s=late_s)
        return True

    def _notice_silent_head(self) -> None:
        silent_s = self._watch.silent_s(self._now_s())
        if silent_s > self._head_s and not self._head_reported:
            self._head_reported = True
            message = f"the head of the cluster (Ray's GCS) has not answered for {silent_s:.0f} s"
            self.driving.event("timeout", "rig", message, limit_s=self._head_s)

    def _notice_lost_nodes(self) -> None:
        for node, reason in self._watch.news().items():
            self.lost.add(node)
            wait = {"limit_s": self._head_s} if NO_ANSWER in reason else {}
            message = f"the node is gone: {reason}"
            self.driving.event("node_lost", node, message, **wait, next_step=self._next_step(node))
            self.agents.lost(node)
            self.workers.lost(node, reason, **wait)


class StageRun:
    """One stage from beginning to end.

    `further` is asked between turns, once those of the plan are over: the next turn, by what was recorded so
    far, or None. Such a turn counts neither for the stage's status nor for its time under load.
    """

    def __init__(
        self,
        polling: Polling,
        plan: StagePlan,
        specs: Mapping[str, Spec],
        turns: Sequence[Turn],
        host_load: Mapping[str, HostLoad],
        *,
        ahead: Mapping[str, int] = {},
        lap: int = 1,
        further: Callable[[], Further | None] = lambda: None,
    ) -> None:
        self._polling = polling
        self._further = further
        self._planned_over = False  # all windows are known
        self._workers = polling.workers
        self._plan = plan
        self._specs = specs
        self._turns = turns
        self._host_load = host_load
        self._ahead = ahead
        self._lap = lap
        self._task_s = polling.driving.timeouts.task_s
        self._stop_s = polling.driving.timeouts.stop_s
        self._sink = polling.driving.sink
        self._now_s = polling.driving.now_s
        self._began: list[CrewAtWork] = []  # in this turn
        self._ever: dict[str, None] = {}  # workers that began, in any turn
        self._windows: list[Window] = []  # of the previous turns

    def run(self, on_tick: Callable[[], None] | None, should_stop: Callable[[], bool] | None) -> Stage:
        """Run the stage; returns it as recorded at its end. An exception (Ctrl-C) ends it as interrupted."""
        self._polling.agents.mark(self._plan.name)
        self._workers.begin_stage(self._plan.name)
        start_at_s = self._begin(self._turns[0])
        stage = Stage(
            name=self._plan.name,
            start_s=start_at_s,
            workers=tuple(self._ever),
            settings=self._settings(),
            lap=self._lap,
        )
        self._sink(stage)
        status: Status = "interrupted"
        try:
            status = self._all_turns(start_at_s, on_tick, should_stop)
            if status != "interrupted":
                self._windows.append(self._window())
                self._planned_over = True
                planned, status = status, "interrupted"
                if self._further_turns(on_tick, should_stop):
                    status = planned
        finally:
            stage = self._ended(stage, status)
        return stage

    def _begin(self, turn: Turn) -> float:
        """Let the crews of a turn begin; returns when they do, run time."""
        start_at_s, self._began = begin_turn(
            turn,
            self._specs,
            self._workers,
            self._polling.agents,
            self._polling.driving,
            head_start_s=HEAD_START_S,
            ahead=self._ahead,
        )
        self._ever |= dict.fromkeys(name for crew in self._began for name in crew.crew.workers)
        return start_at_s

    def _all_turns(
        self, start_at_s: float, on_tick: Callable[[], None] | None, should_stop: Callable[[], bool] | None
    ) -> Status:
        finished, loaded = 0, False
        for number, turn in enumerate(self._turns):
            if number:
                self._windows.append(self._window())
                self._polling.until_up(on_tick)  # those that were replaced in the previous turn
                start_at_s = self._begin(turn)
            if self._began and not loaded:
                loaded = True
                self._polling.agents.start_host_load(self._host_load)
            if not self._until_ended(start_at_s, on_tick, should_stop):
                return "interrupted"
            finished += sum(crew.finished for crew in self._began)
        if finished and finished == sum(map(len, self._turns)):
            return "finished"
        return "partial" if finished else "failed"

    def _further_turns(
        self, on_tick: Callable[[], None] | None, should_stop: Callable[[], bool] | None
    ) -> bool:
        """The turns that are asked for, by what the ones before them showed; False if one was aborted."""
        for _ in range(FURTHER):
            more = self._further()
            if more is None:
                break
            for event in more.events:
                self._sink(dataclasses.replace(event, t_s=self._now_s()))
            if not more.turn:
                break
            self._polling.until_up(on_tick)
            self._specs = more.specs
            if not self._until_ended(self._begin(more.turn), on_tick, should_stop):
                return False
        return True

    def _until_ended(
        self, start_at_s: float, on_tick: Callable[[], None] | None, should_stop: Callable[[], bool] | None
    ) -> bool:
        """Wait for the end of a turn; False if it was aborted."""
        planned_end_s, paused_before_s = start_at_s + self._turn_s, self._polling.paused_s
        tick_s = min(TICK_S, max(TICK_SHARE * self._turn_s, LEAST_TICK_S))
        shared = [crew for crew in self._began if len(crew.slots) > 1]
        self._polling.rest()
        while self._working():
            paused_s = self._polling.paused_s
            self._polling.beat(tick_s, working=self._working)
            if on_tick is not None:
                on_tick()
            if should_stop is not None and should_stop():
                self._stop_early()
                return False
            for crew in shared:
                if self._polling.paused_s > paused_s:
                    crew.begin_anew(self._now_s())
                if (event := crew.check(self._now_s())) is not None:
                    self._sink(event)
            if self._now_s() >= planned_end_s + self._task_s + self._polling.paused_s - paused_before_s:
                self._end_late()
        return True

    @property
    def _turn_s(self) -> float:
        return self._plan.expected_s / self._plan.turns

    def _stop_early(self) -> None:
        """Let the tasks end by themselves, for a while."""
        self._workers.stop_tasks()
        end_s = self._now_s() + self._stop_s / 2
        while self._working() and self._now_s() < end_s:
            self._polling.beat(working=self._working)

    def _end_late(self) -> None:
        """Kill the workers that still work past the deadline."""
        limit_s = self._turn_s + self._task_s
        for slot in self._slots():
            if slot.outcome == "none":
                message = f"{self._plan.name} did not end within {limit_s:.0f} s"
                self._workers.event("timeout", slot, message, limit_s=limit_s)
                self._workers.hung(slot, message, limit_s)

    def _ended(self, stage: Stage, status: Status) -> Stage:
        """End the stage and record it: whatever Ray does from here on, the stage is closed."""
        self._workers.stop_tasks()
        self._polling.agents.stop_host_load()
        self._polling.agents.unmark()
        if status != "interrupted":
            self._polling.gather(LAST_CALL_S)  # the agents' latest records
        if status in ("partial", "failed"):
            self._polling.look_again(self._stop_s / 8)
        last = () if self._planned_over else (self._window(),)
        windows = [window for window in (*self._windows, *last) if window != NO_WINDOW]
        stage = dataclasses.replace(
            stage,
            end_s=max(stage.start_s, self._now_s()),  # nobody may have taken it before its common start
            status=status,
            workers=tuple(self._ever),
            loaded_from_s=windows[0][0] if windows else None,
            loaded_to_s=windows[-1][1] if windows else None,
        )
        self._sink(stage)
        self._workers.stage = None
        return stage

    def _working(self) -> bool:
        return any(crew.working for crew in self._began)

    def _slots(self) -> list[Slot]:
        return [slot for crew in self._began for slot in crew.slots]

    def _window(self) -> Window:
        return loaded_window(self._slots())

    def _settings(self) -> dict[str, object]:
        return {
            "expected_s": self._plan.expected_s,
            "settle_s": self._plan.settle_s,
            "measure_s": self._plan.measure_s,
            "round_s": self._plan.round_s,
            "specs": {name: dataclasses.asdict(spec) for name, spec in self._specs.items()},
            "host_load": {node: dataclasses.asdict(load) for node, load in self._host_load.items()},
        }


def loaded_window(slots: list[Slot]) -> Window:
    """The run time in s with all workers under load: from the latest first round to the earliest end.

    Only workers that finished count, so a failed one does not shorten the others' window. NO_WINDOW if none
    finished, or if they were never under load together.
    """
    finished = [slot for slot in slots if slot.outcome == "finished" and slot.first_round_s is not None]
    if not finished:
        return NO_WINDOW
    from_s = max(slot.first_round_s for slot in finished if slot.first_round_s is not None)
    to_s = min(slot.finished_s for slot in finished if slot.finished_s is not None)
    return (from_s, to_s) if from_s < to_s else NO_WINDOW
