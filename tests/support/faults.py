"""Faults, each put into a healthy rig's Recording as it shows there, with all verdicts that it changes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from support.bench import Bench
from support.peers import slow_peer
from support.rig_profile import RATES

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
WORKER, LONE_WORKER = "pc1/gpu0#1", "pc2/gpu0#0"  # one of two on its card, and the only one
GEMM = tuple(f"throughput.gemm_{precision}" for precision in RATES)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault by its name in the catalogue. `fails` and `warns` are all (criterion, subject) that do."""

    name: str
    change: Callable[[Bench], None]
    fails: frozenset[tuple[str, str]]
    warns: frozenset[tuple[str, str]] = frozenset()


def on(subject: str, *criteria: str) -> frozenset[tuple[str, str]]:
    """These criteria on one subject."""
    return frozenset((criterion, subject) for criterion in criteria)


# What a GPU loses with its only worker in the middle of the sustained stage.
WITHOUT_WORK = on(OTHER, "activity.gpu_active", "throughput.sustained", "throughput.stability") | on(
    "rig", "throughput.combined"
)
LOST_WORKER = on("rig", "cluster.no_timeouts") | on(OTHER, "memory.success_rate") | WITHOUT_WORK


def node_is_missing(bench: Bench) -> None:
    bench.event("node_missing", "pc2", "pc2 did not join; type `ray start …` on it")
    del bench.recording.nodes["pc2"]
    gpu_is_missing(bench, OTHER)
    bench.recording.host_samples = [one for one in bench.recording.host_samples if one.subject != "pc2"]


def node_is_lost(bench: Bench) -> None:
    bench.event("node_lost", "pc2", "the node is gone: no heartbeat", 50)
    bench.lose(LONE_WORKER, "worker_died", "its node is gone: no heartbeat", 50)
    bench.silence(OTHER, 50)
    for kind in ("host_samples", "boots"):
        kept = [one for one in getattr(bench.recording, kind) if one.subject != "pc2" or one.t_s <= 50]
        setattr(bench.recording, kind, kept)


def host_restarts(bench: Bench) -> None:
    """So fast that nobody missed it; its new agent reads another boot id."""
    bench.boot("pc2", "after", boot_id="00000000-0000-4000-8000-000000000002")


def host_restarted_before(bench: Bench) -> None:
    message = "pc2 restarted 4 s into sustained (bf16), its card at 100 %, last 348 W, 71 °C"
    bench.event("unfinished_run", "pc2", message, 1.5, stage=None, run_id="before", restarted=True)


def gpu_is_missing(bench: Bench, subject: str = GPU) -> None:
    bench.event("gpu_missing", subject, "nvidia-smi lists no card")
    del bench.recording.gpus[subject]
    for kind in ("gpu_samples", "rounds", "memory", "counters", "workers"):
        bench.drop(kind, subject)
    bench.drop("processes", subject)
    bench.recording.foreign_memory.pop(subject)
    bench.recording.process_watches.pop(subject)


def gpu_is_lost(bench: Bench) -> None:
    """It falls off the bus, the driver reports it, and its worker dies of it."""
    bench.event("xid", OTHER, "Xid 79: GPU has fallen off the bus", 50, xid=79)
    bench.event("gpu_lost", OTHER, f"GPU-{OTHER} does not answer any more", 50.1, query="sample")
    bench.lose(LONE_WORKER, "worker_died", "CUDA error 719", 51)
    bench.silence(OTHER, 50)


def gpu_is_lost_at_the_end(bench: Bench) -> None:
    """In the last tenth of the load, without any Xid: enough was sampled and done before."""
    bench.event("gpu_lost", GPU, f"GPU-{GPU} does not answer any more", 68, query="counters")
    bench.silence(GPU, 68)


def nvml_hangs(bench: Bench) -> None:
    message = "NVML has not answered the query “sample” for 30 s"
    bench.event("timeout", GPU, message, 69, stage=None, limit_s=30, query="sample")
    bench.silence(GPU, 66)


def all_work_on_one_gpu(bench: Bench) -> None:
    bench.recording.workers = [replace(one, uuid=f"GPU-{OTHER}") for one in bench.recording.workers]


def gpu_is_idle(bench: Bench) -> None:
    """It draws next to nothing, and its worker ends hardly any round."""
    bench.samples(GPU, 26, power_w=lambda s: 90 + s.t_s % 3)
    bench.recording.rounds = [
        one
        for one in bench.recording.rounds
        if one.subject != GPU or one.stage != "sustained" or one.t_s % 4 < 0.5
    ]


def bit_flips_once(bench: Bench) -> None:
    bench.event("wrong_result", GPU, "bf16 result of pair 3 changed between equal products", 50)
    bench.rounds(GPU, "sustained", 50, 50.1, verified=False)


def every_result_is_wrong(bench: Bench) -> None:
    bench.event("wrong_result", GPU, "bf16 result of pair 3 changed between equal products", 50)
    bench.rounds(GPU, "sustained", verified=False)


def products_differ(bench: Bench, subject: str = GPU) -> None:
    """The card computes something else than its peers of all but golden operands, and the same each time."""
    for number, event in enumerate(bench.recording.events):
        if (event.kind, event.subject) == ("reference", subject) and not event.data.get("golden"):
            checksums = {name: f"not {one}" for name, one in event.data["checksums"].items()}
            bench.recording.events[number] = replace(event, data={**event.data, "checksums": checksums})


def clock_is_stuck(bench: Bench) -> None:
    bench.samples(GPU, 5, sm_clock_mhz=lambda s: 930 + s.t_s % 3)
    for stage in ("gemm", "sustained"):
        bench.slow(GPU, 0.48, stage)


def clock_is_locked(bench):
    """Somebody set the application clock to 1500 MHz."""
    bench.samples(GPU, 5, sm_clock_mhz=lambda s: 1500 + s.t_s % 2, clock_event_reasons=0x2)


def heat_throttles(bench: Bench) -> None:
    bench.samples(GPU, 5, sm_clock_mhz=lambda s: 1100 + s.t_s % 3, clock_event_reasons=0x40)
    for stage in ("gemm", "sustained"):
        bench.slow(GPU, 0.6, stage)


def sag(bench: Bench, share: float = 0.9) -> None:
    bench.slow(GPU, share, from_s=60)


def memory_runs_out(bench: Bench) -> None:
    bench.event("oom", GPU, "12 GiB wanted, 0.1 GiB free", 28, WORKER, recovered=True)
    leave_free(bench, 100)


def cpu_takes_over(bench: Bench) -> None:
    """Memory ran out for good, and the CPU does the sustained stage's work in the card's place."""
    bench.event("oom", GPU, "12 GiB wanted, 0 GiB free", 28, WORKER, recovered=True)
    bench.event("memory_policy", GPU, "cpu_fallback: cuda -> cpu", 28, WORKER, technique="cpu_fallback")
    bench.rounds(GPU, "sustained", device="cpu", part="cpu", work=lambda one: one.work / 1000)


def allocations_are_retried(bench: Bench) -> None:
    bench.reading(2, alloc_retries=3)


def leave_free(bench: Bench, free_mib: float, t_s: float = 40.0) -> None:
    bench.reading(1, t_s=t_s, device_free_mib=free_mib)


def hold_memory(bench: Bench, used_mib: float) -> None:
    was = bench.recording.foreign_memory[GPU]
    bench.recording.foreign_memory[GPU] = replace(was, used_mib=used_mib, pids=(4711,))


def others_hold_memory(bench: Bench) -> None:
    hold_memory(bench, 60_000)
    leave_free(bench, 100)


def stranger_computes(bench: Bench) -> None:
    """It comes at 60 s, takes half of the rate, and is seen to."""
    sag(bench, share=0.5)
    bench.stranger(60, sm_percent=[4, 48])


def stranger_takes_memory(bench: Bench) -> None:
    """It takes what is free, so that allocations fail."""
    bench.stranger(45, used_mib=[520, 60_000])
    bench.event("oom", GPU, "128 MiB wanted, 72 MiB free", 50, WORKER, recovered=True)
    leave_free(bench, 72, 50.0)


def stranger_crashes(bench: Bench) -> None:
    bench.stranger(45, gone_s=51)
    bench.event("xid", GPU, "Xid 31: GPU memory page fault", 50.2, xid=31)


def host_freezes(bench: Bench) -> None:
    bench.host("pc1", 45, 50, wakeup_delays_ms=None)
    bench.host("pc1", 50.05, 50.15, wakeup_delays_ms=(5000.0,))


def cpu_is_saturated(bench: Bench) -> None:
    bench.host("pc1", cpu_percent=99.5, wakeup_delays_ms=(70.0,))


def other_drivers(bench: Bench) -> None:
    bench.node("pc2", driver_version="570.10")


def tensor_cores_are_unused(bench: Bench) -> None:
    """fp16 steps take as long as fp32 ones, a tenth of them in the same time."""

    def tenth(one: Any, value: float) -> float:
        return value / (10 if one.label("precision") == "fp16" else 1)

    bench.rounds(
        GPU,
        "training",
        steps=lambda one: tenth(one, one.label("steps")),
        work=lambda one: tenth(one, one.work),
    )


def sharing_collapses(bench: Bench) -> None:
    """Three processes keep each other from working; two get along."""
    bench.rounds(GPU, "sharing", work=lambda one: one.work * (0.5 if one.label("processes") == 3 else 1))


def heat_spikes(bench: Bench) -> None:
    """One reading over what the rig never allows; the mean stays under its limit."""
    bench.limits(core_temperature_c=80, core_temperature_never_c=83)
    bench.samples(GPU, 50, 50.05, core_temperature_c=84)


def heat_comes_near(bench: Bench) -> None:
    bench.limits(core_temperature_c=80, core_temperature_warn_c=78)
    bench.samples(GPU, 50, 60, core_temperature_c=79)


def power_limit_is_off(bench: Bench) -> None:
    """It is not in the range that the rig states."""
    bench.limits(power_limit_w=(680.0, 700.0))
    bench.gpu(GPU, power_limit_w=660)


def rewards_are_slow(bench: Bench) -> None:
    """The pool plays its strategies one after the other."""
    bench.rewards(
        GPU,
        seconds=lambda one: 0.03 * (one.strategies - one.invalid) if one.mode == "parallel" else one.seconds,
    )


def gpu_is_starved(bench: Bench) -> None:
    """A fifth of the time passes between two bursts of generation."""
    bench.rounds(GPU, "feeding", seconds=lambda one: one.seconds * 0.8)


def clock_drops(bench: Bench) -> None:
    """It waits for rewards, and lets its clock go; not as far as a stuck one."""
    bench.limits(working_clock_mhz=1900.0)
    bench.samples(GPU, 93, 113, sm_clock_mhz=lambda s: 1780 + s.t_s % 3, clock_event_reasons=0x1)


def power_is_out_of_range(bench: Bench) -> None:
    bench.limits(working_power_w=(400.0, 700.0))
    bench.samples(GPU, 93, 113, power_w=lambda s: 30 + s.t_s % 3)


def temperature_is_out_of_range(bench: Bench) -> None:
    bench.limits(working_temperature_c=(60.0, 66.0))
    bench.samples(GPU, 93, 113, core_temperature_c=lambda s: 52 + int(s.t_s) % 2)


def vbios_differs(bench: Bench) -> None:
    """Of three equal cards, the third one that of a rig beside it."""
    for subject, version in ((GPU, "96.00.B"), (OTHER, "96.00.A")):
        bench.gpu(subject, brand="nvidia", vbios_version=version)
    third = replace(bench.recording.gpus[OTHER], subject="pc3/gpu0", uuid="GPU-3")
    bench.recording.gpus["pc3/gpu0"] = third


def torch_is_too_new(bench: Bench) -> None:
    bench.node("pc1", torch_cuda="14.0")
    bench.recording.workers = [replace(one, cuda_version=None) for one in bench.recording.workers]


def nvlink_is_down(bench: Bench) -> None:
    bench.counters(GPU, "after", nvlinks=(*(True,) * 17, False))


def nvlink_errors(bench: Bench, counter: str, number: int) -> None:
    bench.counters(GPU, "after", **{f"nvlink_{counter}": (number, *(0,) * 17)})


def fabric_is_not_started(bench: Bench) -> None:
    for moment in ("before", "after"):
        bench.counters(GPU, moment, fabric_state="in_progress")


FAULTS = (
    Fault(
        "node-missing",
        node_is_missing,
        on("pc2", "cluster.nodes_present") | on(OTHER, "inventory.gpus_present"),
    ),
    Fault("node-lost", node_is_lost, on("pc2", "cluster.nodes_present") | LOST_WORKER),
    Fault("reset", host_restarts, on("pc2", "health.reset")),
    Fault("reset-before", host_restarted_before, frozenset(), on("pc2", "health.reset")),
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
    Fault("nvml-hang", nvml_hangs, on("rig", "cluster.no_timeouts")),
    Fault("gpu-missing", gpu_is_missing, on(GPU, "inventory.gpus_present")),
    Fault("gpu-hidden", gpu_is_missing, on(GPU, "inventory.gpus_present")),
    Fault("gpu-lost", gpu_is_lost, on(OTHER, "inventory.gpus_present", "health.xid") | LOST_WORKER),
    Fault("gpu-lost", gpu_is_lost_at_the_end, on(GPU, "inventory.gpus_present")),
    Fault(
        "driver-mismatch",
        lambda b: b.node("pc1", nvml_error="driver/library version mismatch"),
        on("pc1", "inventory.driver"),
    ),
    Fault("driver-mismatch", other_drivers, on("pc1", "inventory.driver") | on("pc2", "inventory.driver")),
    Fault(
        "foreign-memory",
        others_hold_memory,
        on(GPU, "inventory.foreign_memory"),
        on(GPU, "memory.headroom"),
    ),
    Fault("memory-taken", lambda b: leave_free(b, 100), on(GPU, "memory.headroom")),
    Fault(
        "wrong-gpu",
        all_work_on_one_gpu,
        on(GPU, "distribution.workers_spread") | on(OTHER, "distribution.workers_spread"),
    ),
    Fault(
        "gpu-idle",
        gpu_is_idle,
        on(GPU, "activity.gpu_active", "throughput.sustained", "throughput.stability")
        | on("rig", "throughput.combined"),
    ),
    Fault("stranger-computes", stranger_computes, on(GPU, "activity.undisturbed")),
    Fault("stranger-takes-memory", stranger_takes_memory, on(GPU, "activity.undisturbed")),
    Fault("stranger-crashes", stranger_crashes, on(GPU, "activity.undisturbed")),
    Fault("bit-flip", bit_flips_once, on(GPU, "activity.gpu_active", "compute.exact")),
    Fault(
        "bit-flip",
        every_result_is_wrong,
        on(GPU, "activity.gpu_active", "memory.success_rate", "compute.exact"),
    ),
    *(
        Fault(
            name,
            every_result_is_wrong,
            on(GPU, "activity.gpu_active", "memory.success_rate", "compute.exact"),
        )
        for name in ("wrong-element", "wrong-tile")
    ),
    Fault("wrong-arithmetic", products_differ, on(GPU, "compute.exact") | on(OTHER, "compute.exact")),
    Fault(
        "clock-stuck",
        clock_is_stuck,
        on(GPU, *GEMM, "throughput.sustained", "clock.ratio") | on("rig", "throughput.combined"),
    ),
    Fault(
        "thermal-throttle",
        heat_throttles,
        on(GPU, *GEMM, "throughput.sustained", "thermal.throttle") | on("rig", "throughput.combined"),
    ),
    Fault(
        "power-brake",
        lambda b: b.samples(GPU, 50, 51, clock_event_reasons=0x80),
        on(GPU, "thermal.throttle"),
    ),
    Fault("straggler", slow_peer, on(GPU, "throughput.peer_outlier")),
    Fault("throughput-sag", sag, on(GPU, "throughput.stability")),
    Fault("tensor-cores-unused", tensor_cores_are_unused, on(GPU, "precision.speedup", "training.step")),
    Fault("rewards-slow", rewards_are_slow, on(GPU, "feeding.parallel_rewards")),
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
    Fault("gpu-starved", gpu_is_starved, on(GPU, "feeding.idle_gaps")),
    Fault(
        "gpu-half-used",
        lambda b: b.samples(GPU, 93, 113, utilization_percent=71),
        on(GPU, "feeding.idle_gaps"),
    ),
    Fault("clock-drops-idle", clock_drops, on(GPU, "clock.ratio")),
    Fault("power-out-of-range", power_is_out_of_range, on(GPU, "power.draw")),
    Fault("temperature-out-of-range", temperature_is_out_of_range, on(GPU, "thermal.core_temperature")),
    Fault("sharing-collapse", sharing_collapses, on(GPU, "scaling.sharing")),
    Fault("oom", memory_runs_out, on(GPU, "memory.no_oom", "memory.success_rate", "memory.headroom")),
    Fault(
        "cpu-fallback",
        cpu_takes_over,
        on(GPU, "memory.no_oom", "memory.success_rate", "activity.gpu_active"),
    ),
    Fault("oom-retry", allocations_are_retried, frozenset(), on(GPU, "memory.no_oom")),
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
    Fault("vbios-differs", vbios_differs, frozenset(), on(GPU, "inventory.gpus_present")),
    Fault("torch-too-new", torch_is_too_new, on("pc1", "inventory.driver")),
    Fault("host-limited", lambda b: b.node("pc1", cpus=2, ram_gib=16.0), on("pc1", "host.limits")),
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
    Fault("nvlink-inactive", nvlink_is_down, on(GPU, "health.nvlink")),
    Fault("nvlink-replays", lambda b: nvlink_errors(b, "replays", 1), on(GPU, "health.nvlink")),
    Fault("nvlink-crc", lambda b: nvlink_errors(b, "crc_errors", 9), frozenset(), on(GPU, "health.nvlink")),
    Fault("nvlink-crc", lambda b: nvlink_errors(b, "crc_errors", 99_999), on(GPU, "health.nvlink")),
    Fault("fabric-not-started", fabric_is_not_started, on(GPU, "health.fabric")),
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
    Fault("heat-spike", heat_spikes, on(GPU, "thermal.core_temperature")),
    Fault("early-heat", heat_comes_near, frozenset(), on(GPU, "thermal.core_temperature")),
    Fault("power-limit-off", power_limit_is_off, on(GPU, "power.limit")),
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
    Fault("clock-locked", clock_is_locked, frozenset(), on(GPU, "clock.ratio")),
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
    Fault("cpu-saturated", cpu_is_saturated, on("pc1", "host.cpu_band", "host.responsiveness")),
    Fault("cpu-starved", lambda b: b.host("pc1", cpu_percent=31), on("pc1", "host.cpu_band")),
    Fault("host-frozen", host_freezes, on("pc1", "host.responsiveness")),
    Fault(
        "host-frozen",
        lambda b: b.host("pc1", 50, 50.05, wakeup_delays_ms=(1.0, 300.0)),
        frozenset(),
        on("pc1", "host.responsiveness"),
    ),
)
