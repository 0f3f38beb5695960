"""What criteria see: an indexed Recording and its profile, its stages, and a view of each device and node.

Missing data raises NotMeasured with the reason, so that a criterion cannot pass by ignoring it.
"""

import math
from collections.abc import Mapping
from copy import copy
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from rigproof.criteria.criterion import Disturbed, NotMeasured
from rigproof.criteria.evidence.clocks import Spans, awake, contradiction, gaps_of, moved_clocks, standstills
from rigproof.criteria.evidence.cpu_use import excused
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.events import EventIndex
from rigproof.criteria.evidence.indexed import IndexedRecording
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.run_plan import plan_of, recorded_plan
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.criteria.evidence.windows import LONGEST_S, Window
from rigproof.profiles.kinds.stages import Duty, StageKinds
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan
from rigproof.profiles.planning.subjects import RIG, SHARED_SCOPES, SharedScope, subjects
from rigproof.records.champions import Champions, recorded_champions
from rigproof.records.fields import table_name
from rigproof.records.grouping import grouped
from rigproof.records.measurements import FigureRate, Stage
from rigproof.records.recording import Recording, StageRecord
from rigproof.records.samples import HostSample

Made = TypeVar("Made")
Own = TypeVar("Own", bound=StageRecord)

SHORTEST_LOAD_S = 1.0  # rates and shares are taken over windows of 1 s
ENDED = ("finished", "partial", "failed")  # a stage that was not aborted
APART_S = 1.0  # the driver's record of a load and its rounds are equal; only clocks keep them apart


class Evidence(IndexedRecording):
    """A Recording with the profile that it is judged by, and the champions that floors come from.

    The champions are those that the run recorded, unless others are given; an empty mapping means none.
    `planned_by`: the profile that the run was planned by, if it is judged by another one. Of a stage that was
    measured again it is about the last attempt, or the one of that number, from 0 on.
    """

    def __init__(
        self,
        recording: Recording,
        loaded: LoadedRig,
        champions: Champions | None = None,
        planned_by: LoadedRig | None = None,
        *,
        attempt: int | None = None,
    ) -> None:
        super().__init__(recording, attempt=attempt)
        self.loaded = loaded
        self.planned_by = planned_by if planned_by is not None else loaded
        self._champions = champions
        self._devices = {device.subject: DeviceEvidence(self, device) for device in loaded.devices()}
        self._nodes = {node.name: NodeEvidence(self, node) for node in loaded.rig.nodes}

    @cached_property
    def earlier_attempts(self) -> "tuple[Evidence, ...]":
        """The run by the first attempt at each stage that was measured again, by the second, and so on."""
        number = max(map(len, self.recording.earlier_attempts.values()), default=0)
        rigs = self.loaded, self._champions, self.planned_by
        return tuple(Evidence(self._all_attempts, *rigs, attempt=one) for one in range(number))

    def release(self) -> None:
        """Release what was cached for subjects in all attempts."""
        super().release()
        for one in self.earlier_attempts:
            one.release()

    @property
    def attempts(self) -> "tuple[Evidence, ...]":
        """This evidence, and that with the earlier attempts."""
        return (self, *self.earlier_attempts)

    def marginal_share(self, subject: str) -> float | None:
        """The largest share of its limit by which a rate may miss it and still be measured once more."""
        device = self._devices.get(subject)
        return (self.loaded.rig.limits if device is None else device.device.limits).marginal_share

    def rates_of(self, subject: str) -> dict[str, FigureRate]:
        """The rates that criteria have found of a device so far, by figure."""
        found: dict[str, FigureRate] = self.shared_figures["rates"].setdefault(subject, {})
        return found

    def device(self, subject: str) -> DeviceEvidence:
        """The evidence about one promised device; KeyError if it is not promised."""
        return self._devices[subject]

    def node(self, subject: str) -> NodeEvidence:
        """The evidence about one promised node; KeyError if it is not promised."""
        return self._nodes[subject]

    def devices_on(self, node: str) -> tuple[DeviceEvidence, ...]:
        """The evidence about the promised devices of a node, in the profile's order."""
        return self._by_node.get(node, ())

    @cached_property
    def _by_node(self) -> dict[str, tuple[DeviceEvidence, ...]]:
        found = grouped(self._devices.values(), lambda device: device.node_name)
        return {node: tuple(devices) for node, devices in found.items()}

    def single(self, subject: str) -> DeviceEvidence | NodeEvidence:
        """The evidence about one promised device or node; KeyError if it is not promised."""
        return self._devices.get(subject) or self._nodes[subject]

    def shared(self, scope: SharedScope, subject: str) -> SharedEvidence:
        """The evidence about one promised pair or group; KeyError if it is not promised."""
        promised: dict[str, SharedEvidence] = self.cached(
            ("shared", scope),
            lambda: {one.text: SharedEvidence(self, one) for one in subjects(self.loaded, scope)},
        )
        return promised[subject]

    @property
    def teams(self) -> tuple[SharedEvidence, ...]:
        """Every team of the rig, in the profile's order."""
        return tuple(self.shared("team", one.text) for one in subjects(self.loaded, "team"))

    @property
    def rate_hz(self) -> float:
        """How often the run's sensors were to be read."""
        return self.planned_by.rig.sampling.rate_hz

    def source_of(self, *keys: str) -> str:
        """The file that states the first of these keys that any file states; else the profile itself."""
        return self.loaded.source_of(*keys) or self.loaded.file

    @property
    def kinds(self) -> StageKinds:
        """The stages that the profile knows."""
        return self.loaded.kinds

    @property
    def plan(self) -> Plan:
        """The plan of the run, as recorded.

        NotMeasured if it is damaged, or gives workers other work than the run's own profile does: the limits
        come from that profile, and would then not apply to what was done.
        """
        plan = self._recorded_plan
        if isinstance(plan, str):
            raise NotMeasured(plan)
        return plan

    @cached_property
    def _recorded_plan(self) -> Plan | str:
        return recorded_plan(self.recording, self.planned_by)

    @cached_property
    def judged_plan(self) -> Plan:
        """The plan that the profile by which the run is judged would give."""
        same = self.planned_by is self.loaded
        return self.plan if same else plan_of(self.loaded, self.recording.run.level)

    @cached_property
    def champions(self) -> Champions:
        """The champions by GPU UUIDs and figure. NotMeasured if the recorded ones are damaged."""
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

    def standstills(self, node: str) -> Spans:
        """When this node stood still."""

        def found() -> Spans:
            samples = self.samples(HostSample, node)
            gaps = gaps_of(samples.column("t_s"), self.rate_hz)
            if not len(gaps):
                return gaps
            rows = samples.fields("t_s", "wakeup_delays_ms")
            told = [(t_s, max(delays) / 1000) for t_s, delays in rows if delays is not None and len(delays)]
            reported_s, delays_s = np.asarray(told).reshape(-1, 2).T
            gaps = gaps[~awake(gaps, reported_s, delays_s, self.rate_hz)]
            ends_s = [self.rounds(one.subject).t_s for one in self.devices_on(node)]
            return standstills(gaps, np.concatenate(ends_s) if ends_s else np.empty(0), self.rate_hz)

        return self.cached(("standstills", node), found)

    def require_clock(self, node: str) -> None:
        """Disturbed if this node's clock and the driver's came apart: its work is not in its stages."""
        moved, known = self._moved_clocks, self.recording.nodes.get(node)
        if known is not None and not 0 <= known.clock_error_s <= APART_S:
            raise NotMeasured(
                f"the clock of {node} was read to within {known.clock_error_s:g} s: its work cannot be placed"
            )
        if node in moved:
            raise moved[node].worded(moved[node].reason)

    @cached_property
    def _moved_clocks(self) -> dict[str, Disturbed]:
        """By node, how its clock moved, from all attempts: a round may then seem to be of the other one."""
        recording = self._all_attempts
        spans = {
            name: ((*recording.earlier_attempts.get(name, ()), stage)[0].start_s, stage.end_s)
            for name, stage in recording.stages.items()
            if stage.end_s is not None
        }
        one_attempt = recording is self.recording
        rounds = self._all_rounds if one_attempt else Rounds(copy(recording.rounds).columns)
        return moved_clocks(rounds, spans)

    @cached_property
    def events(self) -> EventIndex:
        """The events, by kind and by subject."""
        return EventIndex(self.recording.events, lambda wait: excused(self, wait))

    def unplaced(self, kind: str | type[StageRecord]) -> list[tuple[str, str]]:
        """The subjects of events or records of this kind that are no device, or devices together, that was
        promised or found; and what each event says. Of events of any kind (""), also no node and not the rig.
        """

        def found() -> list[tuple[str, str]]:
            rigs, recording = (self.loaded, self.planned_by), self._all_attempts
            known = {one.subject for rig in rigs for one in rig.devices()} | {*recording.gpus}
            if kind == "":
                known |= {RIG, *recording.nodes, *(node.name for rig in rigs for node in rig.rig.nodes)}
                told = [(one.subject, f"{one.kind}, {one.message}") for one in recording.events]
            elif isinstance(kind, str):
                told = [(one.subject, one.message) for one in self.events.of_kind(kind)]
            else:
                told = [(one, f"a record of {table_name(kind)}") for one in recording.of(kind).subjects()]
            unknown = [one for one in told if one[0] not in known]
            if unknown:  # pairs are many
                # An Xid is of a card, and no team's: a team is called as its node, or the rig.
                scopes = [one for one in SHARED_SCOPES if (one, kind) != ("team", "xid")]
                known |= {one.text for rig in rigs for scope in scopes for one in subjects(rig, scope)}
            return [one for one in unknown if one[0] not in known]

        return self.cached(("unplaced", kind), found)

    def require_placed(self, node: str, kind: str | type[StageRecord] = "") -> None:
        """NotMeasured if an event or a record of this kind is of nothing there is, on this node or none."""
        for subject, what in self.unplaced(kind):
            name = subject.partition("/")[0]
            if name == node or name not in self.recording.nodes:
                raise NotMeasured(
                    f"{what}: of {subject or 'nobody'}, which is no device of the rig or of the run"
                )

    def stage(self, name: str) -> Stage:
        """The stage; NotMeasured if it did not run, or at no time that can be."""
        stage = self.recording.stages.get(name)
        if stage is None:
            raise NotMeasured(f"the {name} stage did not run")
        if self._contradiction:
            raise NotMeasured(self._contradiction)
        return stage

    def specs(self, stage: str) -> list[Mapping[str, Any]]:
        """What each worker was told to do in a stage; none if that was not recorded.

        NotMeasured if the stage did not run.
        """
        told = self.stage(stage).settings.get("specs")
        every = told.values() if isinstance(told, Mapping) else ()
        return [one for one in every if isinstance(one, Mapping)]

    @cached_property
    def _contradiction(self) -> str:
        return contradiction(self.recording.attempts)

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """The stages of the run's level, whether they ran or not, and any other stage that ran."""
        planned = self.recording.run.stages or plan_of(self.planned_by, self.recording.run.level).stage_names
        return tuple(dict.fromkeys((*planned, *(one for one in self.recording.stages if one in self.kinds))))

    @cached_property
    def steady_stage(self) -> str:
        """The stage in which all workers work without a break; NotMeasured if the run has none."""
        found = self.stages_with("continuous")
        if not found:
            raise NotMeasured("no stage of this run is a continuous load")
        return found[0]

    def stages_with(self, *duties: Duty) -> tuple[str, ...]:
        """The stages that have one of these duties."""
        return self.cached(("duties", duties), lambda: self.kinds.with_duty(self.stages, duties))

    def loaded_window(self, name: str) -> Window:
        """When all workers of the stage were under load. Not `complete` if the stage was aborted."""
        return self.cached(("loaded", name), lambda: self._loaded_window(self.stage(name)))

    def whole_window(self, name: str) -> Window:
        """From the beginning of a stage to its end; if it was aborted, to the last record of the run."""
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
                f"the {stage.name} stage was under load for {window.length_s:g} s, "
                "which is not a valid measurement"
            )
        from_s, to_s = self._worked(stage)
        if complete and (window.from_s < from_s - APART_S or window.to_s > to_s + APART_S):
            raise NotMeasured(
                f"the {stage.name} stage is said to have been under load from t={window.from_s:.1f} to "
                f"t={window.to_s:.1f} s, and all worked in it from t={from_s:.1f} to t={to_s:.1f} s: "
                "rounds are missing, or the records contradict each other"
            )
        return window

    def _worked(self, stage: Stage) -> tuple[float, float]:
        """From when to when all workers of a stage had rounds; if not all of them ended, its own span."""
        rounds = self._all_rounds
        if self._moved_clocks:  # `require_clock` reports it
            return -math.inf, math.inf
        every = rounds.same("stage", stage.name) & np.isfinite(rounds.begins_s)
        known = stage.name in self.kinds and self.kinds[stage.name].by_device
        if stage.status != "finished" or not known or not every.any():
            return stage.start_s, math.inf if stage.end_s is None else stage.end_s
        workers = rounds.coded("worker")
        firsts_s, lasts_s = np.full((2, len(workers.distinct)), [[math.inf], [-math.inf]])
        np.minimum.at(firsts_s, workers.array[every], rounds.begins_s[every])
        np.maximum.at(lasts_s, workers.array[every], rounds.t_s[every])
        began = firsts_s < math.inf
        return float(firsts_s[began].max()), float(lasts_s[began].min())

    def complete_window(self, name: str) -> Window:
        """The loaded window of a stage. NotMeasured if it was aborted: a rate over a part says nothing."""
        window = self.loaded_window(name)
        if not window.complete:
            raise NotMeasured(f"the {name} stage was aborted")
        return window
