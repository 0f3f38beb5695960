"""What criteria see: a Recording and its profile, indexed once, with a slice for each device and node.

Everything is indexed when first asked for, and in linear time: a soak has some 300,000 samples.
Whatever is missing raises NotMeasured with the reason, so that a criterion cannot pass by leaving it out.
"""

import math
from collections import defaultdict
from functools import cached_property
from operator import attrgetter
from typing import cast

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.criteria.series import Series, by_subject
from rigproof.criteria.subjects import DeviceEvidence, NodeEvidence
from rigproof.criteria.windows import LONGEST_S, Window
from rigproof.profiles.loaded import LoadedRig
from rigproof.profiles.models import LevelName
from rigproof.profiles.plan import Plan
from rigproof.profiles.planning import make_plan
from rigproof.records.champions import Champions, recorded_champions
from rigproof.records.identity import WorkerIdentity
from rigproof.records.measurements import Event, GpuCounters, MemoryReading, RewardBatch, Round, Stage
from rigproof.records.recording import Recording
from rigproof.records.samples import GpuSample, HostSample

SHORTEST_LOAD_S = 1.0  # rates and shares are taken over windows of 1 s
ENDED = ("finished", "partial", "failed")  # a stage that was not broken off


class Evidence:
    """A Recording with the profile that it is judged by, and the champions that floors come from.

    These are the ones that the run recorded, unless others are given; an empty mapping: none.
    """

    def __init__(self, recording: Recording, loaded: LoadedRig, champions: Champions | None = None) -> None:
        self.recording = recording
        self.loaded = loaded
        self._champions = champions
        self._devices = {device.subject: DeviceEvidence(self, device) for device in loaded.devices()}
        self._nodes = {node.name: NodeEvidence(self, node) for node in loaded.rig.nodes}

    def device(self, subject: str) -> DeviceEvidence:
        """The evidence about one promised device; KeyError where it is not promised."""
        return self._devices[subject]

    def node(self, subject: str) -> NodeEvidence:
        """The evidence about one promised node; KeyError where it is not promised."""
        return self._nodes[subject]

    def source_of(self, *keys: str) -> str:
        """The file that says the first of these keys that is said anywhere; else the profile itself."""
        return self.loaded.source_of(*keys) or self.loaded.file

    @cached_property
    def plan(self) -> Plan:
        """What each worker was to do, derived from the profile again."""
        return make_plan(self.loaded, cast(LevelName, self.recording.run.level))

    @cached_property
    def champions(self) -> Champions:
        """By GPU UUID and criterion."""
        return recorded_champions(self.recording.events) if self._champions is None else self._champions

    @property
    def devices(self) -> tuple[DeviceEvidence, ...]:
        """Every promised device, in the profile's order."""
        return tuple(self._devices.values())

    @property
    def nodes(self) -> tuple[NodeEvidence, ...]:
        """Every promised node, in the profile's order."""
        return tuple(self._nodes.values())

    @cached_property
    def gpu_samples(self) -> dict[str, Series[GpuSample]]:
        """By device."""
        return by_subject(self.recording.gpu_samples)

    @cached_property
    def host_samples(self) -> dict[str, Series[HostSample]]:
        """By node."""
        return by_subject(self.recording.host_samples)

    @cached_property
    def rounds(self) -> dict[str, list[Round]]:
        """By device, as recorded: a round without a finite time must not vanish."""
        found: dict[str, list[Round]] = defaultdict(list)
        for one in self.recording.rounds:
            found[one.subject].append(one)
        return found

    @cached_property
    def memory(self) -> dict[str, Series[MemoryReading]]:
        """By device."""
        return by_subject(self.recording.memory)

    @cached_property
    def rewards(self) -> dict[str, list[RewardBatch]]:
        """By device, in the order of time."""
        found: dict[str, list[RewardBatch]] = defaultdict(list)
        for one in self.recording.rewards:
            found[one.subject].append(one)
        return found

    @cached_property
    def counters(self) -> dict[str, Series[GpuCounters]]:
        """By device."""
        return by_subject(self.recording.counters)

    @cached_property
    def events(self) -> dict[str, list[Event]]:
        """By kind, in the order of time."""
        found: dict[str, list[Event]] = defaultdict(list)
        for event in sorted(self.recording.events, key=attrgetter("t_s")):
            found[event.kind].append(event)
        return found

    def events_of(self, subject: str, *kinds: str) -> list[Event]:
        """The events of these kinds that concern the subject, in the order of time."""
        found = [event for kind in kinds for event in self._events_of_kind(kind).get(subject, ())]
        return sorted(found, key=attrgetter("t_s")) if len(kinds) > 1 else found

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

    def loaded_window(self, name: str) -> Window:
        """When all workers of the stage were under load. It may have been broken off: see `complete`."""
        stage = self.stage(name)
        if stage.loaded_from_s is None:
            raise NotMeasured(f"in the {name} stage ({stage.status}) the workers were never all under load")
        end_s = stage.loaded_to_s if stage.loaded_to_s is not None else stage.end_s
        complete = stage.loaded_to_s is not None and stage.status in ENDED
        if end_s is None:
            end_s = self._last_moment_s
        window = Window(stage.loaded_from_s, end_s, complete)
        if not SHORTEST_LOAD_S <= window.length_s <= LONGEST_S:  # NaN is outside too
            raise NotMeasured(
                f"the {name} stage was under load for {window.length_s:g} s, which is no measurement"
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
        ends = [series.items[-1].t_s for series in self.gpu_samples.values() if series.items]
        ends += [series.items[-1].t_s for series in self.host_samples.values() if series.items]
        ends += [one.t_s for one in self.recording.rounds if math.isfinite(one.t_s)]
        return max(ends, default=-math.inf)

    def require_coverage(self, count: int, window: Window, limit: Limit, what: str) -> None:
        """NotMeasured where fewer than the share `limit` of the grid points due gave a reading."""
        rate_hz = self.loaded.rig.sampling.rate_hz
        if rate_hz is None:
            raise NotMeasured("the profile has no sampling.rate_hz")
        due = window.length_s * rate_hz
        if count == 0:
            raise NotMeasured(f"no {what} was read under load")
        if count < limit.value * due:
            raise NotMeasured(
                f"{count} readings of {what} under load where {due:.0f} were due: "
                f"under {limit.value * 100:.0f} %"
            )
