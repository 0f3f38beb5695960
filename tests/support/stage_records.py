"""What each stage of the healthy rig records of a card, on the timeline of recordings.py."""

from dataclasses import replace
from typing import Any

from rigproof.records.measurements import TFLOP, Event, Round
from rigproof.stages.feeding.stage import RewardBatch
from support.rig_profile import RATES

GEMM = ((6, 0.5), (11, 0.5), (16, 0.5), (21, 0.5), (20, 0.12))  # when each begins, and a round's length, s
WORKERS = {"pc1/gpu0": ("pc1/gpu0#0", "pc1/gpu0#1"), "pc2/gpu0": ("pc2/gpu0#0",)}
SHARING = {1: 1.0, 2: 0.92, 3: 0.91}  # processes on a card: their rate together, of one alone


def a_round(
    t_s: float, stage: str, worker: str, subject: str, phase: Any, seconds: float, work: float, **labels: Any
) -> Round:
    """A verified round of arithmetic."""
    return Round(t_s, stage, worker, subject, phase, seconds, work, TFLOP, True, labels)


def gemm_round(t_s: float, seconds: float = 0.05, work: float = 3.5, worker: str = "pc1/gpu0#0") -> Round:
    """A measured round of the gemm stage on pc1/gpu0, at 70 TFLOP/s if nothing else is stated."""
    labels = {"precision": "bf16", "size": 8192}
    return a_round(t_s, "gemm", worker, "pc1/gpu0", "measure", seconds, work, **labels)


def relabelled(one: Round, **labels: Any) -> Round:
    """The same round with other labels; None takes one away."""
    changed = {**one.labels, **labels}
    return replace(one, labels={name: value for name, value in changed.items() if value is not None})


def rounds_of(subject: str) -> list[Round]:
    """Each precision for itself on the first worker; then all workers share the rate of bf16."""
    workers = WORKERS[subject]
    rounds = []
    for (start_s, seconds), (precision, rate) in zip(GEMM, RATES.items(), strict=True):
        for n in range(8):
            phase = "exact" if n == 0 else "warmup" if n < 3 else "measure"
            t_s, work = start_s + (n + 1) * seconds, rate * seconds
            labels = {"precision": precision, "size": 1024}
            rounds.append(a_round(t_s, "gemm", workers[0], subject, phase, seconds, work, **labels))
    for worker in workers:
        for n in range(88):
            t_s = 26.0 + (n + 1) * 0.5
            phase = "warmup" if t_s <= 31 else "measure"
            work = RATES["bf16"] / 2 / len(workers)
            rounds.append(
                a_round(t_s, "sustained", worker, subject, phase, 0.5, work, precision="bf16", size=1024)
            )
    return rounds


ARITHMETIC = {
    "device": "NVIDIA H200",
    "torch": "2.13.0+cu130",
    "cublas": "13.1.0",
    "multiprocessors": 132,
    "capability": "9.0",
}


def references_of(subject: str) -> list[Event]:
    """What the products are: the same on every card, in each stage that repeats them."""

    def reference(t_s: float, stage: str, worker: str, precision: str, *, golden: bool = True) -> Event:
        checksums = {"1·0": f"{precision}-1·0", "0·1": f"{precision}-0·1"}
        data = {"precision": precision, "size": 1024, "checksums": checksums, "golden": golden, **ARITHMETIC}
        return Event(t_s, "reference", subject, "2 reference checksums", stage, worker, data)

    first, *_ = workers = WORKERS[subject]
    found = [
        reference(start_s - 0.5, "gemm", first, precision, golden=golden)
        for (start_s, _), precision in zip(GEMM, RATES, strict=True)
        for golden in (False, True)
    ]
    found += [reference(28.0, "sustained", worker, "bf16") for worker in workers]
    return [*found, reference(115.0, "sharing", first, "bf16")]


# A training step of one example, s, and of how much work, TFLOP.
ROUND_S_OF = {"precision": 0.25, "search": 0.5, "sweep": 0.15}  # as long as fits, one after the other


STEP_S_OF, STEP_TFLOP = {"fp32": 0.045, "tf32": 0.012, "fp16": 0.005}, 2.0
MODEL = {"width": 2496, "blocks": 8, "vocabulary": 8192, "sequence": 512, "parameters": 640_296_384}


def training_of(subject: str) -> list[Round | Event]:
    """Precisions at 16 examples from 73 s on, the search from 82 s on, the sweep from 86 s on."""
    worker = WORKERS[subject][0]
    records: list[Round | Event] = [Event(72.5, "model", subject, "640.3 M", "training", worker, dict(MODEL))]

    def run(part: str, precision: str, batch: int, from_s: float, rounds: int) -> None:
        step_s = STEP_S_OF[precision] * batch
        steps = max(1, round(ROUND_S_OF[part] / step_s))
        for n in range(rounds):
            phase = "warmup" if n < 2 and part != "search" else "measure"
            seconds, work = steps * step_s, steps * batch * STEP_TFLOP
            t_s = from_s + (n + 1) * seconds
            labels = {"precision": precision, "size": 2496, "part": part, "batch": batch, "steps": steps}
            records.append(a_round(t_s, "training", worker, subject, phase, seconds, work, **labels))

    def search_event(what: str, batch: int, t_s: float, **more: object) -> None:
        data = {"what": what, "batch": batch, "precision": "fp16", "limit_mib": 130_000.0}
        data |= {"peak_mib": 10_000.0 + 500 * batch} | more
        records.append(Event(t_s, "batch_search", subject, f"{what} {batch}", "training", worker, data))

    for from_s, precision in zip((73.0, 78.0, 80.0), STEP_S_OF, strict=True):
        run("precision", precision, 16, from_s, 6 if precision == "fp32" else 8)
        ends = {"precision": precision, "batch": 16, "first_loss": 9.5, "last_loss": 1.2, "overflows": 0}
        ends["difference"] = None if precision == "fp32" else 1e-5
        records.append(Event(from_s + 2, "training", subject, precision, "training", worker, dict(ends)))
    for from_s, batch in ((82.5, 104), (83.5, 170), (84.5, 230)):
        run("search", "fp16", batch, from_s, 1)
        search_event("probe", batch, from_s + 0.5)
    search_event("largest", 230, 86.0, complete=True, too_large=241)
    for n, batch in enumerate((1, 2, 4, 8, 16, 32)):
        run("sweep", "fp16", batch, 86 + n * 0.9, 5)
        search_event("sweep", batch, 86.9 + n * 0.9)
    return records


def feeding_of(subject: str) -> list[Round | Event | RewardBatch]:
    """Three comparisons of rewards, a step of each prompt, then a step a second, and one more comparison.

    30 ms a strategy, 5 ms in the pool of 8.
    """
    worker = WORKERS[subject][0]
    records: list[Round | Event | RewardBatch] = []

    def rewards(t_s: float, seconds: float, strategies: int, invalid: int, matches: bool | None) -> None:
        batch = RewardBatch(
            t_s, "feeding", worker, subject, "parallel", 8, strategies, invalid, 0, 0, 0, seconds, matches
        )
        if matches:
            records.append(
                replace(batch, t_s=t_s - 0.1, mode="sequential", processes=1, seconds=0.48, matches=None)
            )
        records.append(batch)

    for t_s in (94.0, 95.0, 96.0):
        rewards(t_s, 0.08, 16, 0, matches=True)
    data = {"tokens": 1500, "aimed_s": 0.5, "pass_s": 0.00067, "completions": 64, "overlap": True}
    records.append(Event(96.5, "generation", subject, "1500 tokens a step", "feeding", worker, data))
    for n in range(30):
        t_s = 97.5 + n * 0.5
        phase = "warmup" if n < 4 else "measure"
        records.append(
            a_round(t_s, "feeding", worker, subject, phase, 0.5, 100.0, precision="bf16", size=16384)
        )
        if phase == "measure" and n % 2:
            rewards(t_s + 0.3, 0.24, 64, 16, matches=None)
    rewards(112.7, 0.08, 16, 0, matches=True)
    return records


def sharing_of(subject: str) -> list[Round | Event]:
    """One process, two, three: each number fills 126 GiB, then works from its start for 5.5 s."""
    worker = WORKERS[subject][0]
    records: list[Round | Event] = []
    for start_s, (number, share) in zip((115.0, 121.0, 127.0), SHARING.items(), strict=True):
        filled = {"workers": number, "target_mib": 129_024.0, "allocated_mib": 129_024.0}
        records.append(Event(start_s, "allocation", subject, "filled", "sharing", worker, filled))
        for process in range(number):
            did: dict[str, Any] = {"precision": "bf16", "size": 1024, "processes": number, "process": process}
            work = share * RATES["bf16"] / 2 / number
            for n in range(11):
                phase = "warmup" if n < 2 else "measure"
                t_s = start_s + (n + 1) * 0.5
                records.append(a_round(t_s, "sharing", worker, subject, phase, 0.5, work, **did))
    return records
