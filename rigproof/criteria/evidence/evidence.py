"""What criteria see: a Recording and its profile, indexed once, with a slice for each device and node.

Everything is indexed when first asked for, and in linear time: a soak has some 300,000 samples, five minutes
of 16,384 GPUs have five million. What was read from files is made of columns subject by subject, and let go.
Whatever is missing raises NotMeasured with the reason, so that a criterion cannot pass by leaving it out.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter, sub
from typing import Any, TypeVar, cast, get_args

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.criteria.evidence.rounds import Rounds, RoundTable
from rigproof.criteria.evidence.series import Item, Series, series_of
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.criteria.evidence.subjects import DeviceEvidence, NodeEvidence
from rigproof.criteria.evidence.windows import LONGEST_S, Window
from rigproof.profiles.errors import ProfileError, problem
from rigproof.profiles.kinds.stages import Duty, StageKinds
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.planning.recorded import PlanError, differing, restored
from rigproof.profiles.subjects import SharedScope, subjects
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.champions import Champions, recorded_champions
from rigproof.records.identity import WorkerIdentity
from rigproof.records.measurements import BootReading, Event, GpuCounters, MemoryReading, Stage
from rigproof.records.recording import Recording, StageRecord
from rigproof.records.samples import GpuSample, HostSample
from rigproof.records.telling import shortened

Made = TypeVar("Made")
Kept = TypeVar("Kept", bound=StageRecord)

SHORTEST_LOAD_S = 1.0  # rates and shares are taken over windows of 1 s
# Between two readings; 0.12 s was the longest at 10 Hz on H100 and H200. The second holds for a slow grid.
LONGEST_GAP_S, GAP_STEPS = 2.0, 3
ENDED = ("finished", "partial", "failed")  # a stage that was not broken off


class Evidence:
    """A Recording with the profile that it is judged by, and the champions that floors come from.

    These are the ones that the run recorded, unless others are given; an empty mapping: none. `planned_by`:
    the profile that the run was planned by, where it is judged by another one.
    """

    def __init__(
        self,
        recording: Recording,
        loaded: LoadedRig,
        champions: Champions | None = None,
        planned_by: LoadedRig | None = None,
    ) -> None:
        self.recording = recording
        self.loaded = loaded
        self.planned_by = planned_by if planned_by is not None else loaded
        self._champions = champions
        # What counts of a stage that was measured once more: rounds that ended from then until then.
        self._spans = {name: (recording.stages[name].start_s, math.inf) for name in recording.first_attempts}
        # What devices are compared by, as far as it was asked for: by its name, and by device.
        self.compared: dict[str, dict[str, Any]] = defaultdict(dict)
        self._kept: dict[Hashable, Any] = {}
        self._held: dict[Hashable, Any] = {}
        self._devices = {device.subject: DeviceEvidence(self, device) for device in loaded.devices()}
        self._nodes = {node.name: NodeEvidence(self, node) for node in loaded.rig.nodes}

    @cached_property
    def earlier(self) -> "Evidence | None":
        """The same run with the first attempt at each stage that was measured once more; None: none was."""
        recording = self.recording
        if not recording.first_attempts:
            return None
        first = {name: (-math.inf, since_s) for name, (since_s, _) in self._spans.items()}
        stages = recording.stages | recording.first_attempts
        once = replace(recording, stages=stages, first_attempts={})
        found = Evidence(once, self.loaded, self._champions, self.planned_by)
        found._spans = first
        return found

    def marginal_share(self, subject: str) -> float | None:
        """By how much of its limit a rate of the subject may miss it to be measured once more."""
        device = self._devices.get(subject)
        return (self.loaded.rig.limits if device is None else device.device.limits).marginal_share

    def device(self, subject: str) -> DeviceEvidence:
        """The evidence about one promised device; KeyError where it is not promised."""
        return self._devices[subject]

    def node(self, subject: str) -> NodeEvidence:
        """The evidence about one promised node; KeyError where it is not promised."""
        return self._nodes[subject]

    def single(self, subject: str) -> DeviceEvidence | NodeEvidence:
        """The evidence about one promised device or node; KeyError where it is not promised."""
        return self._devices.get(subject) or self._nodes[subject]

    def shared(self, scope: SharedScope, subject: str) -> SharedEvidence:
        """The evidence about one promised pair or group; KeyError where it is not promised."""
        promised: dict[str, SharedEvidence] = self.kept(
            ("shared", scope),
            lambda: {one.text: SharedEvidence(self, one) for one in subjects(self.loaded, scope)},
        )
        return promised[subject]

    def source_of(self, *keys: str) -> str:
        """The file that says the first of these keys that is said anywhere; else the profile itself."""
        return self.loaded.source_of(*keys) or self.loaded.file

    @property
    def kinds(self) -> StageKinds:
        """The stages that the profile knows."""
        return self.loaded.kinds

    @property
    def plan(self) -> Plan:
        """What each worker was to do in the run, as it was recorded.

        NotMeasured where it is damaged, or gives workers other work than the run's own profile does: that
        profile, which the limits come from, would then say nothing of what was done.
        """
        plan = self.kept("plan", self._recorded_plan)
        if isinstance(plan, str):
            raise NotMeasured(plan)
        return plan

    def _recorded_plan(self) -> Plan | str:
        try:
            plan = restored(self.recording.plan)
        except PlanError as error:
            return str(error)
        if plan.level != self.recording.run.level:
            return f"the recorded plan is of level {plan.level}, and the run of {self.recording.run.level}"
        worker = differing(plan, self._plan_of(self.planned_by))
        if worker:
            own = self.planned_by.file
            return (
                f"the recorded plan has other work for {shortened(worker, 60)} than the run's profile, {own}"
            )
        return plan

    @cached_property
    def asked_plan(self) -> Plan:
        """What each worker would be to do by the profile that the run is judged by."""
        return self.plan if self.planned_by is self.loaded else self._plan_of(self.loaded)

    def _plan_of(self, loaded: LoadedRig) -> Plan:
        """What a profile plans. ProfileError where it plans nothing."""
        level = self.recording.run.level
        if level not in get_args(LevelName):
            way_out = "read it with the rigproof that wrote it"
            raise ProfileError([problem("recording", "level", level, "no such level", way_out)])
        return make_plan(loaded, cast(LevelName, level))

    @cached_property
    def champions(self) -> Champions:
        """By GPU UUID and criterion. NotMeasured where what the run recorded of them is damaged."""
        if self._champions is not None:
            return self._champions
        try:
            return recorded_champions(self.recording.events)
        except ValueError:
            raise NotMeasured("the recorded champions are damaged: give others with --champions") from None

    @property
    def devices(self) -> tuple[DeviceEvidence, ...]:
        """Every promised device, in the profile's order."""
        return tuple(self._devices.values())

    @property
    def nodes(self) -> tuple[NodeEvidence, ...]:
        """Every promised node, in the profile's order."""
        return tuple(self._nodes.values())

    def gpu_samples(self, subject: str) -> Series[GpuSample]:
        """Of one device."""
        return self.held(("gpu samples", subject), lambda: series_of(self.recording.gpu_samples, subject))

    def host_samples(self, subject: str) -> Series[HostSample]:
        """Of one node."""
        return self.held(("host samples", subject), lambda: series_of(self.recording.host_samples, subject))

    def memory(self, subject: str) -> Series[MemoryReading]:
        """Of one device."""
        return self.held(("memory", subject), lambda: series_of(self.recording.memory, subject))

    def counters(self, subject: str) -> Series[GpuCounters]:
        """Of one device."""
        index = self.kept("counters", lambda: _grouped(self.recording.counters))
        return Series(index.get(subject, ()))

    def boots(self, subject: str) -> list[BootReading]:
        """Of one node, in the order of time."""
        index = self.kept("boots", lambda: _grouped(self.recording.boots))
        return sorted(index.get(subject, ()), key=attrgetter("t_s"))

    def rounds(self, subject: str) -> Rounds:
        """Of one device, as recorded: a round without a finite time must not vanish."""
        table = self.kept("rounds", lambda: RoundTable(self.recording.rounds.columns))
        places = self.recording.rounds.places(subject)
        return self.held(("rounds", subject), lambda: self._attempt(Rounds(table, places)))

    def _attempt(self, rounds: Rounds) -> Rounds:
        """Without those of another attempt at their stage."""
        for name, (from_s, to_s) in self._spans.items():
            other = rounds.same("stage", name) & ((rounds.t_s < from_s) | (rounds.t_s >= to_s))
            rounds = rounds.only(~other)
        return rounds

    def records(self, kind: type[Kept], subject: str) -> list[Kept]:
        """What a stage recorded of a type of its own about one device, in the order in which it came."""
        found = self.held((kind, subject), lambda: self.recording.of(kind).of(subject))
        whole = (-math.inf, math.inf)
        return [
            one
            for one in found
            if not one.t_s < self._spans.get(one.stage, whole)[0]
            and not one.t_s >= self._spans.get(one.stage, whole)[1]
        ]

    def kept(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` gives, made once: for what is small, or needed for every subject."""
        if key not in self._kept:
            self._kept[key] = make()
        found: Made = self._kept[key]
        return found

    def held(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """As `kept`, until `let_go`: for what is large."""
        if key not in self._held:
            self._held[key] = make()
        found: Made = self._held[key]
        return found

    def figure_of(self, name: str, subject: str, make: Callable[[], Made]) -> Made:
        """What `make` gives, made once; NotMeasured, where it raises that, again each time.

        It is kept with the device's verdicts, so that others can be compared with it (`compared`).
        """
        known = self.compared[name]
        if subject not in known:
            try:
                known[subject] = make()
            except NotMeasured as reason:
                known[subject] = reason
        found: Made | NotMeasured = known[subject]
        if isinstance(found, NotMeasured):
            raise type(found)(found.reason)
        return found

    def let_go(self) -> None:
        """Forget what is held: the subject that it is about has been judged."""
        self._held.clear()
        if self.recording.first_attempts and self.earlier is not None:
            self.earlier.let_go()

    @cached_property
    def subjects_by_uuid(self) -> dict[str, list[str]]:
        """The CUDA devices that were found under each UUID: one, unless a card stands in for two."""
        found: dict[str, list[str]] = defaultdict(list)
        for subject, gpu in self.recording.gpus.items():
            if gpu.device == "cuda":
                found[gpu.uuid].append(subject)
        return found

    def began(self, stage: Stage) -> frozenset[str]:
        """The workers that began a stage."""
        return self.kept(("began", stage.name), lambda: frozenset(stage.workers))

    @cached_property
    def events(self) -> dict[str, list[Event]]:
        """By kind, in the order of time."""
        found: dict[str, list[Event]] = defaultdict(list)
        for event in sorted(self.recording.events, key=attrgetter("t_s")):
            found[event.kind].append(event)
        return found

    def events_of(self, subject: str, *kinds: str) -> list[Event]:
        """The events of these kinds that concern the subject, in the order of time."""
        if len(kinds) == 1:
            return self._events_of_kind(kinds[0]).get(subject, [])
        found = [event for kind in kinds for event in self._events_of_kind(kind).get(subject, ())]
        return sorted(found, key=attrgetter("t_s"))

    def _events_of_kind(self, kind: str) -> dict[str, list[Event]]:
        if kind not in self._events_by_subject:
            groups: dict[str, list[Event]] = defaultdict(list)
            for event in self.events.get(kind, ()):
                groups[event.subject].append(event)
            self._events_by_subject[kind] = groups
        return self._events_by_subject[kind]

    @cached_property
    def _events_by_subject(self) -> dict[str, dict[str, list[Event]]]:
        return {}

    @cached_property
    def workers(self) -> dict[str, list[WorkerIdentity]]:
        """By the device that they were planned for."""
        found: dict[str, list[WorkerIdentity]] = defaultdict(list)
        for worker in self.recording.workers:
            found[worker.subject].append(worker)
        return found

    @cached_property
    def workers_by_uuid(self) -> dict[str, list[WorkerIdentity]]:
        """By the device that they really got."""
        found: dict[str, list[WorkerIdentity]] = defaultdict(list)
        for worker in self.recording.workers:
            found[worker.uuid].append(worker)
        return found

    def stage(self, name: str) -> Stage:
        """The stage; NotMeasured where it did not run."""
        try:
            return self.recording.stages[name]
        except KeyError:
            raise NotMeasured(f"the {name} stage did not run") from None

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """The stages of the run's level, whether they ran or not, and any other one that did."""
        told = self.recording.run.stages or self._plan_of(self.planned_by).stage_names
        return tuple(dict.fromkeys((*told, *(one for one in self.recording.stages if one in self.kinds))))

    @cached_property
    def steady_stage(self) -> str:
        """The stage in which all workers work without a break; NotMeasured where the run has none."""
        found = self.stages_with("continuous")
        if not found:
            raise NotMeasured("no stage of this run is a continuous load")
        return found[0]

    def stages_with(self, *duties: Duty) -> tuple[str, ...]:
        """Those of them that have one of these duties."""
        return self.kept(("duties", duties), lambda: self.kinds.with_duty(self.stages, duties))

    def loaded_window(self, name: str) -> Window:
        """When all workers of the stage were under load. It may have been broken off: see `complete`."""
        return self.kept(("loaded", name), lambda: self._loaded_window(self.stage(name)))

    def whole_window(self, name: str) -> Window:
        """From the begin of a stage to its end, or to the last thing recorded where it was broken off."""
        stage = self.stage(name)
        end_s = stage.end_s if stage.end_s is not None else self._last_moment_s
        return Window(stage.start_s, max(stage.start_s, end_s), stage.status in ENDED)

    def _loaded_window(self, stage: Stage) -> Window:
        if stage.loaded_from_s is None:
            raise NotMeasured(
                f"in the {stage.name} stage ({stage.status}) the workers were never all under load"
            )
        end_s = stage.loaded_to_s if stage.loaded_to_s is not None else stage.end_s
        complete = stage.loaded_to_s is not None and stage.status in ENDED
        if end_s is None:
            end_s = self._last_moment_s
        window = Window(stage.loaded_from_s, end_s, complete)
        if not SHORTEST_LOAD_S <= window.length_s <= LONGEST_S:  # NaN is outside too
            raise NotMeasured(
                f"the {stage.name} stage was under load for {window.length_s:g} s, which is no measurement"
            )
        return window

    def complete_window(self, name: str) -> Window:
        """The loaded window of a stage that was not broken off: a rate over less says nothing."""
        window = self.loaded_window(name)
        if not window.complete:
            raise NotMeasured(f"the {name} stage was broken off")
        return window

    @cached_property
    def _last_moment_s(self) -> float:
        recording = self.recording
        ends = [rows.last_s() for rows in (recording.gpu_samples, recording.host_samples, recording.rounds)]
        return max((end_s for end_s in ends if end_s is not None), default=-math.inf)

    def require_coverage(self, times_s: Sequence[float], window: Window, limit: Limit, what: str) -> None:
        """NotMeasured where fewer than the share `limit` of the grid points due gave a reading.

        Nor may any stretch of more than LONGEST_GAP_S, or of GAP_STEPS grid points, be without one.
        """
        rate_hz = self.planned_by.rig.sampling.rate_hz
        due, count = window.length_s * rate_hz, len(times_s)
        if count == 0:
            raise NotMeasured(f"no {what} was read under load")
        gap_s, from_s = _longest_gap(times_s, window)
        if gap_s > max(LONGEST_GAP_S, GAP_STEPS / rate_hz):
            raise NotMeasured(f"no {what} was read for {gap_s:.1f} s under load, from t={from_s:.0f} s on")
        if count < limit.value * due:
            raise NotMeasured(
                f"{count} readings of {what} under load where {due:.0f} were due: "
                f"under {limit.value * 100:.0f} %"
            )


def _longest_gap(times_s: Sequence[float], window: Window) -> tuple[float, float]:
    """The longest stretch of a window without a reading, and where it begins; rising times in the window."""
    edges_s = [window.from_s, *times_s, window.to_s]
    gaps_s = list(map(sub, edges_s[1:], edges_s))
    longest_s = max(gaps_s)
    return longest_s, edges_s[gaps_s.index(longest_s)]


def _grouped(records: Sequence[Item]) -> dict[str, list[Item]]:
    """By subject, as recorded."""
    groups: dict[str, list[Item]] = defaultdict(list)
    for one in records:
        groups[one.subject].append(one)
    return groups
