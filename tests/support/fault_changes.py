"""How each fault shows in a healthy rig's Recording: functions that change it so."""

from dataclasses import replace
from typing import Any

from support.bench import Bench

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
WORKER, LONE_WORKER = "pc1/gpu0#1", "pc2/gpu0#0"  # one of two on its card, and the only one


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


def gpu_is_hidden(bench: Bench) -> None:
    gpu_is_missing(bench, disturbed="unset CUDA_VISIBLE_DEVICES where Ray was started")


def gpu_is_missing(bench: Bench, subject: str = GPU, **data: str) -> None:
    bench.event("gpu_missing", subject, "nvidia-smi lists no card", **data)
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
        if one.subject != GPU or one.stage != "sustained" or one.t_s % 4 < 0.5 or one.t_s == 70  # the last
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
    bench.host("pc1", cpu_percent=99.5, own_percent=4, wakeup_delays_ms=(70.0,))


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


def memory_missing(bench: Bench) -> None:
    """One of the twelve chips of a card's memory is switched off."""
    bench.gpu(GPU, memory_total_mib=bench.recording.gpus[GPU].memory_total_mib * 11 / 12)


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
