"""The evidence about one device. Missing data raises NotMeasured with the reason."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from rigproof.criteria.criterion import Disturbed, NotApplicable, NotMeasured
from rigproof.criteria.evidence.clocks import Spans, cut_into, uncounted
from rigproof.criteria.evidence.rounds import Mask, Rounds
from rigproof.criteria.evidence.series import Floats
from rigproof.criteria.evidence.silicon import OVERCLOCK_RATIO, Silicon
from rigproof.criteria.evidence.subject import SubjectEvidence
from rigproof.criteria.evidence.valid_rounds import require_told, require_valid
from rigproof.criteria.evidence.windows import Window, uncovered
from rigproof.profiles.loading.loaded import PromisedDevice
from rigproof.profiles.tables.limits import LIMITS
from rigproof.profiles.tables.stages import StageSettings
from rigproof.records.identity import GpuIdentity, WorkerIdentity
from rigproof.records.measurements import GB, TFLOP, Event, ForeignMemory, GpuCounters, MemoryReading
from rigproof.records.recording import StageRecord
from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample
from rigproof.records.verdict import figure

SAMPLE_COVERAGE_SHARE = LIMITS.key(lambda limits: limits.sample_coverage_share)
STANDSTILL_SHARE = LIMITS.key(lambda limits: limits.standstill_share)

if TYPE_CHECKING:  # evidence builds these
    from rigproof.criteria.evidence.evidence import Evidence

Own = TypeVar("Own", bound=StageRecord)
Made = TypeVar("Made")
Settings = TypeVar("Settings", bound=StageSettings)
MOST_SMS = 1024  # a GB202 has 192, an H100 144 on its die
LOSSES = ("worker_failed", "worker_died", "worker_hung")  # of a worker
# Events that explain why a device did no work; an earlier kind explains the later ones.
CAUSES = (
    "node_missing",
    "gpu_missing",
    "gpu_taken",
    "gpu_skipped",
    "gpu_lost",
    "oom",
    "worker_failed",
    "worker_died",
    "worker_hung",
    "agent_died",
    "node_lost",
)


# The section of `nvidia-smi -q -d` that shows a reading, by a part of its name.
SENSORS = frozenset(field.name for field in fields(GpuSample))
# A driver that has a limit of a sensor has the sensor.
LIMITED = {
    "core_temperature_c": ("temperature_gpu_max_c", "temperature_slowdown_c"),
    "thermal_margin_c": ("slowdown_margin_c",),
    "memory_temperature_c": ("temperature_memory_max_c",),
    "power_limit_w": ("power_limit_w", "power_limit_default_w"),
}
SECTIONS = {
    "temperature": "TEMPERATURE",
    "power": "POWER",
    "clock_event": "PERFORMANCE",
    "clock": "CLOCK",
    "utilization": "UTILIZATION",
}


class DeviceEvidence(SubjectEvidence):
    """The evidence about one promised device."""

    def __init__(self, evidence: "Evidence", device: PromisedDevice) -> None:
        super().__init__(evidence, device.subject, device)
        self.device = device
        self.node_name = device.node

    def cached(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The result of `make`, made once and kept until the evidence is released."""
        return self.evidence.cached_for_subject((self.subject, key), make)

    @property
    def found(self) -> bool:
        """Whether a device answered for this subject."""
        return self.subject in self.evidence.recording.gpus

    def require_found(self) -> None:
        """NotMeasured if none did."""
        if not self.found:
            raise NotMeasured(f"{self.subject} was not found")

    @property
    def identity(self) -> GpuIdentity:
        """The device that answered; NotMeasured if none did."""
        try:
            return self.evidence.recording.gpus[self.subject]
        except KeyError:
            raise NotMeasured(f"{self.subject} was not found") from None

    @property
    def neighbours(self) -> tuple["DeviceEvidence", ...]:
        """The other promised devices of its node."""
        return tuple(one for one in self.evidence.devices_on(self.node_name) if one is not self)

    @property
    def is_cpu(self) -> bool:
        """Whether the CPU is promised as the device."""
        return self.device.gpu.device == "cpu"

    @property
    def silicon(self) -> Silicon:
        """What its silicon can do; NotMeasured if it was not found."""

        def known() -> Silicon:
            device, identity = self.device, self.identity
            sms = max((worker.sms or 0 for worker in self.workers), default=0)
            if sms > MOST_SMS:
                raise NotMeasured(f"its workers report {sms} streaming multiprocessors, more than a card has")
            facts = (
                device.sku_stem,
                device.limits.ceiling_share,
                identity.brand,
                identity.virtualization,
                identity.compute_capability,
                sms or None,
                self._highest_mhz(),
            )
            # Most devices of a rig have the same.
            return self.evidence.cached(("silicon", facts), lambda: Silicon(self.evidence.loaded, *facts))

        return self.cached("silicon", known)

    def _highest_mhz(self) -> float | None:
        """NVML's highest SM clock; for an overclocked card, which reads higher, the highest reading."""
        stated_mhz = self.identity.sm_clock_max_mhz
        if stated_mhz is None:
            return None
        read = self.readings("sm_clock_mhz").values
        return float(read[read <= OVERCLOCK_RATIO * stated_mhz].max(initial=stated_mhz))

    @property
    def sku_file(self) -> str:
        """The path of the SKU's file, as shown to users."""
        return f"hwprofiles/gpus/{self.device.sku_stem}.toml"

    def source_of(self, key: str) -> str:
        """The file that states this key for the device: its own entry, else the rig's."""
        return self.evidence.source_of(f"{self.device.key}.{key}", key)

    def lacks_sensor(self, name: str) -> bool:
        """Whether the card cannot have it: the SKU file lists it; `power` there includes `power_w`.

        A card without a SKU file is promised no sensor: it lacks each of which the driver says so from the
        beginning, which means that no sample has it, no query failed, and NVML has no limit of it.
        """
        sku = self.device.sku
        if sku is None:
            limits = (getattr(self.identity, one) for one in LIMITED.get(name, ()))
            known = name in SENSORS and not any(one is not None for one in limits)
            return known and self.answers and not self.recorded(name)
        return any(name == one or name.startswith(f"{one}_") for one in sku.unsupported_sensors)

    def never_reads(self, name: str) -> bool:
        """Whether the card cannot have that sensor, and no sample has a reading of it."""
        return self.lacks_sensor(name) and not self.recorded(name)

    @property
    def answers(self) -> bool:
        """Whether NVML answered all queries, so that whatever is missing is not supported."""
        return bool(self.samples) and not self.events("nvml_error", "gpu_lost", "timeout")

    # What was recorded

    @property
    def samples(self) -> Rows[GpuSample]:
        return self.evidence.samples(GpuSample, self.subject)

    def worked_window(self, stage: str) -> Window:
        """The loaded window of a stage, and on to this device's own last round in it.

        A load ends with the first device that is done; one with more precisions to measure works on. Raises
        NotMeasured as `Evidence.loaded_window`.
        """

        def made() -> Window:
            load, end_s = self.evidence.loaded_window(stage), self.evidence.whole_window(stage).to_s
            rounds = self.evidence.rounds(self.subject)
            own_s = rounds.t_s[rounds.same("stage", stage) & (rounds.t_s <= end_s)]
            return load._replace(to_s=float(own_s.max(initial=load.to_s)))

        return self.cached(("worked", stage), made)

    def require_readings(self, window: Window, field: str, what: str) -> None:
        """NotMeasured if there are not enough readings of one sensor inside the window."""
        read = self.readings(field, window)
        samples, number = len(self.sampled_s(window)), len(read)
        if not number and self.lacks_sensor(field):
            raise NotApplicable(f"this card's driver reports no {what}")
        if not number and samples:  # it answers, but not this
            raise NotMeasured(f"no {what} was read under load; {self._where_to_look(field)}")
        # With a reading in each sample, one sensor is as good as another.
        reason = self.uncovered(window) if number == samples else self._uncovered(read.times_s, window)
        if reason:
            raise NotMeasured(reason.format(what=what))

    def uncovered(self, window: Window) -> str:
        """Why the samples do not cover the window, with {what} was read; empty if they do."""
        return self.cached(("uncovered", window), lambda: self._uncovered(self.sampled_s(window), window))

    def _uncovered(self, times_s: Floats, window: Window) -> str:
        return uncovered(times_s, window, self.limit(SAMPLE_COVERAGE_SHARE), self.evidence.rate_hz)

    def _where_to_look(self, field: str) -> str:
        """What to do about a sensor that gave no readings while others did."""
        section = next((name for part, name in SECTIONS.items() if part in field), "")
        query = f"`nvidia-smi -q{f' -d {section}' if section else ''}`"
        listed = (
            f"unsupported_sensors of {self.sku_file}" if self.device.sku_stem else "the SKU file of its model"
        )
        check = f"check {query} on {self.device.node}"
        return f"{check}; a sensor that its driver does not have is listed in {listed}"

    def rounds(self, stage: str) -> Rounds:
        """The rounds of one stage that this device did itself, without those of the CPU in its place.

        Raises NotMeasured if one of them is not a valid measurement or not what its workers were told to do,
        or if its node's clock moved.
        """
        self.evidence.require_clock(self.node_name)
        return self.cached(("stage", stage), lambda: self._valid(stage))

    def _valid(self, stage: str) -> Rounds:
        rounds, kinds = self.all_rounds, self.evidence.kinds
        found = require_valid(rounds.only(self.own & rounds.same("stage", stage)), stage, kinds)
        told = self.told(stage)
        if told and len(found):
            oom = any(one.stage == stage for one in self.events("oom"))
            require_told(found.measured, told, kinds[stage].labels, oom=oom)
        return found

    def told(self, stage: str) -> list[Mapping[str, Any]]:
        """What its workers were told to do in a stage: their specs; empty if that was not recorded."""
        ran = self.evidence.recording.stages.get(stage)
        specs = None if ran is None else ran.settings.get("specs")
        if not isinstance(specs, Mapping):
            return []
        found = (specs.get(worker) for worker in self.planned_workers)
        return [one for one in found if isinstance(one, Mapping)]

    def possible(self, stage: str, *precisions: str) -> Rounds:
        """The rounds of one stage, for a rate. NotMeasured if one is faster than the device's silicon can be.

        Only arithmetic and the memory of a known model have a maximum. `precisions`: those that are judged;
        by default all.
        """
        rounds = self.rounds(stage)
        if len(rounds) and self.found and not self.is_cpu and self.evidence.kinds[stage].unit == GB:
            most = self.silicon.highest_gbps
            fastest_gbps = float((rounds.work / rounds.seconds).max())
            if most is not None and fastest_gbps > most.value:
                raise NotMeasured(
                    f"{figure(fastest_gbps, 'GB/s')} is more than {figure(most.value, 'GB/s')}, "
                    f"{most.source}: a measurement error"
                )
        fastest = rounds.only(rounds.same("unit", TFLOP)).fastest
        if fastest and self.found and not self.is_cpu:
            chosen = precisions or sorted(fastest)
            self.silicon.require_possible((one, fastest[one]) for one in chosen if one in fastest)
        return rounds

    @property
    def all_rounds(self) -> Rounds:
        """Its rounds of all stages, without those that a standstill of its host cut into.

        Those that the CPU did in its place are among them.
        """

        def made() -> Rounds:
            rounds, still = self.evidence.rounds(self.subject), self.evidence.standstills(self.node_name)
            return rounds.only(~self._cut_into(rounds, still)) if len(still) else rounds

        return self.cached("rounds", made)

    @property
    def own(self) -> Mask:
        """Which of them it did itself."""
        return self.cached("own", lambda: self.all_rounds.same("device", None, self.device.gpu.device))

    @property
    def uncounted(self) -> Spans:
        """When its host stood still, with the rounds that this cut into."""

        def made() -> Spans:
            still = self.evidence.standstills(self.node_name)
            if not len(still):
                return still
            rounds = self.evidence.rounds(self.subject)
            return uncounted(rounds.only(self._cut_into(rounds, still)), still)

        return self.cached("uncounted", made)

    def _cut_into(self, rounds: Rounds, still: Spans) -> Mask:
        least = self.optional_limit(STANDSTILL_SHARE)
        return cut_into(rounds, still, 0.0 if least is None else least.value)

    def records(self, kind: type[Own], stage: str) -> list[Own]:
        """One stage's own records of this type."""
        return [one for one in self.evidence.records(kind, self.subject) if one.stage == stage]

    @property
    def memory(self) -> Rows[MemoryReading]:
        """Allocator readings of all its workers, in the order of time."""
        return self.evidence.samples(MemoryReading, self.subject)

    def counters(self, moment: str) -> GpuCounters | None:
        """Error counters: the first reading before the load, or the last after it."""
        read = self.cached("counters", lambda: self.evidence.counters(self.subject))
        found = [one for one in read if one.moment == moment]
        return None if not found else found[0] if moment == "before" else found[-1]

    @property
    def foreign_memory(self) -> ForeignMemory | None:
        """The memory that others held before the run."""
        return self.evidence.recording.foreign_memory.get(self.subject)

    @property
    def planned_workers(self) -> tuple[str, ...]:
        """The names of the workers that were planned here."""
        return tuple(worker.worker for worker in self.evidence.plan.workers_of(self.subject))

    @property
    def workers(self) -> list[WorkerIdentity]:
        """Every process that started as a worker planned here, replacements included."""
        return self.evidence.workers.get(self.subject, [])

    @property
    def left_out(self) -> str:
        """Why it was deliberately not loaded: others hold it; empty if it did any work, or should have."""
        events = self.events("gpu_taken", "gpu_skipped")
        return events[0].message if events and not len(self.all_rounds) else ""

    def losses_to_others(self) -> Iterator[tuple[Event, Disturbed]]:
        """Each loss of a worker that is no finding about the device: it never started, or others ended it."""
        for event in self.events(*LOSSES):
            if "disturbed" in event.data:
                who = event.worker or event.subject
                reason = f"{who}: {event.message}"
                yield event, Disturbed(reason, str(event.data["disturbed"]), event.t_s)

    def lost_to_others(self) -> Disturbed | None:
        """The first of them, in words; None if there is none."""
        return next((reason for _, reason in self.losses_to_others()), None)

    def require_placed(self, kind: str | type[StageRecord]) -> None:
        """NotMeasured if an event or a record of this kind is of no device there is, on this node or none."""
        self.evidence.require_placed(self.node_name, kind)

    def cause(self) -> str:
        """The first event that explains why this device did little or nothing; empty if none does."""
        subjects = (self.subject, self.device.node)
        for kind in CAUSES:
            for subject in subjects:
                for event in self.evidence.events.of(subject, kind):
                    return f"{event.message} (at t={event.t_s:.0f} s)"
        return ""

    def unmeasured(self, why: str) -> NotMeasured:
        """NotMeasured for this reason, with its cause if that is known."""
        cause = self.cause()
        return NotMeasured(f"{why}: {cause}" if cause else why)
