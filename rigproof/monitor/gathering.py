"""The agents' reports, folded into the current state of each node and GPU. Time is an argument."""

import math
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TypeVar

from rigproof.cluster.actors.messages import AgentFacts
from rigproof.criteria.evidence.fed import idles
from rigproof.monitor.snapshot import GpuNow, NodeNow
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.limits import Limits
from rigproof.profiles.tables.sku import TemperatureLimits
from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import Event, GpuCounters
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.recording import Record, Sample
from rigproof.records.samples import GpuSample, HostSample

RATE_HZ = 2.0  # enough for viewing; a run in progress reads the same driver
RECENT_S = 5.0  # CPU, wake-up delays and clock-event reasons are over this
STALE_S = 10.0  # anything older is not the current state
ENOUGH_DUE = 10  # readings, before their coverage is judged
FEWEST_DUE = 4  # if none came
ERRORS_KEPT = 10
GONE = frozenset({"node_missing", "node_lost", "agent_died"})  # of a node
SILENT = frozenset({"gpu_missing", "gpu_lost", "timeout"})  # of a GPU

Reading = TypeVar("Reading", GpuSample, HostSample)


class Gathering:
    """Takes records in any order, from several threads. Those of unpromised subjects are left out."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._nodes: dict[str, _Node] = {}
        self._errors: list[str] = []

    def promise(self, loaded: LoadedRig, node: str) -> None:
        """From now on this node, with its GPUs, is shown."""
        with self._lock:
            self._nodes[node] = _Node(loaded, node)

    def begin(self, node: str, facts: AgentFacts, heard: Collection[str], now_s: float) -> None:
        """The node's agent samples from now on; `heard` are the subjects whose Xids it receives."""
        with self._lock:
            self._nodes[node].facts = facts
            for gpu in self._nodes[node].gpus.values():
                gpu.begin(now_s, xids=gpu.device.subject in heard)

    def polled(self, node: str, now_s: float) -> None:
        """The node's agent has answered; its records were added."""
        with self._lock:
            self._nodes[node].polled_s = now_s

    def add(self, record: Record | Sample) -> None:
        """Take one record."""
        with self._lock:
            subject = getattr(record, "subject", "rig")
            node = self._nodes.get(subject.partition("/")[0])
            if node is None:
                if isinstance(record, Event):
                    _note(self._errors, f"{subject}: {record.message}")
                return
            gpu = node.gpus.get(subject)
            if gpu is not None:
                gpu.add(record)
            else:
                node.add(record)

    def nodes(self, now_s: float) -> tuple[NodeNow, ...]:
        """Every promised node as it is at `now_s`, in the order of their promises."""
        with self._lock:
            return tuple(node.now(now_s) for node in self._nodes.values())

    @property
    def complete(self) -> bool:
        """Whether every promised node has been read, or is missing."""
        with self._lock:
            return not any(node.starting for node in self._nodes.values())

    @property
    def errors(self) -> tuple[str, ...]:
        """Errors that belong to no node."""
        with self._lock:
            return tuple(self._errors)


class _Node:
    def __init__(self, loaded: LoadedRig, name: str) -> None:
        devices = [one for one in loaded.devices() if one.node == name and one.gpu.device == "cuda"]
        self.gpus = {device.subject: _Gpu(device) for device in devices}
        self.polled_s: float | None = None
        self.facts: AgentFacts | None = None
        self._name = name
        self._cpu, self._responsiveness = loaded.cpu_of(name), loaded.rig.responsiveness
        self._samples: list[HostSample] = []
        self._gone: str | None = None
        self._errors: list[str] = []

    @property
    def starting(self) -> bool:
        return self._gone is None and not self._samples

    def add(self, record: Record | Sample) -> None:
        match record:
            case HostSample():
                self._gone = None
                self._samples = [*_recent(self._samples, record.t_s - STALE_S), record]
            case Event(kind=kind) if kind in GONE:
                self._gone = "; ".join(filter(None, (record.message, record.data.get("next_step"))))
                self._samples.clear()
            case Event(kind="nvml_error" | "timeout"):
                _note(self._errors, record.message)
            case _:
                pass

    def now(self, now_s: float) -> NodeNow:
        last = self._samples[-1] if self._samples else None
        age_s = None if last is None else max(0.0, now_s - last.t_s)
        sample = HostSample(now_s, self._name)
        delays: list[float] = []
        if last is not None and now_s - last.t_s <= STALE_S:
            recent = _recent(self._samples, last.t_s - RECENT_S)
            sample = replace(last, cpu_percent=_cpu_percent(recent))
            delays = sorted(ms for one in recent for ms in one.wakeup_delays_ms or ())
        return NodeNow(
            name=self._name,
            presence="missing" if self._gone is not None else "starting" if self.starting else "here",
            cpu=self._cpu,
            responsiveness=self._responsiveness,
            sample=sample,
            facts=self.facts,
            reason=self._gone,
            reading_age_s=age_s,
            wakeup_p99_ms=delays[math.ceil(0.99 * len(delays)) - 1] if delays else None,
            wakeup_max_ms=delays[-1] if delays else None,
            errors=tuple(self._errors),
            gpus=tuple(gpu.now(now_s, self.polled_s) for gpu in self.gpus.values()),
        )


class _Gpu:
    def __init__(self, device: PromisedDevice) -> None:
        self.device = device
        self._identity: GpuIdentity | None = None
        self._begun_s: float | None = None
        self._samples: list[GpuSample] = []
        self._idle, self._work = _Lasting(), _Lasting()
        self._counters: list[GpuCounters] = []  # the first and the last
        self._xids: list[int] | None = None
        self._silent: str | None = None
        self._processes: dict[int, GpuProcess] | None = None  # by pid; None: the driver has listed none yet
        self._errors: list[str] = []

    def begin(self, now_s: float, *, xids: bool) -> None:
        self._begun_s = now_s
        self._samples.clear()
        self._idle, self._work = _Lasting(), _Lasting()
        self._processes = None
        self._counters.clear()  # a machine that was started again counts from zero
        self._xids = (self._xids or []) if xids else self._xids

    def add(self, record: Record | Sample) -> None:
        match record:
            case GpuSample():
                if record.power_average_w is None:  # this driver reports only that of the moment
                    record = replace(record, power_average_w=record.power_w)
                self._samples = [*_recent(self._samples, record.t_s - STALE_S), record]
                self._idle.is_so(self._idles(record.utilization_percent, record.power_average_w), record.t_s)
                self._work.is_so(self._works(), record.t_s)
            case GpuIdentity():
                self._identity, self._silent = record, None
            case GpuProcess():
                listed = self._processes = self._processes or {}
                if record.gone:
                    listed.pop(record.pid, None)
                else:
                    listed[record.pid] = record
            case ProcessWatch(readings=readings) if readings:
                self._processes = self._processes or {}
            case GpuCounters():
                self._counters = [*self._counters[:1], record]
            case Event(kind="xid"):
                self._xids = [*(self._xids or []), int(record.data.get("xid", 0))]
            case Event(kind=kind) if kind in SILENT:
                self._silent = record.message
            case Event(kind="nvml_error"):
                _note(self._errors, record.message)
            case _:
                pass

    def now(self, now_s: float, polled_s: float | None) -> GpuNow:
        last = self._samples[-1] if self._samples else None
        age_s = None if last is None else max(0.0, now_s - last.t_s)
        counters = self._new_errors(now_s)
        shown = GpuNow(
            subject=self.device.subject,
            presence="missing" if self._silent is not None else "here" if last is not None else "starting",
            limits=self._limits(),
            sample=GpuSample(now_s, self.device.subject),
            counters=replace(counters, fan_percent=None),
            identity=self._identity,
            uuid=self._identity.uuid if self._identity is not None else self.device.gpu.uuid,
            reason=self._silent,
            reading_age_s=age_s,
            coverage_share=self._coverage_share(polled_s),
            xids=None if self._xids is None else tuple(self._xids),
            errors=tuple(self._errors),
        )
        if last is None or age_s is None or age_s > STALE_S or self._silent is not None:
            return shown
        return replace(
            shown,
            sample=replace(last, clock_event_reasons=self._reasons()),
            counters=counters,
            idle_s=self._idle.length_s(now_s),
            work_s=self._work.length_s(now_s),
            processes=self._listed(),
        )

    def _limits(self) -> Limits:
        """The profile's limits; temperature limits that it leaves open are the card's.

        They have the order of the criteria thermal.core_temperature and thermal.memory_temperature.
        """
        limits, who = self.device.limits, self._identity
        sku = self.device.sku.temperature if self.device.sku is not None else TemperatureLimits()
        core, memory = [limits.core_temperature_c], [limits.memory_temperature_c]
        if who is not None:
            core += [who.temperature_gpu_max_c, who.temperature_slowdown_c]
            memory += [who.temperature_memory_max_c]
        return limits.model_copy(
            update={
                "core_temperature_c": _first(*core, sku.max_operating_c, sku.slowdown_c),
                "memory_temperature_c": _first(*memory, sku.memory_max_c),
            }
        )

    def _idles(self, used_percent: float | None, power_w: float | None) -> bool | None:
        """Whether these are readings of an idle card; None if that is not known."""
        limits = self.device.limits
        used, drawn = limits.active_utilization_share, limits.active_power_share
        if used_percent is None or used is None or drawn is None:
            return None
        limit_w = self._identity.power_limit_w if self._identity is not None else None
        return idles(used_percent, power_w, limit_w, used, drawn)

    def _works(self) -> bool | None:
        """Whether a card works, by the means of the last seconds; some cards at rest draw much power."""
        used = _mean(one.utilization_percent for one in self._samples)
        least = self.device.limits.active_utilization_share
        idle = self._idles(used, _mean(one.power_average_w for one in self._samples))
        if idle is None or used is None or least is None:
            return None
        return not idle and used > 100 * (1 - least)

    def _listed(self) -> tuple[GpuProcess, ...] | None:
        """The card's processes, the one with the most memory first."""
        if self._processes is None:
            return None
        return tuple(sorted(self._processes.values(), key=lambda one: (-(one.used_mib or 0.0), one.pid)))

    def _coverage_share(self, polled_s: float | None) -> float | None:
        """The share of due readings that came, in the seconds before the agent last answered."""
        if self._begun_s is None or polled_s is None or self._silent is not None:
            return None
        window_s = min(STALE_S, polled_s - self._begun_s)
        due = math.floor(window_s * RATE_HZ)
        got = len(_recent(self._samples, polled_s - window_s))
        return min(1.0, got / due) if due >= (ENOUGH_DUE if got else FEWEST_DUE) else None

    def _reasons(self) -> int | None:
        """Every reason that was set in the last seconds: a short slowdown is also seen."""
        recent = _recent(self._samples, self._samples[-1].t_s - RECENT_S)
        masks = [one.clock_event_reasons for one in recent if one.clock_event_reasons is not None]
        return reduce(or_, masks) if masks else None

    def _new_errors(self, now_s: float) -> GpuCounters:
        """The last counters, with the memory errors since the first ones; None where a card counts none."""
        if not self._counters:
            return GpuCounters(now_s, self.device.subject, "after")
        first, last = self._counters[0], self._counters[-1]
        return replace(
            last,
            ecc_uncorrected=_increase(first.ecc_uncorrected, last.ecc_uncorrected),
            ecc_corrected=_increase(first.ecc_corrected, last.ecc_corrected),
        )


class _Lasting:
    """For how long something has been so; None as long as it is not known."""

    def __init__(self) -> None:
        self._known = False
        self._from_s: float | None = None

    def is_so(self, now: bool | None, t_s: float) -> None:
        self._known = now is not None
        self._from_s = (t_s if self._from_s is None else self._from_s) if now else None

    def length_s(self, now_s: float) -> float | None:
        if self._from_s is None:
            return 0.0 if self._known else None
        return max(0.0, now_s - self._from_s)


def _recent(samples: Sequence[Reading], since_s: float) -> list[Reading]:
    return [one for one in samples if one.t_s > since_s]


def _first(*values_c: float | None) -> float | None:
    """The first limit that there is; one ≤ 0 is no limit."""
    return next((value for value in values_c if value is not None and value > 0), None)


def _increase(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None else max(0, last - first)


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are known; None if none is."""
    known = [one for one in values if one is not None]
    return sum(known) / len(known) if known else None


def _cpu_percent(samples: Sequence[HostSample]) -> float | None:
    """The mean; under a quota single samples can be over 100."""
    mean = _mean(one.cpu_percent for one in samples)
    return None if mean is None else min(100.0, mean)


def _note(errors: list[str], message: str) -> None:
    if message not in errors:
        errors.append(message)
        del errors[:-ERRORS_KEPT]
