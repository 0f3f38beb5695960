"""Faults, each put into a healthy rig's Recording as it shows there, with all verdicts that it changes."""

from collections.abc import Callable
from dataclasses import dataclass

from support import fault_changes as changes
from support.bench import Bench
from support.fault_changes import GPU, LONE_WORKER, OTHER, WORKER
from support.peers import slow_peer
from support.rig_profile import RATES

GEMM = tuple(f"throughput.gemm_{precision}" for precision in RATES)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault by its name in the catalogue. `fails` and `warns` are all (criterion, subject) that do.

    `disturbed`: those that are not measured because of it, since it is not the rig's.
    """

    name: str
    change: Callable[[Bench], None]
    fails: frozenset[tuple[str, str]]
    warns: frozenset[tuple[str, str]] = frozenset()
    disturbed: frozenset[tuple[str, str]] = frozenset()


def on(subject: str, *criteria: str) -> frozenset[tuple[str, str]]:
    """These criteria on one subject."""
    return frozenset((criterion, subject) for criterion in criteria)


# What a GPU loses with its only worker in the middle of the sustained stage.
WITHOUT_WORK = on(OTHER, "activity.gpu_active", "throughput.sustained", "throughput.stability") | on(
    "rig", "throughput.combined"
)
LOST_WORKER = on("rig", "cluster.no_timeouts") | on(OTHER, "memory.success_rate") | WITHOUT_WORK

FAULTS = (
    Fault(
        "node-missing",
        changes.node_is_missing,
        on("pc2", "cluster.nodes_present") | on(OTHER, "inventory.gpus_present"),
    ),
    Fault("node-lost", changes.node_is_lost, on("pc2", "cluster.nodes_present") | LOST_WORKER),
    Fault("reset", changes.host_restarts, on("pc2", "health.reset")),
    Fault("reset-before", changes.host_restarted_before, frozenset(), on("pc2", "health.reset")),
    Fault(
        "timeout",
        lambda b: b.event("timeout", "rig", "processes [4242] did not end", 73, stage=None, limit_s=10),
        on("rig", "cluster.no_timeouts"),
    ),
    Fault(
        "hung-kernel",
        lambda b: b.lose(LONE_WORKER, "worker_hung", "killed: no finished round for 30 s", 50),
        LOST_WORKER,
    ),
    Fault(
        "worker-killed",
        lambda b: b.lose(LONE_WORKER, "worker_died", "the process is gone: signal 9", 50),
        LOST_WORKER,
    ),
    Fault(
        "worker-frozen",
        lambda b: b.lose(WORKER, "worker_hung", "killed: no answer for 30 s", 55),
        on("rig", "cluster.no_timeouts") | on(GPU, "memory.success_rate", "throughput.stability"),
    ),
    Fault("nvml-hang", changes.nvml_hangs, on("rig", "cluster.no_timeouts")),
    Fault("gpu-missing", changes.gpu_is_missing, on(GPU, "inventory.gpus_present")),
    Fault("gpu-hidden", changes.gpu_is_hidden, frozenset(), disturbed=on(GPU, "inventory.gpus_present")),
    Fault("gpu-lost", changes.gpu_is_lost, on(OTHER, "inventory.gpus_present", "health.xid") | LOST_WORKER),
    Fault("gpu-lost", changes.gpu_is_lost_at_the_end, on(GPU, "inventory.gpus_present")),
    Fault(
        "driver-mismatch",
        lambda b: b.node("pc1", nvml_error="driver/library version mismatch"),
        on("pc1", "inventory.driver"),
    ),
    Fault(
        "driver-mismatch",
        changes.other_drivers,
        on("pc1", "inventory.driver") | on("pc2", "inventory.driver"),
    ),
    Fault(
        "foreign-memory",
        changes.others_hold_memory,
        frozenset(),
        on(GPU, "memory.headroom"),
        on(GPU, "inventory.foreign_memory"),
    ),
    Fault(
        "memory-taken",
        lambda b: changes.leave_free(b, 100),
        frozenset(),
        disturbed=on(GPU, "memory.headroom"),
    ),
    Fault(
        "wrong-gpu",
        changes.all_work_on_one_gpu,
        on(GPU, "distribution.workers_spread") | on(OTHER, "distribution.workers_spread"),
    ),
    Fault(
        "gpu-idle",
        changes.gpu_is_idle,
        on(GPU, "activity.gpu_active", "throughput.sustained", "throughput.stability")
        | on("rig", "throughput.combined"),
    ),
    *(
        Fault(name, change, frozenset(), disturbed=on(GPU, "activity.undisturbed"))
        for name, change in (
            ("stranger-computes", changes.stranger_computes),
            ("stranger-takes-memory", changes.stranger_takes_memory),
            ("stranger-crashes", changes.stranger_crashes),
        )
    ),
    Fault("bit-flip", changes.bit_flips_once, on(GPU, "activity.gpu_active", "compute.exact")),
    Fault(
        "bit-flip",
        changes.every_result_is_wrong,
        on(GPU, "activity.gpu_active", "memory.success_rate", "compute.exact"),
    ),
    *(
        Fault(
            name,
            changes.every_result_is_wrong,
            on(GPU, "activity.gpu_active", "memory.success_rate", "compute.exact"),
        )
        for name in ("wrong-element", "wrong-tile")
    ),
    Fault("wrong-arithmetic", changes.products_differ, on(GPU, "compute.exact") | on(OTHER, "compute.exact")),
    Fault(
        "clock-stuck",
        changes.clock_is_stuck,
        on(GPU, *GEMM, "throughput.sustained", "clock.ratio") | on("rig", "throughput.combined"),
    ),
    Fault(
        "thermal-throttle",
        changes.heat_throttles,
        on(GPU, *GEMM, "throughput.sustained", "thermal.throttle") | on("rig", "throughput.combined"),
    ),
    Fault(
        "power-brake",
        lambda b: b.samples(GPU, 50, 51, clock_event_reasons=0x80),
        on(GPU, "thermal.throttle"),
    ),
    Fault("straggler", slow_peer, on(GPU, "throughput.peer_outlier")),
    Fault("throughput-sag", changes.sag, on(GPU, "throughput.stability")),
    Fault(
        "tensor-cores-unused", changes.tensor_cores_are_unused, on(GPU, "precision.speedup", "training.step")
    ),
    Fault("rewards-slow", changes.rewards_are_slow, on(GPU, "feeding.parallel_rewards")),
    Fault(
        "rewards-differ",
        lambda b: b.rewards(GPU, 94.9, 95.05, matches=lambda one: one.matches and False),
        on(GPU, "feeding.parallel_rewards"),
    ),
    Fault(
        "rewards-crash",
        lambda b: b.rewards(GPU, 97, 112, crashed=lambda one: one.strategies - one.invalid),
        on(GPU, "feeding.parallel_rewards"),
    ),
    Fault("gpu-starved", changes.gpu_is_starved, on(GPU, "feeding.idle_gaps")),
    Fault(
        "gpu-half-used",
        lambda b: b.samples(GPU, 93, 113, utilization_percent=71),
        on(GPU, "feeding.idle_gaps"),
    ),
    Fault("clock-drops-idle", changes.clock_drops, on(GPU, "clock.ratio")),
    Fault("power-out-of-range", changes.power_is_out_of_range, on(GPU, "power.draw")),
    Fault(
        "temperature-out-of-range", changes.temperature_is_out_of_range, on(GPU, "thermal.core_temperature")
    ),
    Fault("sharing-collapse", changes.sharing_collapses, on(GPU, "scaling.sharing")),
    Fault(
        "oom",
        changes.memory_runs_out,
        on(GPU, "memory.no_oom", "memory.success_rate"),
        disturbed=on(GPU, "memory.headroom"),
    ),
    Fault(
        "cpu-fallback",
        changes.cpu_takes_over,
        on(GPU, "memory.no_oom", "memory.success_rate", "activity.gpu_active"),
    ),
    Fault("oom-retry", changes.allocations_are_retried, frozenset(), on(GPU, "memory.no_oom")),
    Fault("ecc-uncorrected", lambda b: b.counters(GPU, "after", ecc_uncorrected=1), on(GPU, "memory.ecc")),
    Fault(
        "ecc-corrected-rate",
        lambda b: b.counters(GPU, "after", ecc_corrected=900),
        frozenset(),
        on(GPU, "memory.ecc"),
    ),
    Fault(
        "row-remap-pending",
        lambda b: b.counters(GPU, "after", remap_pending=True),
        on(GPU, "memory.row_remap"),
    ),
    Fault(
        "row-remap-failed",
        lambda b: b.counters(GPU, "after", remap_failed=True),
        on(GPU, "memory.row_remap"),
    ),
    Fault("mig-on", lambda b: b.gpu(GPU, mig_enabled=True), on(GPU, "inventory.modes")),
    Fault(
        "compute-prohibited",
        lambda b: b.gpu(GPU, compute_mode="prohibited"),
        on(GPU, "inventory.modes"),
    ),
    Fault(
        "persistence-off",
        lambda b: b.gpu(GPU, persistence=False, brand="nvidia"),
        frozenset(),
        on(GPU, "inventory.modes"),
    ),
    Fault("memory-missing", changes.memory_missing, on(GPU, "inventory.gpus_present")),
    Fault("vbios-differs", changes.vbios_differs, frozenset(), on(GPU, "inventory.gpus_present")),
    Fault("torch-too-new", changes.torch_is_too_new, on("pc1", "inventory.driver")),
    Fault(
        "host-limited",
        lambda b: b.node("pc1", cpus=2, ram_gib=16.0),
        frozenset(),
        disturbed=on("pc1", "host.limits"),
    ),
    Fault(
        "host-smaller",
        lambda b: b.node("pc1", cpus=4, ram_gib=96.0, host_cpus=4, host_ram_gib=96.0),
        on("pc1", "host.limits"),
    ),
    Fault("shm-small", lambda b: b.node("pc1", shm_gib=0.0625), frozenset(), on("pc1", "host.limits")),
    Fault("ecc-off", lambda b: b.gpu(GPU, ecc_enabled=False), on(GPU, "health.ecc_mode")),
    Fault(
        "sram-errors",
        lambda b: b.counters(GPU, "after", sram_threshold_exceeded=True),
        on(GPU, "health.defects"),
    ),
    Fault(
        "repair-pending",
        lambda b: b.counters(GPU, "after", tpc_repair_pending=True),
        on(GPU, "health.defects"),
    ),
    Fault(
        "inforom-corrupt", lambda b: b.counters(GPU, "before", inforom_valid=False), on(GPU, "health.defects")
    ),
    Fault(
        "spare-rows-used",
        lambda b: b.counters(GPU, "after", remap_spares=(3071, 0, 0, 1, 0)),
        frozenset(),
        on(GPU, "memory.row_remap"),
    ),
    Fault("nvlink-inactive", changes.nvlink_is_down, on(GPU, "health.nvlink")),
    Fault("nvlink-replays", lambda b: changes.nvlink_errors(b, "replays", 1), on(GPU, "health.nvlink")),
    Fault(
        "nvlink-crc",
        lambda b: changes.nvlink_errors(b, "crc_errors", 9),
        frozenset(),
        on(GPU, "health.nvlink"),
    ),
    Fault("nvlink-crc", lambda b: changes.nvlink_errors(b, "crc_errors", 99_999), on(GPU, "health.nvlink")),
    Fault("fabric-not-started", changes.fabric_is_not_started, on(GPU, "health.fabric")),
    Fault(
        "fabric-unhealthy", lambda b: b.counters(GPU, "after", fabric_health=0x1), on(GPU, "health.fabric")
    ),
    Fault("pcie-degraded", lambda b: b.samples(GPU, 5, pcie_generation=1), on(GPU, "transfer.link")),
    Fault("pcie-degraded", lambda b: b.samples(GPU, pcie_width=8), on(GPU, "transfer.link")),
    Fault("pcie-narrow", lambda b: b.samples(GPU, 5, pcie_width=4), on(GPU, "transfer.link")),
    Fault(
        "pcie-errors",
        lambda b: b.pcie(GPU, 60, port_correctable=lambda one: 3 + 5 * int(one.t_s - 50)),
        on(GPU, "transfer.errors"),
    ),
    Fault("pcie-uncorrected", lambda b: b.pcie(GPU, 60, nonfatal=2), on(GPU, "transfer.errors")),
    Fault(
        "pcie-replays",
        lambda b: b.counters(GPU, "after", pcie_replays=60),
        frozenset(),
        on(GPU, "transfer.link"),
    ),
    Fault(
        "overheat",
        lambda b: b.samples(GPU, 50, 60, core_temperature_c=88),
        on(GPU, "thermal.core_temperature"),
    ),
    Fault("hot-spot", lambda b: b.samples(GPU, 50, 60, thermal_margin_c=-3), on(GPU, "thermal.margin")),
    Fault(
        "hot-spot",
        lambda b: b.samples(GPU, 50, 60, thermal_margin_c=-1),
        frozenset(),
        on(GPU, "thermal.margin"),
    ),
    Fault("heat-spike", changes.heat_spikes, on(GPU, "thermal.core_temperature")),
    Fault("early-heat", changes.heat_comes_near, frozenset(), on(GPU, "thermal.core_temperature")),
    Fault("power-limit-off", changes.power_limit_is_off, on(GPU, "power.limit")),
    Fault("power-capped", lambda b: b.gpu(GPU, power_limit_w=660), frozenset(), on(GPU, "power.limit")),
    Fault("power-capped", lambda b: b.gpu(GPU, power_limit_w=340), on(GPU, "power.limit", "power.draw")),
    Fault(
        "thermal-throttle",
        lambda b: b.samples(GPU, 50, 50.05, clock_event_reasons=0x40),
        frozenset(),
        on(GPU, "thermal.throttle"),
    ),
    Fault(
        "hidden-throttle",
        lambda b: b.counters(GPU, "after", hw_thermal_s=0.4),
        frozenset(),
        on(GPU, "thermal.throttle"),
    ),
    Fault("clock-locked", changes.clock_is_locked, frozenset(), on(GPU, "clock.ratio")),
    Fault(
        "memory-overheat",
        lambda b: b.samples(GPU, 50, 60, memory_temperature_c=96),
        on(GPU, "thermal.memory_temperature"),
    ),
    Fault(
        "power-over-limit",
        lambda b: b.samples(GPU, 55, power_average_w=lambda s: 745 + s.t_s % 3),
        on(GPU, "power.draw"),
    ),
    Fault("xid", lambda b: b.event("xid", GPU, "double-bit ECC error", xid=48), on(GPU, "health.xid")),
    Fault(
        "recovery-wanted",
        lambda b: b.counters(GPU, "after", recovery_action=1),
        on(GPU, "health.xid"),
    ),
    Fault(
        "cpu-saturated",
        changes.cpu_is_saturated,
        frozenset(),
        disturbed=on("pc1", "host.cpu_band", "host.responsiveness"),
    ),
    Fault(
        "cpu-stolen",
        lambda b: b.host("pc1", cpu_percent=66, stolen_percent=17, own_percent=47),
        frozenset(),
        on("pc1", "host.steal"),
        on("pc1", "host.cpu_band"),
    ),
    Fault("cpu-starved", lambda b: b.host("pc1", cpu_percent=31, own_percent=28), on("pc1", "host.cpu_band")),
    Fault("host-frozen", changes.host_freezes, on("pc1", "host.responsiveness")),
    Fault(
        "host-frozen",
        lambda b: b.host("pc1", 50, 50.05, wakeup_delays_ms=(1.0, 300.0)),
        frozenset(),
        on("pc1", "host.responsiveness"),
    ),
)
