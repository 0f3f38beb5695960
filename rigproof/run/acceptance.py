"""One acceptance run: open the rig, run the stages that are needed, read the counters, close the rig."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

from rigproof.cluster.driver.rig_cluster import RigCluster
from rigproof.devices.further import Further
from rigproof.host.cpu_band import HostLoad
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan, WorkerPlan
from rigproof.profiles.planning.subjects import RIG, turns_of, without, without_lost
from rigproof.records.crews import Turn
from rigproof.records.measurements import Event, Stage
from rigproof.records.message_text import error_text
from rigproof.records.recording import Record, Recording, Sample
from rigproof.run.planned_load import planned_load, processes_ahead
from rigproof.stages.kind import StageKind, StageWork
from rigproof.stages.registry import KINDS

Sink = Callable[[Record | Sample], None]


class AcceptanceRun:
    """Opens the `cluster` for a run, and closes it. Each stage runs in the plan's order, once in each lap.

    `another_attempt` is called with the name of each stage that has ended, if there is only one lap. It
    returns why the stage must be attempted once more, and is asked again after that, or an empty text. `sink`
    adds to `recording`. `needed` are the names of the stages that will be judged. `on_tick` is called twice
    a second or more often while a stage runs.
    """

    def __init__(
        self,
        loaded: LoadedRig,
        plan: Plan,
        recording: Recording,
        sink: Sink,
        cluster: RigCluster,
        *,
        needed: Collection[str],
        now_s: Callable[[], float],
        on_tick: Callable[[], None],
        another_attempt: Callable[[str], str],
    ) -> None:
        self._loaded = loaded
        self._plan = plan
        self.recording = recording
        self._sink = sink
        self._needed = needed
        self._on_tick = on_tick
        self._now_s = now_s
        self._another_attempt = another_attempt
        self._counted = False
        self.cluster = cluster

    def __enter__(self) -> Self:
        self.cluster.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()

    def stage(self, name: str) -> Stage | None:
        """Run the stage, after the needed ones before it. None if the plan has no such stage.

        Of a plan of several laps, all are run first: each stage is judged by all its laps.
        """
        if self._plan.laps > 1:
            self._all_laps()
        for planned in self._plan.stages:
            wanted = planned.name == name or planned.name in self._needed
            if wanted and planned.name not in self.recording.stages:
                self._run(planned)
                while self._plan.laps == 1 and (reason := self._another_attempt(planned.name)):
                    self._sink(Event(self._now_s(), "measured_again", "rig", reason, planned.name))
                    self._run(planned)
            if planned.name == name:
                break
        return self.recording.stages.get(name)

    def _all_laps(self) -> None:
        """Run the needed stages in each lap; no lap follows one in which no stage did anything."""
        done = {(one.name, one.lap) for one in self.recording.attempts}
        needed = [one for one in self._plan.stages if one.name in self._needed]
        for lap in range(1, self._plan.laps + 1):
            for planned in needed:
                if (planned.name, lap) not in done:
                    self._run(planned, lap)
            if all(one.status == "failed" for one in self.recording.stages.values()):
                break

    def finished(self) -> Recording:
        """Measure everything: all needed stages, then the error counters once more."""
        for planned in self._plan.stages:
            if planned.name in self._needed:
                self.stage(planned.name)
        if not self._counted:
            self._counted = True
            self.cluster.read_counters("after")
        return self.recording

    def _run(self, planned: StagePlan, lap: int = 1) -> None:
        stage = KINDS[planned.name]
        cpus = {name: node.cpus for name, node in self.recording.nodes.items()}
        turns = turns_of(stage.crew, self._loaded, self._workers_for(stage))
        gpus = self.recording.gpus
        if stage.exchanges:
            pairs_alone = stage.crew == "neighbours"  # a bad one spoils nobody else's copies there
            turns, apart = self._without_some(planned.name, turns, {} if pairs_alone else self._blamed())
            gpus = {subject: gpu for subject, gpu in gpus.items() if subject not in apart}
        members = {name for turn in turns for crew in turn for name in crew.workers}
        work = StageWork(self._loaded, self._plan, planned, cpus, gpus)
        specs = stage.specs(work)
        self.cluster.run_stage(
            planned,
            {name: spec for name, spec in specs.items() if name in members},
            turns,
            lap=lap,
            further=lambda: self._further(stage, work),
            host_load=self._host_load() if stage.host_load else None,
            ahead=processes_ahead(self._loaded, self._plan, self._later(planned)),
            on_tick=self._on_tick,
        )

    def _without_some(
        self, stage: str, turns: Sequence[Turn], blamed: Mapping[str, str]
    ) -> tuple[tuple[Turn, ...], Collection[str]]:
        """The turns without the devices that are to blame, and without those that are lost; and all these."""
        turns = without(blamed, turns)
        whole = [crew for turn in turns for crew in turn]
        lost = self._lost({name for crew in whole for name in crew.workers})
        turns = without_lost(lost, turns)
        left = [crew for turn in turns for crew in turn]
        absent = {
            name.rpartition("#")[0]: lost[name]
            for before, after in zip(whole, left, strict=True)
            for name in before.workers
            if name not in after.workers
        }
        apart = {**blamed, **absent}
        for device, why in apart.items():
            said = f"{stage} exchanges data without it: {why}"
            data = {"lost": device in absent}
            self._sink(Event(self._now_s(), "set_apart", device, said, stage, data=data))
        return turns, apart

    def _lost(self, names: Collection[str]) -> dict[str, str]:
        """Those of these workers that have no process, or whose GPU does not answer any more, and which."""
        ready = self.cluster.ready(self._on_tick)
        deaf = {one.subject for one in self.recording.events if one.kind == "gpu_lost"}
        found = {name: f"there is no process of {name}" for name in names if name not in ready}
        device_of = {name: name.rpartition("#")[0] for name in names}
        return found | {name: f"{one} does not answer" for name, one in device_of.items() if one in deaf}

    def _later(self, planned: StagePlan) -> list[StageKind[Any]]:
        """The stages after this one that will be judged."""
        names = self._plan.stage_names
        return [KINDS[name] for name in names[names.index(planned.name) + 1 :] if name in self._needed]

    def _further(self, kind: StageKind[Any], work: StageWork) -> Further | None:
        """What the stage asks for; a mistake in that must not cost what was measured."""
        try:
            return None if kind.further is None else kind.further(work, self.recording)
        except Exception as error:
            message = f"looking for who is to blame failed: {error_text(error)}"
            return Further(events=(Event(0.0, "not_told", RIG, message, kind.name),))

    def _blamed(self) -> dict[str, str]:
        """The devices that would spoil what others exchange with them, and what an earlier stage said."""
        blamed = (one for one in self.recording.events if one.kind == "blamed")
        return {str(device): one.message for one in blamed for device in one.data.get("apart", ())}

    def _workers_for(self, kind: StageKind[Any]) -> Sequence[WorkerPlan]:
        """All planned workers; where one stands for its node, those that can take a task come first.

        So a node is measured although its first card was lost.
        """
        workers = self._plan.workers
        if not kind.by_node:
            return workers
        ready = self.cluster.ready(self._on_tick)
        return sorted(workers, key=lambda one: one.worker not in ready)

    def _host_load(self) -> dict[str, HostLoad]:
        nodes = self.recording.nodes.items()
        loads = {name: planned_load(self._loaded, name, node.cpus) for name, node in nodes}
        return {name: load for name, load in loads.items() if load is not None}
