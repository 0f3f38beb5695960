"""Every fault that a simulated rig can have: what it hits, what can be said of it, and what it trips.

`trips` are the criteria that have to notice: on the fault's own subject, or on the rig where they judge that.
What else each trips is in docs/faults.md, with the reason.
"""

from dataclasses import dataclass, field
from typing import Literal

from rigproof.profiles.loaded import LoadedRig, PromisedDevice

Scope = Literal["gpu", "node", "rig"]
Key = Literal["after", "for", "by", "to", "code", "field"]
TIMES: tuple[Key, ...] = ("after", "for")
# The sensors that `field=` can name, and the criterion that misses their readings.
FIELDS = {
    "core_temperature": "thermal.core_temperature",
    "memory_temperature": "thermal.memory_temperature",
    "power": "power.draw",
    "sm_clock": "clock.ratio",
    "utilization": "feeding.idle_gaps",
    "clock_event_reasons": "thermal.throttle",
}
# A clock that stays, and the reasons for it, are what a healthy card shows too.
STEADY_FIELDS = ("sm_clock", "clock_event_reasons")


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A fault by name. `defaults`: values of keys that nobody gives. `stage`: what `after` counts in."""

    name: str
    scope: Scope
    what: str
    trips: tuple[str, ...]
    keys: tuple[Key, ...] = ()
    stage: str = "sustained"
    defaults: dict[str, str] = field(default_factory=dict)
    needs: str | None = None  # what the card or profile must have: a key of NEEDS
    ends: int = 1  # the exit status that it leads to by itself
    brief: bool = False  # it ends by itself: its length stays where only `after` is given


def _gpu(name: str, what: str, *trips: str, **more: object) -> FaultKind:
    return FaultKind(name, "gpu", what, trips, **more)  # type: ignore[arg-type]


def _node(name: str, what: str, *trips: str, **more: object) -> FaultKind:
    return FaultKind(name, "node", what, trips, **more)  # type: ignore[arg-type]


_MID = {"after": "50%"}
_PART = {"after": "40%", "for": "30%"}

KINDS: tuple[FaultKind, ...] = (
    _node("node-missing", "a promised node never joins the cluster", "cluster.nodes_present"),
    _node(
        "node-lost",
        "a node leaves the cluster while it works",
        "cluster.nodes_present",
        keys=("after",),
        defaults=_MID,
    ),
    _gpu(
        "gpu-missing",
        "the driver lists no such card; of equal ones without a `uuid` the last counts",
        "inventory.gpus_present",
    ),
    _gpu(
        "gpu-lost",
        "the card falls off the bus: Xid 79, and GPU_IS_LOST from then on",
        "inventory.gpus_present",
        "health.xid",
        keys=("after",),
        defaults=_MID,
    ),
    _gpu(
        "gpu-idle",
        "its workers hardly get to work, and it draws next to nothing",
        "activity.gpu_active",
        keys=TIMES,
    ),
    _gpu(
        "wrong-gpu",
        "every worker of the rig lands on this card",
        "distribution.workers_spread",
        needs="other_gpus",
    ),
    _gpu(
        "straggler",
        "slower than its peers of the same SKU, within its floor",
        "throughput.peer_outlier",
        keys=("after", "for", "by"),
        defaults={"by": "10%"},
        needs="peers",
    ),
    _gpu(
        "throughput-sag",
        "the rate falls inside the run",
        "throughput.stability",
        keys=("after", "for", "by"),
        defaults={"by": "12%", "after": "70%"},
    ),
    _gpu(
        "overheat",
        "the core passes its limit",
        "thermal.core_temperature",
        keys=(*TIMES, "to"),
        defaults=_PART,
    ),
    _gpu(
        "heat-spike",
        "a single reading of the core over what is never allowed",
        "thermal.core_temperature",
        keys=("after", "to"),
        defaults=_MID,
        needs="never_limit",
    ),
    _gpu(
        "early-heat",
        "the core comes near its limit",
        "thermal.core_temperature",
        keys=(*TIMES, "to"),
        defaults=_PART,
        needs="warn_limit",
        ends=0,
    ),
    _gpu(
        "temperature-out-of-range",
        "the core leaves the working range while the card is fed",
        "thermal.core_temperature",
        keys=("to",),
        stage="feeding",
        needs="working_temperature",
    ),
    _gpu(
        "memory-overheat",
        "the memory passes its limit while the core is cool",
        "thermal.memory_temperature",
        keys=(*TIMES, "to"),
        defaults=_PART,
        needs="memory_temperature",
    ),
    _gpu(
        "thermal-throttle",
        "the driver lowers the clock for heat (reason 0x40)",
        "thermal.throttle",
        keys=(*TIMES, "by"),
        defaults={"by": "40%"},
    ),
    _gpu(
        "power-brake",
        "the power supply pulls the brake (reason 0x80)",
        "thermal.throttle",
        keys=(*TIMES, "by"),
        defaults={"by": "5%", **_PART},
    ),
    _gpu(
        "power-capped",
        "somebody lowered the power limit; to= is in W",
        "power.limit",
        keys=("to",),
        needs="no_power_range",
        ends=0,
    ),
    _gpu(
        "power-limit-off",
        "the enforced power limit is outside the range that the rig states",
        "power.limit",
        keys=("to",),
        needs="power_range",
    ),
    _gpu(
        "power-over-limit",
        "the card draws more than its enforced limit",
        "power.draw",
        keys=(*TIMES, "by"),
        defaults={"by": "10%", "after": "50%"},
    ),
    _gpu(
        "power-out-of-range",
        "the mean power leaves the working range while the card is fed",
        "power.draw",
        keys=("to",),
        stage="feeding",
        needs="working_power",
    ),
    _gpu(
        "clock-stuck",
        "the SM clock stays low, and the driver gives no reason; to= is in MHz",
        "clock.ratio",
        keys=(*TIMES, "to"),
    ),
    _gpu(
        "clock-drops-idle",
        "the card lets its clock go while it waits for rewards",
        "clock.ratio",
        stage="feeding",
        keys=("to",),
        needs="feeding",
    ),
    _gpu(
        "pcie-degraded",
        "the link trained down; to= is the generation",
        "transfer.link",
        keys=("to",),
    ),
    _gpu(
        "pcie-replays",
        "the link repeats packets",
        "transfer.link",
        keys=("after", "to"),
        defaults=_MID,
        ends=0,
    ),
    _gpu(
        "ecc-uncorrected",
        "a double-bit error is counted during the run",
        "memory.ecc",
        keys=("after",),
        defaults=_MID,
        needs="ecc",
    ),
    _gpu(
        "ecc-corrected-rate",
        "corrected errors climb during the run",
        "memory.ecc",
        keys=("after",),
        defaults={"after": "20%"},
        needs="ecc",
        ends=0,
    ),
    _gpu(
        "row-remap-pending",
        "a memory row waits for its remap",
        "memory.row_remap",
        keys=("after",),
        defaults=_MID,
        needs="row_remap",
    ),
    _gpu(
        "row-remap-failed",
        "a memory row could not be remapped",
        "memory.row_remap",
        keys=("after",),
        defaults=_MID,
        needs="row_remap",
    ),
    _gpu(
        "xid",
        "the driver reports an Xid; code= says which",
        "health.xid",
        keys=("after", "code"),
        defaults={"after": "50%", "code": "48"},
    ),
    _gpu(
        "nvml-hang",
        "NVML calls for the card never return",
        "cluster.no_timeouts",
        keys=("after",),
        defaults=_MID,
    ),
    _node(
        "driver-mismatch",
        "kernel module and library differ: NVML does not start",
        "inventory.driver",
    ),
    _gpu(
        "sensor-missing",
        "a sensor that the card should have does not answer; field= says which",
        "thermal.core_temperature",
        keys=("field",),
        defaults={"field": "core_temperature"},
        ends=6,
    ),
    _gpu(
        "sensor-frozen",
        "a sensor repeats its first reading; field= says which",
        "power.draw",
        keys=("field",),
        defaults={"field": "power"},
        ends=6,
    ),
    _gpu("oom", "allocations fail for want of memory", "memory.no_oom"),
    _gpu(
        "oom-retry",
        "allocations succeed only after the cache was emptied",
        "memory.no_oom",
        keys=("after",),
        defaults=_MID,
        ends=0,
    ),
    _gpu(
        "cpu-fallback",
        "memory runs out for good, and the CPU does the card's work",
        "memory.success_rate",
    ),
    _gpu(
        "foreign-memory",
        "a foreign process holds memory of the card; to= is in MiB",
        "inventory.foreign_memory",
        keys=("to",),
    ),
    _gpu(
        "stranger-computes",
        "a process of somebody else comes and computes; by= is its share of the card",
        "activity.undisturbed",
        keys=(*TIMES, "by"),
        defaults={"by": "45%", **_MID},
    ),
    _gpu(
        "stranger-takes-memory",
        "a process of somebody else comes and takes the memory that is free; to= is in MiB",
        "activity.undisturbed",
        keys=(*TIMES, "to"),
        defaults=_MID,
    ),
    _gpu(
        "stranger-crashes",
        "a process of somebody else comes and ends by an illegal access, which the driver reports as Xid 31",
        "activity.undisturbed",
        keys=TIMES,
        defaults={**_MID, "for": "5"},
        brief=True,
    ),
    _gpu(
        "bit-flip",
        "results differ from their reference, without any event of the driver",
        "activity.gpu_active",
        "memory.success_rate",
        keys=TIMES,
        defaults={"after": "50%", "for": "30%"},
    ),
    _gpu(
        "hung-kernel",
        "a kernel never ends: no further round",
        "cluster.no_timeouts",
        keys=("after",),
        defaults={"after": "30%"},
    ),
    _gpu(
        "worker-killed",
        "a worker's process is killed",
        "cluster.no_timeouts",
        keys=("after",),
        defaults=_MID,
    ),
    _gpu(
        "worker-frozen",
        "a worker's process does not answer any more",
        "cluster.no_timeouts",
        keys=("after",),
        defaults={"after": "30%"},
    ),
    _gpu("timeout", "a worker's task does not end at its end", "cluster.no_timeouts"),
    _node(
        "cpu-saturated",
        "something else takes the whole CPU, and wake-ups come late",
        "host.cpu_band",
        "host.responsiveness",
        keys=TIMES,
        needs="cpu_band",
    ),
    _node(
        "cpu-starved",
        "a quota keeps the CPU load under its band",
        "host.cpu_band",
        keys=(*TIMES, "to"),
        needs="cpu_band",
    ),
    _node(
        "host-frozen",
        "the host stands still for a while",
        "host.responsiveness",
        keys=TIMES,
        defaults={"after": "50%", "for": "5"},
        brief=True,
    ),
    _gpu(
        "tensor-cores-unused",
        "16-bit training steps take as long as 32-bit ones",
        "precision.speedup",
        stage="training",
        needs="training_speedup",
    ),
    _gpu(
        "rewards-slow",
        "the pool plays its strategies one after the other",
        "feeding.parallel_rewards",
        stage="feeding",
        needs="feeding",
    ),
    _gpu(
        "rewards-differ",
        "the pool gives other rewards than the sequential run",
        "feeding.parallel_rewards",
        stage="feeding",
        needs="feeding",
    ),
    _gpu(
        "gpu-starved",
        "rewards are late, and the card waits for them",
        "feeding.idle_gaps",
        stage="feeding",
        keys=("by",),
        defaults={"by": "20%"},
        needs="feeding",
    ),
    _gpu(
        "gpu-half-used",
        "NVML's utilisation is low while the card generates; to= is in %",
        "feeding.idle_gaps",
        stage="feeding",
        keys=("to",),
        needs="feeding",
    ),
    _gpu(
        "sharing-collapse",
        "processes that share the card keep each other from working",
        "scaling.sharing",
        stage="sharing",
        keys=("by",),
        defaults={"by": "50%"},
        needs="sharing",
    ),
)
BY_NAME = {kind.name: kind for kind in KINDS}
# Named by the fault catalogue; the criterion that has to catch each is not there yet.
ARRIVES_WITH = {
    "nvlink-down": "transfer.peer",
    "vram-stuck-bit": "memory.pattern",
    "vram-soft-error": "memory.pattern",
}


def unseen_field(kind: FaultKind, sensor: str, device: PromisedDevice | None, stages: tuple[str, ...]) -> str:
    """Why nothing could notice that this sensor is missing or frozen, in words; empty where something can."""
    sku = device.sku if device is not None else None
    if sensor in STEADY_FIELDS and kind.name == "sensor-frozen":
        return f"a reading of {sensor} that stays the same is what a healthy card shows too"
    if sku is not None and sensor in sku.unsupported_sensors:
        return "its driver reports no such sensor"
    if sensor == "utilization" and "feeding" not in stages:
        return "the level has no feeding stage; take another --level"
    return ""


def lacks(kind: FaultKind, loaded: LoadedRig, device: PromisedDevice | None, stages: tuple[str, ...]) -> str:
    """Why nothing could notice this fault on this device of this rig, in words; empty where something can."""
    if kind.stage != "sustained" and kind.stage not in stages:
        return f"the level has no {kind.stage} stage; take another --level"
    if kind.needs is None:
        return ""
    limits = device.limits if device is not None else loaded.rig.limits
    sku = device.sku if device is not None else None
    missing = sku.unsupported_sensors if sku is not None else ()
    cuda = [one for one in loaded.devices() if one.gpu.device == "cuda"]
    peers = [one for one in cuda if device is not None and one.sku_stem == device.sku_stem]
    there = {
        "other_gpus": (len(cuda) > 1, "the rig has one GPU only"),
        "peers": (len(peers) > 1, "the rig has no other GPU of that SKU"),
        "never_limit": (limits.core_temperature_never_c is not None, "no limits.core_temperature_never_c"),
        "warn_limit": (limits.core_temperature_warn_c is not None, "no limits.core_temperature_warn_c"),
        "working_temperature": (limits.working_temperature_c is not None, "no limits.working_temperature_c"),
        "working_power": (limits.working_power_w is not None, "no limits.working_power_w"),
        "power_range": (limits.power_limit_w is not None, "no limits.power_limit_w"),
        "no_power_range": (limits.power_limit_w is None, "limits.power_limit_w: take power-limit-off"),
        "memory_temperature": ("memory_temperature" not in missing, "its driver reports no such sensor"),
        "ecc": ("ecc" not in missing, "its driver counts no ECC errors"),
        "row_remap": ("row_remap" not in missing, "its driver reports no remapped rows"),
        "cpu_band": (loaded.rig.cpu.enabled is not False, "cpu.enabled = false"),
        "training_speedup": (
            limits.training_speedup is not None or (sku is not None and sku.training_speedup is not None),
            "no speed-up is known of this card",
        ),
        "feeding": ("feeding" in stages, "the level has no feeding stage"),
        "sharing": ("sharing" in stages, "the level has no sharing stage"),
    }
    has, why = there[kind.needs]
    return "" if has else why
