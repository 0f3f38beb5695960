"""What the workers and agents of a synthetic rig report: rounds, memory, rewards, events and samples.

The timeline of a level-standard run, pressed into the seconds asked for. Figures follow the H200 samples of
`reports/samples`: 660 TFLOP/s in bf16 at the power cap, 56 °C under load, a training step 8.7 times as fast
in fp16. Noise is seeded. One card is slower than all others in every stage, one gets too hot.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rigproof.records.disk.tables import telemetry_schema

Floats = npt.NDArray[np.float64]

START_S = 5.0
GEMM_TFLOP = 2 * 8192**3 / 1e12
STAGE_SHARES = {"gemm": 0.27, "sustained": 0.40, "training": 0.20, "feeding": 0.13}
PRECISIONS = ("bf16", "fp16", "tf32", "fp32")
RATES = {"bf16": 660.0, "fp16": 682.0, "tf32": 350.0, "fp32": 51.0}
TRAINED = ("fp32", "tf32", "fp16")
STEP_S = {"fp32": 0.642, "tf32": 0.148, "fp16": 0.074}
STEP_TFLOP = 31.406948352  # 16 examples of 512 tokens
SLOW = 0.90  # of the rate
REWARDS_EVERY_S = 2
CORES = 192
DELAYS = 95  # of the 10 ms sleeper, in a second


@dataclass(frozen=True)
class Shape:
    """Whose records are made. `slow` and `hot` are places among the GPUs."""

    nodes: int
    gpus: int
    seconds: int
    slow: int
    hot: int
    seed: int = 1
    subjects: tuple[str, ...] = field(default=(), init=False)
    names: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        names = tuple(f"node{number:04d}" for number in range(self.nodes))
        object.__setattr__(self, "names", names)
        subjects = tuple(f"{name}/gpu{index}" for name in names for index in range(self.gpus))
        object.__setattr__(self, "subjects", subjects)

    def stages(self) -> dict[str, tuple[int, int]]:
        """From and to which second each stage loads the GPUs."""
        spans, start = {}, 0
        for name, share in STAGE_SHARES.items():
            length = self.seconds - start if name == "feeding" else round(share * self.seconds)
            spans[name] = (start, start + length)
            start += length
        return spans


def speeds(shape: Shape) -> Floats:
    """What each GPU's rate is of the usual one."""
    noise = np.random.default_rng(shape.seed).normal(1.0, 0.004, len(shape.subjects)).clip(0.988, 1.012)
    noise[shape.slow] *= SLOW
    return noise


def _work(stage: str, second: int, length: int) -> tuple[str, str, str | None, float, int, int | None]:
    """Precision, phase, part, TFLOP/s, size, batch of the round that begins in that second of a stage."""
    if stage == "gemm":
        block = max(length // len(PRECISIONS), 1)
        precision = PRECISIONS[min(second // block, len(PRECISIONS) - 1)]
        return precision, "measure" if second % block else "warmup", None, RATES[precision], 8192, None
    if stage == "training":
        block = max(length // len(TRAINED), 1)
        precision = TRAINED[min(second // block, len(TRAINED) - 1)]
        phase = "measure" if second % block else "warmup"
        return precision, phase, "precision", STEP_TFLOP / STEP_S[precision], 2496, 16
    if stage == "feeding":
        return "bf16", "measure" if second else "warmup", None, 195.0, 16384, None
    return "bf16", "measure" if second > 1 else "warmup", None, RATES["bf16"], 8192, None


def round_batches(shape: Shape, rates: Floats, layout: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Each GPU's round of each second."""
    for second, (stage, begin, end) in _seconds(shape):
        random = np.random.default_rng((shape.seed, 1, second))
        precision, phase, part, usual, size, batch = _work(stage, second - begin, end - begin)
        count = len(shape.subjects)
        seconds = 0.985 + random.normal(0, 0.002, count).clip(-0.004, 0.004)
        work = rates * usual * seconds * random.normal(1.0, 0.002, count).clip(0.994, 1.006)
        steps = int(usual / STEP_TFLOP) if batch else None  # what fits into its second
        if steps:  # so many whole steps: the time gives the rate
            work = np.full(count, steps * STEP_TFLOP)
            seconds = work / (usual * rates) * random.normal(1.0, 0.002, count).clip(0.994, 1.006)
        fields = {"t_s": _ends(shape, second), "phase": phase, "seconds": seconds, "work": work}
        labels = {"precision": precision, "size": size, "part": part, "batch": batch, "steps": steps}
        fields |= {"unit": "TFLOP", "verified": True, "device": None, "host_paced": None}
        fields |= {f"labels.{name}": value for name, value in labels.items()}
        yield _many(shape, stage, fields, layout)


def memory_batches(shape: Shape, layout: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Each worker's allocator, each second."""
    for second, (stage, _, _) in _seconds(shape):
        held = 100608.0 if stage == "sustained" else 18742.0
        fields = {"t_s": _ends(shape, second), "allocated_mib": held, "reserved_mib": held + 64}
        fields |= {"peak_reserved_mib": held + 64, "device_free_mib": 143155.9375 - held - 600}
        fields |= {"device_total_mib": 143155.9375, "ooms": 0, "alloc_retries": 0}
        yield _many(shape, stage, fields, layout)


def pcie_batches(shape: Shape, layout: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The errors on each link: none new, read before and after the load and once a minute."""
    count = len(shape.subjects)
    counts = {"fatal": 0, "nonfatal": 1, "correctable": 3}
    counts |= {f"port_{name}": value for name, value in counts.items()}
    for t_s in (*np.arange(2.0, START_S + shape.seconds + 1, 60.0), START_S + shape.seconds + 1):
        values = {"t_s": [t_s] * count, "subject": shape.subjects, "port": ["0000:16:01.0"] * count}
        values |= {name: [value] * count for name, value in counts.items()}
        arrays = [pa.array(values[column.name], column.type) for column in layout]
        yield pa.RecordBatch.from_arrays(arrays, schema=layout)


def reward_batches(shape: Shape, layout: pa.Schema) -> Iterator[pa.RecordBatch]:
    """At first alone and compared with the pool, then the pool beside the generation."""
    for second, (stage, begin, _) in _seconds(shape):
        if stage != "feeding" or (second - begin) % REWARDS_EVERY_S != 1:
            continue
        early = second - begin < 4 * REWARDS_EVERY_S
        for mode, processes, seconds, matches in (
            ("sequential", 1, 0.456, None),
            ("parallel", 8, 0.084, True if early else None),
        ):
            if mode == "parallel" or early:
                fields = {"t_s": _ends(shape, second) - 0.2, "mode": mode, "processes": processes}
                fields |= {"strategies": 16, "invalid": 0, "timed_out": 0, "crashed": 0, "out_of_memory": 0}
                yield _many(shape, stage, fields | {"seconds": seconds, "matches": matches}, layout)


def _seconds(shape: Shape) -> Iterator[tuple[int, tuple[str, int, int]]]:
    for name, (begin, end) in shape.stages().items():
        yield from ((second, (name, begin, end)) for second in range(begin, end))


def _ends(shape: Shape, second: int) -> Floats:
    random = np.random.default_rng((shape.seed, 4, second))
    return START_S + second + 1 + random.normal(0, 0.004, len(shape.subjects)).clip(-0.01, 0.01)


def _many(shape: Shape, stage: str, fields: dict, layout: pa.Schema) -> pa.RecordBatch:
    """A record of each GPU: what is no array is the same of all."""
    count = len(shape.subjects)
    fields |= {"stage": stage, "subject": pa.array(shape.subjects)}
    fields["worker"] = pa.array([f"{subject}#0" for subject in shape.subjects])
    arrays = [
        pa.array(value, field.type)
        if isinstance(value := fields[field.name], np.ndarray | pa.Array)
        else pa.array([value] * count, field.type)
        for field in layout
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=layout)


def worker_events(shape: Shape, stage: str, t_s: float) -> Iterator[dict]:
    """What each worker reports of a stage besides rounds."""
    for subject in shape.subjects:
        common = {"type": "event", "t_s": t_s, "subject": subject, "stage": stage, "worker": f"{subject}#0"}
        for kind, message, data in _EVENTS.get(stage, ()):
            yield {**common, "kind": kind, "message": message, "data": data}


def _policy(technique: str, after: str) -> tuple[str, str, dict]:
    data = {
        "technique": technique,
        "before": after,
        "after": after,
        "unit": "",
        "reason": "as the profile says",
    }
    return "memory_policy", f"{technique}: {after}, as the profile says", data


def _search(what: str, batch: int, peak_mib: float) -> tuple[str, str, dict]:
    data = {"what": what, "batch": batch, "peak_mib": peak_mib, "limit_mib": 135311.3, "precision": "fp16"}
    if what == "largest":
        data |= {"complete": True, "too_large": 306}
    return "batch_search", f"batch {batch} in fp16: {peak_mib:.0f} of 135311 MiB, {what}", data


def _trained(precision: str) -> tuple[str, str, dict]:
    data = {"precision": precision, "batch": 16, "peak_mib": 18742.0, "step_s": STEP_S[precision]}
    data |= {"first_loss": 9.51, "last_loss": 4.6, "overflows": 0}
    data["difference"] = None if precision == "fp32" else 1e-4
    return "training", f"{precision}: loss 9.51 to 4.60, 0 overflows", data


_MODEL = {
    "width": 2496,
    "blocks": 8,
    "vocabulary": 8192,
    "sequence": 512,
    "parameters": 640296384,
    "held_mib": 9770.1,
}
_ALLOCATED = {
    "target_mib": 100638.7,
    "allocated_mib": 100608.0,
    "matrices": 785,
    "size": 8192,
    "precision": "bf16",
}


def _reference(precision: str, pairs: int) -> tuple[str, str, dict]:
    seeds = [f"{pair - 1 if pair else 1}·{pair}" for pair in range(pairs)]
    data = {
        "precision": precision,
        "size": 8192,
        "checksums": {one: sha256(one.encode()).hexdigest()[:16] for one in seeds},
    }
    data |= {"device": "NVIDIA H200", "torch": "2.13.0+cu130", "cublas": "13.1.0", "multiprocessors": 132}
    message = f"{pairs} reference checksums of {precision} products of size 8192"
    return "reference", message, {**data, "capability": "9.0"}


_GENERATION = {"tokens": 481, "aimed_s": 0.339, "pass_s": 0.0007, "completions": 64, "overlap": True}
_EVENTS = {
    "gemm": tuple(_reference(precision, 2) for precision in PRECISIONS),
    "sustained": (
        _reference("bf16", 16),
        _policy("allocator", "expandable_segments:True"),
        _policy("target", "100639"),
        ("allocation", "785 of 785 operands, 100608 of 100639 MiB", _ALLOCATED),
    ),
    "training": (
        _policy("allocator", "expandable_segments:True"),
        ("model", "640.3 M parameters: 8 blocks of width 2496, 8192 words; 9770 MiB", _MODEL),
        *map(_trained, TRAINED),
        _search("probe", 175, 80974.0),
        _search("largest", 289, 128480.0),
    ),
    "feeding": (("generation", "481 tokens a step, 0.34 s of generation", _GENERATION),),
}


def gpu_batches(shape: Shape, run_id: str) -> Iterator[pa.RecordBatch]:
    """Samples of all GPUs, a batch a second."""
    random = np.random.default_rng(shape.seed + 2)
    count, stages = len(shape.subjects), shape.stages()
    warmth = random.normal(0, 1.5, count).clip(-4, 4)
    heat = np.full(count, 56.0) + warmth
    heat[shape.hot] = 94.0
    energy = random.uniform(1e5, 2e5, count)
    for second in range(int(START_S) + shape.seconds):
        at = second - START_S
        loaded = at >= 0
        fed = at >= stages["feeding"][0]
        power = random.normal(480.0 if fed else 690.0, 4, count) if loaded else random.normal(110, 1, count)
        core = 34 + (heat - 34) * (1 - np.exp(-max(at, 0) / 15)) + random.normal(0, 0.4, count)
        clock = random.normal(1965 if fed or not loaded else 1470, 6, count).round()
        energy = energy + power
        values = {
            "t_s": second + np.repeat(random.uniform(0, 0.9e-3, shape.nodes), shape.gpus),
            "utilization_percent": np.full(count, 100.0 if loaded else 0.0),
            "memory_used_mib": np.full(count, 101800.0 if loaded else 600.0),
            "core_temperature_c": core.round(),
            "memory_temperature_c": (core - 5).clip(30, 90).round(),
            "power_w": power.round(3),
            "power_average_w": random.normal(power, 1).round(3),
            "energy_j": energy.round(1),
            "sm_clock_mhz": clock,
            "memory_clock_mhz": np.full(count, 3201.0),
            "clock_event_reasons": np.full(count, 4 if loaded and not fed else 0),
            "pcie_generation": np.full(count, 5),
            "pcie_width": np.full(count, 16),
            "pcie_replays": np.zeros(count, np.int64),
            "lateness_s": np.repeat(random.uniform(0, 4e-4, shape.nodes), shape.gpus),
            "thermal_margin_c": 87 - core.round(),
        }
        yield _batch(run_id, "gpu", shape.subjects, values)


def host_batches(shape: Shape, run_id: str) -> Iterator[pa.RecordBatch]:
    """Samples of all hosts, a batch a second."""
    random = np.random.default_rng(shape.seed + 3)
    begin, end = shape.stages()["sustained"]
    for second in range(int(START_S) + shape.seconds):
        busy = begin <= second - START_S < end
        used = random.normal(77.5 if busy else 22.0, 1.5, shape.nodes)
        cores = np.repeat(used, CORES) + random.normal(0, 6, shape.nodes * CORES)
        values = {
            "t_s": second + random.uniform(0, 0.9e-3, shape.nodes),
            "lateness_s": random.uniform(0, 4e-4, shape.nodes),
            "cpu_percent": used,
            "core_percent": _lists(cores.clip(0, 100).round(1), CORES),
            "load_1m": (used * CORES / 100).round(2),
            "ram_used_mib": random.normal(90_000, 500, shape.nodes).round(2),
            "ram_available_mib": random.normal(1_900_000, 500, shape.nodes).round(2),
            "swap_used_mib": np.zeros(shape.nodes),
            "wakeup_delays_ms": _lists(random.exponential(0.2, shape.nodes * DELAYS).round(3), DELAYS),
        }
        yield _batch(run_id, "host", shape.names, values)


def _lists(values: Floats, length: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.arange(0, len(values) + 1, length, dtype=np.int32)), values)


def _batch(run_id: str, kind: str, subjects: tuple[str, ...], values: dict) -> pa.RecordBatch:
    layout = telemetry_schema(run_id)
    known = {"kind": [kind] * len(subjects), "subject": subjects, **values}
    arrays = [
        pa.nulls(len(subjects), column.type)
        if column.name not in known
        else known[column.name]
        if isinstance(known[column.name], pa.Array)
        else pa.array(known[column.name], column.type)
        for column in layout
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=layout)
