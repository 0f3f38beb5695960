"""The evidence about one device or one node. Whatever is missing raises NotMeasured with the reason."""

import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from rigproof.criteria.criterion import Limit, NotApplicable, NotMeasured
from rigproof.criteria.evidence.readings import Readings
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.series import Series, Stretch
from rigproof.criteria.evidence.silicon import OVERCLOCK_RATIO, Silicon
from rigproof.criteria.evidence.windows import LONGEST_S, Window
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.loading.loaded import PromisedDevice
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.models import CpuLoad, Node
from rigproof.records.identity import GpuIdentity, NodeIdentity, WorkerIdentity
from rigproof.records.measurements import TFLOP, Event, ForeignMemory, GpuCounters, MemoryReading
from rigproof.records.recording import StageRecord
from rigproof.records.samples import GpuSample, HostSample

if TYPE_CHECKING:  # evidence builds these
    from rigproof.criteria.evidence.evidence import Evidence

Kept = TypeVar("Kept", bound=StageRecord)
# Why a device may have no work to show, in the order in which one explains the other.
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


# Where `nvidia-smi -q -d` shows a reading, by a part of its name.
SECTIONS = {
    "temperature": "TEMPERATURE",
    "power": "POWER",
    "clock_event": "PERFORMANCE",
    "clock": "CLOCK",
    "utilization": "UTILIZATION",
}


class DeviceEvidence:
    """The evidence about one promised device."""

    def __init__(self, evidence: "Evidence", device: PromisedDevice) -> None:
        self.evidence = evidence
        self.device = device
        self.subject = device.subject
        self.node_name = device.node

    @property
    def found(self) -> bool:
        """Whether a device answered for this subject."""
        return self.subject in self.evidence.recording.gpus

    def require_found(self) -> None:
        """NotMeasured where none did."""
        if not self.found:
            raise NotMeasured(f"{self.subject} was not found")

    @property
    def identity(self) -> GpuIdentity:
        """The device that answered; NotMeasured where none did."""
        self.require_found()
        return self.evidence.recording.gpus[self.subject]

    @property
    def enforced_power_w(self) -> float:
        """The power limit in force; NotMeasured where NVML does not say it."""
        limit_w = self.identity.power_limit_w
        if limit_w is None or not 0 < limit_w < math.inf:
            raise NotMeasured("NVML does not report the enforced power limit")
        return limit_w

    @property
    def has_no_power_limit(self) -> bool:
        """Whether the card has none to report: by its SKU's file, or a card of no SKU that reports none."""
        return self.lacks_sensor("power_limit_w") or self.device.sku is None

    def enforced_power_within(self, window: Window) -> float | None:
        """W, the median of the limits that were read in a window, else the one at the start; None: no limit.

        A laptop's limit moves with Dynamic Boost.
        """

        def median_w() -> float | None:
            read = self.loaded_samples(window).readings("power_limit_w").values
            limit_w = median(read) if read else self.identity.power_limit_w
            return limit_w if limit_w is not None and 0 < limit_w < math.inf else None

        return self.evidence.held(("power limit", self.subject, window), median_w)

    @property
    def is_cpu(self) -> bool:
        """Whether the CPU is promised as the device."""
        return self.device.gpu.device == "cpu"

    @property
    def silicon(self) -> Silicon:
        """What it is made of; NotMeasured where it was not found."""

        def known() -> Silicon:
            found = (self.device, self.identity, tuple(self.workers), self.evidence.loaded)
            return Silicon(*found, self._highest_mhz())

        return self.evidence.held(("silicon", self.subject), known)

    def _highest_mhz(self) -> float | None:
        """NVML's highest SM clock; of an overclocked card, which reads more, the highest that was read."""
        stated_mhz = self.identity.sm_clock_max_mhz
        if stated_mhz is None:
            return None
        read = self.samples.readings("sm_clock_mhz").values
        highest_mhz: float = max([stated_mhz, *(one for one in read if one <= OVERCLOCK_RATIO * stated_mhz)])
        return highest_mhz

    @property
    def sku_file(self) -> str:
        """The SKU's file, as users know it."""
        return f"hwprofiles/gpus/{self.device.sku_stem}.toml"

    def limit(self, name: str, stage: str = "") -> Limit:
        """A limit of the profile, or of a stage's table there; NotMeasured where it states none."""
        limit = self.optional_limit(name, stage)
        if limit is None:
            raise NotMeasured(f"the profile has no {_limit_key(name, stage)}")
        return limit

    def optional_limit(self, name: str, stage: str = "") -> Limit | None:
        """The same, or None."""

        def stated() -> Limit | None:
            value = getattr(self.device.stages[stage] if stage else self.device.limits, name)
            return None if value is None else Limit(float(value), self.source_of(_limit_key(name, stage)))

        return self.evidence.held(("limit", self.subject, name, stage), stated)

    def source_of(self, key: str) -> str:
        """The file that says this about the device: its own entry, else the rig's."""
        return self.evidence.source_of(f"{self.device.key}.{key}", key)

    def lacks_sensor(self, *names: str) -> bool:
        """Whether the SKU's file lists one as not answered; `power` there stands for `power_w` too."""
        sku = self.device.sku
        listed = () if sku is None else sku.unsupported_sensors
        return any(name == one or name.startswith(f"{one}_") for name in names for one in listed)

    # What was recorded

    @property
    def samples(self) -> Stretch[GpuSample]:
        """All samples of the run, in the order of time."""
        return self.series.items

    @property
    def series(self) -> Series[GpuSample]:
        """The same, with what they read as columns."""
        return self.evidence.gpu_samples(self.subject)

    def loaded_samples(self, window: Window) -> Stretch[GpuSample]:
        """The samples inside a window."""
        return self.series.within(window)

    def loaded_readings(self, window: Window, field: str, what: str) -> Readings:
        """Enough readings of one sensor inside the window, else NotMeasured."""

        def covering() -> Readings:
            samples = self.loaded_samples(window)
            pairs = samples.readings(field)
            if not pairs and self.lacks_sensor(field):
                raise NotApplicable(f"this card's driver reports no {what}")
            if not pairs and samples:  # it answers, but not this
                raise NotMeasured(f"no {what} was read under load; {self._where_to_look(field)}")
            self.evidence.require_coverage(pairs.times_s, window, self.limit("sample_coverage_share"), what)
            return pairs

        return self.evidence.held(("covering", self.subject, window, field), covering)

    def _where_to_look(self, field: str) -> str:
        """What to do about a sensor that gave nothing while others did."""
        section = next((name for part, name in SECTIONS.items() if part in field), "")
        query = f"`nvidia-smi -q{f' -d {section}' if section else ''}`"
        listed = (
            f"unsupported_sensors of {self.sku_file}" if self.device.sku_stem else "the SKU file of its model"
        )
        told = f"check {query} on {self.device.node}"
        return f"{told}; a sensor that its driver does not have is listed in {listed}"

    def rounds(self, stage: str) -> Rounds:
        """The rounds of one stage that this device did: not those of the CPU in place of a GPU.

        Raises NotMeasured where one of them is no valid measurement.
        """
        return self.evidence.held(("stage", self.subject, stage), lambda: self._valid_rounds(stage))

    def possible(self, rounds: Rounds) -> Rounds:
        """The same rounds, for a rate. NotMeasured where one is faster than the device's silicon can be.

        What it can be is known of arithmetic alone.
        """
        arithmetic = rounds.only(rounds.same("unit", TFLOP))
        if self.found and not self.is_cpu and len(arithmetic):
            self.silicon.require_possible(arithmetic.fastest().items())
        return rounds

    def _valid_rounds(self, stage: str) -> Rounds:
        everything = self.all_rounds
        found = everything.only(everything.same("stage", stage))
        own = found.only(found.same("device", None, self.device.gpu.device))
        return require_valid(own, stage, self.evidence.kinds)

    @property
    def all_rounds(self) -> Rounds:
        """The rounds of all stages, as recorded, those of the CPU in place of a GPU too."""
        return self.evidence.rounds(self.subject)

    def records(self, kind: type[Kept], stage: str) -> list[Kept]:
        """What one stage recorded of a type of its own."""
        return [one for one in self.evidence.records(kind, self.subject) if one.stage == stage]

    @property
    def memory(self) -> Stretch[MemoryReading]:
        """Allocator readings of all its workers."""
        return self.evidence.memory(self.subject).items

    def counters(self, moment: str) -> GpuCounters | None:
        """Error counters: the first reading before the load, or the last after it."""
        found = [one for one in self.evidence.counters(self.subject).items if one.moment == moment]
        return None if not found else found[0] if moment == "before" else found[-1]

    @property
    def foreign_memory(self) -> ForeignMemory | None:
        """What others held before the run."""
        return self.evidence.recording.foreign_memory.get(self.subject)

    @property
    def planned_workers(self) -> tuple[str, ...]:
        """The names of the workers that were planned here."""
        return tuple(worker.worker for worker in self.evidence.plan.workers_of(self.subject))

    def require_asked_plan(self) -> None:
        """NotMeasured where the profile plans other work here than the run was to do, or none is known."""
        evidence, plan = self.evidence, self.evidence.plan
        if evidence.planned_by is evidence.loaded:
            return
        done, asked = (_work(one.workers_of(self.subject)) for one in (plan, evidence.asked_plan))
        if done != asked:
            both = f"this run was planned with {done} here, and {evidence.loaded.file} plans {asked}"
            raise NotMeasured(f"{both}; run again with it")

    @property
    def workers(self) -> list[WorkerIdentity]:
        """Every process that came up in place of a worker planned here."""
        return self.evidence.workers.get(self.subject, [])

    def events(self, *kinds: str) -> list[Event]:
        """Events that concern this device."""
        return self.evidence.events_of(self.subject, *kinds)

    @property
    def left_out(self) -> str:
        """Why it was left alone on purpose: others hold it; empty where it did any work, or should have."""
        events = self.events("gpu_taken", "gpu_skipped")
        return events[0].message if events and not len(self.all_rounds) else ""

    def cause(self) -> str:
        """The first event that explains why this device did little or nothing; empty where none does."""
        subjects = (self.subject, self.device.node)
        for kind in CAUSES:
            for subject in subjects:
                for event in self.evidence.events_of(subject, kind):
                    return f"{event.message} (at t={event.t_s:.0f} s)"
        return ""


def require_valid(found: Rounds, stage: str, kinds: StageKinds) -> Rounds:
    """The same rounds of one stage; NotMeasured where one of them is no valid measurement."""
    t_s, seconds, work = found.t_s, found.seconds, found.work
    valid = (np.abs(t_s) <= LONGEST_S) & (seconds > 0) & (seconds <= LONGEST_S)
    valid &= (work > 0) & (work < math.inf)
    if not valid.all():
        place = int(np.argmin(valid))
        raise NotMeasured(
            f"a round reports {work[place]:g} {found.all('unit')[place]} in {seconds[place]:g} s "
            f"at t={t_s[place]:g} s, which is no measurement"
        )
    if len(found):
        surplus_s, place = found.surplus(kinds)
        if surplus_s > 0:
            raise NotMeasured(
                f"rounds of {found.all('worker')[place]} in the {stage} stage overlap by "
                f"{surplus_s:.1f} s at t={found.t_s[place]:.0f} s and count twice, "
                "which is no measurement"
            )
    return found


def _limit_key(name: str, stage: str) -> str:
    return f"stages.{stage}.{name}" if stage else f"limits.{name}"


def _work(workers: Sequence[WorkerPlan]) -> str:
    """How many workers, what each fills, and the size of its matrices."""
    number = f"{len(workers)} worker{'' if len(workers) == 1 else 's'}"
    each = {f"{one.vram_mib / 1024:.2f} GiB and matrices of {one.gemm_size}" for one in workers}
    return f"{number} of {' or '.join(sorted(each))}" if each else number


class NodeEvidence:
    """The evidence about one promised node."""

    def __init__(self, evidence: "Evidence", node: Node) -> None:
        self.evidence = evidence
        self.node = node
        self.subject = self.node_name = node.name

    @property
    def found(self) -> bool:
        """Whether the node answered."""
        return self.subject in self.evidence.recording.nodes

    def require_found(self) -> None:
        """NotMeasured where it did not."""
        if not self.found:
            raise NotMeasured(f"{self.subject} was not found")

    @property
    def identity(self) -> NodeIdentity:
        """The node that answered; NotMeasured where it did not."""
        self.require_found()
        return self.evidence.recording.nodes[self.subject]

    @property
    def cpu(self) -> CpuLoad:
        """The node's CPU band, its own or the rig's."""
        return self.evidence.loaded.cpu_of(self.subject)

    def limit(self, table: str, name: str, value: float) -> Limit:
        """A value of a table that rig and node can have, with its source."""
        source = self.evidence.source_of(f"nodes.{self.subject}.{table}.{name}", f"{table}.{name}")
        return Limit(float(value), source)

    def loaded_samples(self, window: Window) -> Stretch[HostSample]:
        """The samples inside a window."""
        return self.evidence.host_samples(self.subject).within(window)

    def coverage_limit(self) -> Limit:
        """The share of due samples under which nothing was measured."""
        loaded = self.evidence.loaded
        value = loaded.rig.limits.sample_coverage_share
        if value is None:
            raise NotMeasured("the profile has no limits.sample_coverage_share")
        return Limit(value, self.evidence.source_of("limits.sample_coverage_share"))

    def events(self, *kinds: str) -> list[Event]:
        """Events that concern this node."""
        return self.evidence.events_of(self.subject, *kinds)
