"""Every fault that a simulated rig can have: what it hits, what can be said of it, and what it trips.

`trips` are the criteria that have to notice: on the fault's own subject, or on the rig where they judge that.
What else each trips is in docs/faults.md, with the reason.
"""

from dataclasses import dataclass, field
from typing import Literal

from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice

Scope = Literal["gpu", "node", "rig"]
Key = Literal["stage", "after", "for", "by", "to", "code", "field"]
TIMES: tuple[Key, ...] = ("stage", "after", "for")
FROM: tuple[Key, ...] = ("stage", "after")
# The sensors that `field=` can name, and the criterion that misses their readings.
FIELDS = {
    "core_temperature": "thermal.core_temperature",
    "memory_temperature": "thermal.memory_temperature",
    "power": "power.draw",
    "sm_clock": "clock.ratio",
    "utilization": "feeding.idle_gaps",
    "clock_event_reasons": "thermal.throttle",
}
# A clock that stays, the reasons for it and a full utilisation are what a healthy card shows too.
STEADY_FIELDS = ("sm_clock", "clock_event_reasons", "utilization")
# What sensors cannot read; any bits are reasons.
IMPOSSIBLE = {
    "core_temperature": 300.0,
    "memory_temperature": 300.0,
    "power": 9999.0,
    "sm_clock": 30000.0,
    "utilization": 250.0,
}


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A fault by name. `defaults`: values of keys that nobody gives.

    `stage`: what `after` counts in where nobody says another one; each stage declares its faults.
    """

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
    of_task: bool = False  # it hits what a worker does in its stage, and not what follows


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
        keys=FROM,
        defaults=_MID,
    ),
    _node(
        "reset",
        "the host resets under load, and is back after `for=` with another boot id",
        "health.reset",
        keys=TIMES,
        defaults={**_MID, "for": "8"},
        brief=True,
    ),
    _node(
        "reset-before",
        "the host reset under the run before this one, which never ended",
        "health.reset",
        ends=0,
    ),
    _gpu(
        "gpu-missing",
        "the driver lists no such card; of equal ones without a `uuid` the last counts",
        "inventory.gpus_present",
    ),
    _gpu(
        "gpu-hidden",
        "CUDA_VISIBLE_DEVICES of Ray hides the card; of equal ones without a `uuid` the last counts",
        "inventory.gpus_present",
    ),
    _gpu(
        "gpu-lost",
        "the card falls off the bus: Xid 79, and GPU_IS_LOST from then on",
        "inventory.gpus_present",
        "health.xid",
        keys=FROM,
        defaults=_MID,
    ),
    _gpu(
        "gpu-idle",
        "its workers hardly get to work, and it draws next to nothing",
        "activity.gpu_active",
        keys=TIMES,
        of_task=True,
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
        keys=(*TIMES, "by"),
        defaults={"by": "10%"},
        needs="peers",
    ),
    _gpu(
        "throughput-sag",
        "the rate falls inside the run",
        "throughput.stability",
        keys=(*TIMES, "by"),
        defaults={"by": "12%", "after": "70%"},
    ),
    _gpu(
        "overheat",
        "the cooling fails: the core passes its limit; to= is where it settles, °C",
        "thermal.core_temperature",
        keys=(*TIMES, "to"),
        defaults=_PART,
    ),
    _gpu(
        "heat-spike",
        "the core loses its heatsink for a moment, and passes what is never allowed",
        "thermal.core_temperature",
        keys=(*TIMES, "to"),
        defaults={**_MID, "for": "0.75"},
        needs="never_limit",
        brief=True,
    ),
    _gpu(
        "early-heat",
        "the cooling weakens: the core comes near its limit",
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
        keys=("stage", "to"),
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
        keys=("stage", "to"),
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
        "clock-locked",
        "somebody set the SM clock (reason 0x2); to= is in MHz",
        "clock.ratio",
        keys=(*TIMES, "to"),
        ends=0,
    ),
    _gpu(
        "clock-drops-idle",
        "the card lets its clock go while it waits for rewards",
        "clock.ratio",
        stage="feeding",
        keys=("stage", "to"),
        needs="feeding",
    ),
    _gpu(
        "pcie-degraded",
        "the link trained down; to= is the generation",
        "transfer.link",
        keys=(*TIMES, "to"),
    ),
    _gpu(
        "pcie-replays",
        "the link repeats packets",
        "transfer.link",
        keys=(*FROM, "to"),
        defaults=_MID,
        ends=0,
    ),
    _gpu(
        "ecc-uncorrected",
        "a double-bit error: it is counted, Xid 48 (and 95 with row remapping) is raised, and what runs ends",
        "memory.ecc",
        keys=FROM,
        defaults=_MID,
        needs="ecc",
    ),
    _gpu(
        "ecc-corrected-rate",
        "corrected errors climb during the run",
        "memory.ecc",
        keys=FROM,
        defaults={"after": "20%"},
        needs="ecc",
        ends=0,
    ),
    _gpu(
        "row-remap-pending",
        "a memory row waits for its remap",
        "memory.row_remap",
        keys=FROM,
        defaults=_MID,
        needs="row_remap",
    ),
    _gpu(
        "row-remap-failed",
        "a memory row could not be remapped",
        "memory.row_remap",
        keys=FROM,
        defaults=_MID,
        needs="row_remap",
    ),
    _gpu(
        "xid",
        "the driver reports an Xid; code= says which",
        "health.xid",
        keys=(*FROM, "code"),
        defaults={"after": "50%", "code": "48"},
    ),
    _gpu(
        "recovery-wanted",
        "the driver wants the card reset, and reports no Xid; to= is another NVML recovery action",
        "health.xid",
        keys=(*FROM, "to"),
        defaults=_MID,
    ),
    _gpu(
        "nvml-hang",
        "NVML calls for the card never return",
        "cluster.no_timeouts",
        keys=FROM,
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
        keys=(*TIMES, "field"),
        defaults={"field": "core_temperature"},
        ends=6,
    ),
    _gpu(
        "sensor-frozen",
        "a sensor repeats what it read when it froze; field= says which",
        "power.draw",
        keys=(*FROM, "field"),
        defaults={"field": "power", "after": "30%"},
        ends=6,
    ),
    _gpu(
        "sensor-shifted",
        "a sensor reads too little (by=15%), or late (by=5s); field= says which",
        "power.draw",
        keys=(*TIMES, "by", "field"),
        defaults={"field": "power", "by": "15%", "after": "30%"},
        ends=6,
    ),
    _gpu(
        "sensor-impossible",
        "a sensor reads what cannot be; field= says which, to= what",
        "power.draw",
        keys=(*TIMES, "to", "field"),
        defaults={"field": "power", "after": "30%"},
        ends=6,
    ),
    _gpu(
        "telemetry-gap",
        "the card's samples are lost, and nobody says so",
        "thermal.core_temperature",
        "thermal.throttle",
        "power.draw",
        "clock.ratio",
        keys=TIMES,
        defaults={"after": "81%", "for": "19%"},
        ends=6,
    ),
    _gpu("oom", "allocations fail for want of memory", "memory.no_oom"),
    _gpu(
        "oom-retry",
        "allocations succeed only after the cache was emptied",
        "memory.no_oom",
        keys=FROM,
        defaults=_MID,
        ends=0,
        of_task=True,
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
        "memory-taken",
        "after the start others take memory of the card, all but a little; to= is in MiB",
        "memory.headroom",
        keys=("to",),
    ),
    _gpu(
        "half-filled",
        "a worker fills half of the memory that it was given, and says nothing of it",
        "memory.no_oom",
        ends=6,
    ),
    _gpu(
        "wrong-arithmetic",
        "the same wrong result every time: it agrees with itself, and with no other card",
        "compute.exact",
        needs="peers",
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
        "compute.exact",
        keys=TIMES,
        defaults={"after": "50%", "for": "30%"},
        of_task=True,
    ),
    _gpu(
        "hung-kernel",
        "a kernel never ends: no further round",
        "cluster.no_timeouts",
        keys=FROM,
        defaults={"after": "30%"},
        of_task=True,
    ),
    _gpu(
        "worker-killed",
        "a worker's process is killed",
        "cluster.no_timeouts",
        keys=FROM,
        defaults=_MID,
    ),
    _gpu(
        "worker-frozen",
        "a worker's process does not answer any more",
        "cluster.no_timeouts",
        keys=FROM,
        defaults={"after": "30%"},
    ),
    _gpu(
        "timeout",
        "a worker's task does not end at its end",
        "cluster.no_timeouts",
        keys=("stage",),
        of_task=True,
    ),
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
        "training.step",
        stage="training",
        keys=("stage",),
        needs="training_speedup",
    ),
    _gpu(
        "rewards-slow",
        "the pool plays its strategies one after the other",
        "feeding.parallel_rewards",
        stage="feeding",
        keys=("stage",),
        needs="feeding",
    ),
    _gpu(
        "rewards-differ",
        "the pool gives other rewards than the sequential run",
        "feeding.parallel_rewards",
        stage="feeding",
        keys=("stage",),
        needs="feeding",
    ),
    _gpu(
        "rewards-crash",
        "every strategy that is played beside the generation crashes",
        "feeding.parallel_rewards",
        stage="feeding",
        keys=("stage",),
        needs="feeding",
    ),
    _gpu(
        "gpu-starved",
        "rewards are late, and the card waits for them",
        "feeding.idle_gaps",
        stage="feeding",
        keys=("stage", "by"),
        defaults={"by": "20%"},
        needs="feeding",
    ),
    _gpu(
        "gpu-half-used",
        "NVML's utilisation is low while the card generates; to= is in %",
        "feeding.idle_gaps",
        stage="feeding",
        keys=("stage", "to"),
        needs="feeding",
    ),
    _gpu(
        "sharing-collapse",
        "processes that share the card keep each other from working",
        "scaling.sharing",
        stage="sharing",
        keys=("stage", "by"),
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


def unseen_field(  # noqa: PLR0917
    kind: FaultKind,
    sensor: str,
    device: PromisedDevice | None,
    stages: tuple[str, ...],
    kinds: StageKinds,
    within: str | None = None,
) -> str:
    """Why nothing could notice that this sensor is missing or frozen, in words; empty where something can.

    `stages` are the level's, `within` the one that the fault is kept to.
    """
    sku = device.sku if device is not None else None
    if kind.name == "sensor-frozen" and _steady(within or kind.stage, sensor, stages, kinds):
        return _steady(within or kind.stage, sensor, stages, kinds)
    if kind.name == "sensor-impossible" and sensor not in IMPOSSIBLE:
        return f"any {sensor} can be"
    if kind.name == "sensor-shifted" and sensor != "power":
        return f"nothing else tells what {sensor} should read"
    if sku is not None and sensor in sku.unsupported_sensors:
        return "its driver reports no such sensor"
    if sensor == "utilization" and "feeding" not in ((within,) if within else stages):
        return "the level has no feeding stage; take another --level"
    return ""


def _steady(stage: str, sensor: str, stages: tuple[str, ...], kinds: StageKinds) -> str:
    if sensor in STEADY_FIELDS:
        return f"a reading of {sensor} that stays the same is what a healthy card shows too"
    later = stages[stages.index(stage) + 1 :]
    if sensor.endswith("temperature") and not any(kinds.with_duty(later, ("bursts", "arms"))):
        return (
            f"after the {stage} stage the power never changes for so long that a healthy one would not stay "
            "the same too; take another --level or stage"
        )
    return ""


def unjudged(kind: FaultKind, loaded: LoadedRig, device: PromisedDevice | None, stage: str) -> str:
    """Why nothing could notice a slow card in that stage, in words; empty where something can."""
    if kind.name != "throughput-sag" or stage != "training" or device is None:
        return ""
    equal = [one for one in loaded.devices() if one.sku_stem == device.sku_stem]
    known = device.sku is not None and device.sku.steady.figure("training_tflops") is not None
    return (
        "" if known or len(equal) > 1 else "nobody has measured this card's training step, and it has no peer"
    )


def lacks(kind: FaultKind, loaded: LoadedRig, device: PromisedDevice | None, stages: tuple[str, ...]) -> str:
    """Why nothing could notice this fault on this device of this rig, in words; empty where something can."""
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
        "cpu_band": (loaded.rig.cpu.enabled, "cpu.enabled = false"),
        "training_speedup": (
            (
                device is not None
                and getattr(device.stages.get("training"), "training_speedup", None) is not None
            )
            or (sku is not None and sku.steady.figure("training_speedup") is not None),
            "no speed-up is known of this card",
        ),
        "feeding": ("feeding" in stages, "the level has no feeding stage"),
        "sharing": ("sharing" in stages, "the level has no sharing stage"),
    }
    has, why = there[kind.needs]
    return "" if has else why
