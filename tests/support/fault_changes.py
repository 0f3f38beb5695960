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


def nvml_hangs(bench: Bench) -> None:
    message = "NVML has not answered the query “sample” for 30 s"
    bench.event("timeout", GPU, message, 69, stage=None, limit_s=30, query="sample")
    bench.silence(GPU, 66)


def gpu_is_idle(bench: Bench) -> None:
    """It draws next to nothing, and its worker ends hardly any round."""
    bench.samples(GPU, 26, power_w=lambda s: 90 + s.t_s % 3)
    bench.recording.rounds = [
        one
        for one in bench.recording.rounds
        if one.subject != GPU or one.stage != "sustained" or one.t_s % 4 < 0.5 or one.t_s == 70  # the last
    ]


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


def rewards_are_slow(bench: Bench) -> None:
    """The pool plays its strategies one after the other."""
    bench.rewards(
        GPU,
        seconds=lambda one: 0.03 * (one.strategies - one.invalid) if one.mode == "parallel" else one.seconds,
    )
