"""Judges and reports a recording of a very large rig: how long it takes, and how much memory.

Writes a synthetic recording of a level-standard run (seeded noise, H200, every kind of record) in the format
of `rigproof/records/disk/store.py`: one GPU is 10 % slow, one gets too hot. Then lets `rigproof report`
judge it and write its files, measures that process and all its children, and says whether exactly these two
failed.

    python3 bench/large_rig.py --nodes 2048 --gpus 8 --seconds 300 --folder /tmp/large --out large_rig.json
"""

import argparse
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Literal

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import large_rig_records as work
import pyarrow as pa
from pyarrow import parquet

from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import recorded
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.disk.reading import (
    PARQUET_FILE,
    RECORD_TYPES,
    RECORDING_FILE,
    RECORDING_SCHEMA_VERSION,
)
from rigproof.records.disk.tables import ROW_GROUP, TABLE, schema, telemetry_schema
from rigproof.records.fields import table_name
from rigproof.records.identity import GpuIdentity, NodeIdentity, RunInfo, WorkerIdentity
from rigproof.records.measurements import BootReading, ForeignMemory, GpuCounters, MemoryReading, Round, Stage
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.samples import PcieErrors
from rigproof.stages.feeding.stage import RewardBatch
from rigproof.stages.registry import KINDS
from rigproof.stages.sustained.stage import SustainedSettings

RIG_FILE = "large.toml"
FLOOR_SHARE = 0.95  # what the rig's owner accepts, of the usual rate: SuperBench judges a 5 % regression
EVERY_S = 1.0  # how often resident memory is looked at; more often slows down what is measured
PSS_EVERY = 10  # looks; the kernel walks all pages for it, 50 ms for 2.5 GiB, while the process waits
TAGS = {record: tag for tag, record in RECORD_TYPES.items()}


def rig_of(shape: work.Shape, rate_hz: float) -> LoadedRig:
    """The profile, as `load_rig` would make it of a file that promises every node and GPU."""
    base = load_rig("h200-x2", KINDS)
    tables = models_of(KINDS).all
    floors = {"gemm_bf16_tflops": FLOOR_SHARE * 660, "sustained_tflops": FLOOR_SHARE * 660}
    gpu = {"sku": "h200-sxm", "memory_gib": 139.8, "floors": floors}
    [card] = tables["Node"].model_validate({"name": "any", "gpus": [gpu]}).gpus
    nodes = tuple(
        tables["Node"](
            name=name,
            address=f"10.{place // 256}.{place % 256}.1",
            cpus=192.0,
            ram_gib=2000.0,
            gpus=(card,) * shape.gpus,
        )
        for place, name in enumerate(shape.names)
    )
    sampling = base.rig.sampling.model_copy(update={"rate_hz": rate_hz})
    steady = base.settings(SustainedSettings).model_copy(update={"combined_floor_tflops": None})
    stated = {
        "stages": base.rig.stages.model_copy(update={"sustained": steady}),
        "name": "large",
        "description": "",
        "nodes": nodes,
        "sampling": sampling,
    }
    sources = {key: file for key, file in base.sources.items() if not key.startswith("nodes.")}
    sources |= dict.fromkeys(("name", "nodes", "sampling.rate_hz"), RIG_FILE)
    for name in shape.names:
        keys = ["name", "address", "cpus", "ram_gib"]
        keys += [
            f"gpus.{place}.{key}"
            for place in range(shape.gpus)
            for key in ("sku", "memory_gib", "floors.gemm_bf16_tflops", "floors.sustained_tflops")
        ]
        sources |= {f"nodes.{name}.{key}": RIG_FILE for key in keys}
    return LoadedRig(base.rig.model_copy(update=stated), base.skus, sources, RIG_FILE, KINDS)


def identities(shape: work.Shape) -> Iterator[object]:
    """Nodes, GPUs, what others hold, the counters before the load, and the workers."""
    for place, name in enumerate(shape.names):
        offset_s = -4.2e5 - place
        yield NodeIdentity(
            name, name, address_of(place), 192.0, 2000.0, "Linux-6.8", "3.12.3", "2.60.0", "2.11.0",
            "580.65.06", None, 4711, offset_s, 4e-4,
        )  # fmt: skip
    for place, subject in enumerate(shape.subjects):
        index = place % shape.gpus
        yield GpuIdentity(
            subject=subject, device="cuda", uuid=uuid_of(place), name="NVIDIA H200", index=index,
            memory_total_mib=143771.0, sku="h200-sxm", pci_bus_id=f"00000000:{index + 16:02x}:00.0",
            compute_capability=(9, 0), power_limit_w=700.0, power_limit_default_w=700.0,
            sm_clock_max_mhz=1980.0, memory_clock_max_mhz=3201.0, temperature_gpu_max_c=87.0,
            temperature_memory_max_c=95.0, temperature_slowdown_c=89.0, temperature_shutdown_c=95.0,
            slowdown_margin_c=-2.0,
            pcie_generation_max=5, pcie_width_max=16, ecc_enabled=True, display_active=False,
            xid_supported=True, vbios_version="96.00.A5.00.1A",
        )  # fmt: skip
    yield from (ForeignMemory(2.0, subject, 0.0, ()) for subject in shape.subjects)
    yield from counters(shape, "before", 2.1)
    for place, subject in enumerate(shape.subjects):
        yield WorkerIdentity(
            f"{subject}#0", subject, subject.partition("/")[0], "cuda", uuid_of(place),
            5000 + place % shape.gpus, 3.0, "2.11.0+cu130", "13.0", ("fp32", "tf32", "fp16", "bf16"),
        )  # fmt: skip
        yield GpuProcess(
            2.8, subject, 5000 + place % shape.gpus, used_mib=620.0, sm_percent=0.0, user="runner",
            name="ray::Worker", parents=(4000, 1),
        )  # fmt: skip


def address_of(place: int) -> str:
    """A node's."""
    return f"10.{place // 256}.{place % 256}.1"


def uuid_of(place: int) -> str:
    """A GPU's."""
    return f"GPU-{place:08x}-e376-88fd-06dd-5c8f8f524886"


def counters(
    shape: work.Shape, moment: Literal["before", "after"], t_s: float
) -> Iterator[GpuCounters | BootReading]:
    """A healthy card's, and the boot id of each host."""
    for place, name in enumerate(shape.names):
        yield BootReading(t_s, name, moment, f"{place:08x}-0af8-4210-958a-a15aa6f8fa70")
    for subject in shape.subjects:
        yield GpuCounters(
            t_s,
            subject,
            moment,
            0,
            0,
            0,
            0,
            remap_pending=False,
            remap_failed=False,
            pcie_replays=0,
            inforom_valid=True,
            nvlinks=(True,) * 18,
            fabric_state="completed",
            fabric_status=0,
            fabric_health=0,
        )  # type: ignore[arg-type]


def lines(shape: work.Shape, rig: LoadedRig) -> Iterator[str]:
    """recording.jsonl, line by line."""
    run = RunInfo(
        "20261121T120000Z-large-0001", "2026-11-21T12:00:00Z", "standard", "0.1.0", "3.12.3", rig.dump(),
        tuple(work.STAGE_SHARES), command=("-m", "hardware", "--hwprofile=large.toml", "--hw-level=standard"),
    )  # fmt: skip
    yield line(run, schema_version=RECORDING_SCHEMA_VERSION)
    yield line(recorded(make_plan(rig, "standard")))
    yield from map(line, identities(shape))
    for name, (begin, end) in shape.stages().items():
        stage = stage_of(shape, name, work.START_S + begin, float(end - begin))
        yield line(stage)
        yield from (json.dumps(one) + "\n" for one in work.worker_events(shape, name, stage.start_s + 0.1))
        yield line(
            dataclasses.replace(
                stage,
                end_s=work.START_S + end + 0.1,
                status="finished",
                loaded_from_s=work.START_S + begin + 1.02,
                loaded_to_s=work.START_S + end - 0.02,
            )
        )
    end_s = work.START_S + shape.seconds + 1
    yield from map(line, counters(shape, "after", end_s))
    yield from (
        line(ProcessWatch(end_s, subject, 2.5, int(end_s), 1.2, sm_readable=True))
        for subject in shape.subjects
    )


def stage_of(shape: work.Shape, name: str, start_s: float, duration_s: float) -> Stage:
    """A stage that begins, with what each worker was given."""
    spec = {
        "stage": name,
        "size": 8192,
        "vram_mib": 100638.72,
        "duration_s": duration_s,
        "settle_s": 1.0,
        "round_s": 1.0,
    }
    workers = tuple(f"{subject}#0" for subject in shape.subjects)
    settings = {
        "expected_s": duration_s,
        "round_s": 1.0,
        "specs": dict.fromkeys(workers, spec),
        "host_load": {},
    }
    return Stage(name, start_s, workers=workers, settings=settings)


def line(record: object, **more: object) -> str:
    """A record as its line."""
    content = {"type": TAGS[type(record)], **more, **asdict(record)}  # type: ignore[call-overload]
    return json.dumps(content, separators=(",", ":")) + "\n"


def write_recording(folder: Path, shape: work.Shape, rate_hz: float = 1.0) -> None:
    """The recording's files."""
    folder.mkdir(parents=True, exist_ok=True)
    rig = rig_of(shape, rate_hz)
    with (folder / RECORDING_FILE).open("w", buffering=2**20) as file:
        file.writelines(lines(shape, rig))
    run_id = "20261121T120000Z-large-0001"
    labels = {"precision": str, "size": int, "part": str, "batch": int, "steps": int}
    for kind, label_kinds, batches in (
        (Round, labels, lambda layout: work.round_batches(shape, work.speeds(shape), layout)),
        (MemoryReading, {}, lambda layout: work.memory_batches(shape, layout)),
        (RewardBatch, {}, lambda layout: work.reward_batches(shape, layout)),
        (PcieErrors, {}, lambda layout: work.pcie_batches(shape, layout)),
    ):
        name = table_name(kind)
        layout = schema(kind, name, run_id, label_kinds)
        with parquet.ParquetWriter(folder / f"{name}{TABLE}", layout, compression="zstd") as writer:
            for batch in batches(layout):
                writer.write_batch(batch)
    with parquet.ParquetWriter(folder / PARQUET_FILE, telemetry_schema(run_id), compression="zstd") as writer:
        for batches in (work.gpu_batches(shape, run_id), work.host_batches(shape, run_id)):
            while group := list(islice(batches, max(1, ROW_GROUP // len(shape.subjects)))):
                writer.write_table(pa.Table.from_batches(group))


def measured(command: list[str]) -> dict:
    """Run it: wall and CPU seconds, the most memory of it and its children, its status.

    `rss` counts what processes share once for each of them, `pss` once in all.
    """
    peak_rss, peak_pss, looks, cpu, start_s = 0, 0, 0, {}, time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        process = psutil.Process(child.pid)
        while child.poll() is None:
            rss = pss = 0
            for one in _family(process):
                try:
                    rss += one.memory_info().rss
                    pss += one.memory_full_info().pss if looks % PSS_EVERY == 0 else 0
                    cpu[one.pid] = sum(one.cpu_times()[:2])
                except psutil.Error:
                    continue
            peak_rss, peak_pss = max(peak_rss, rss), max(peak_pss, pss)
            looks += 1
            time.sleep(EVERY_S)
        output = child.stdout.read() if child.stdout else ""
    return {
        "wall_s": round(time.monotonic() - start_s, 1),
        "cpu_s": round(sum(cpu.values()), 1),
        "peak_rss_gib": round(peak_rss / 2**30, 2),
        "peak_pss_gib": round(peak_pss / 2**30, 2),
        "status": child.returncode,
        "output": output.splitlines()[-3:],
    }


def _family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def failed(folder: Path) -> dict[str, list[str]]:
    """By subject, the criteria that failed, as verdict.json says."""
    found: dict[str, list[str]] = {}
    for one in json.loads((folder / "verdict.json").read_text())["criteria"]:
        if one["outcome"] == "fail":
            found.setdefault(one["subject"], []).append(one["criterion"])
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=2048)
    parser.add_argument("--gpus", type=int, default=8, help="of each node")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--rate-hz", type=float, default=1.0, choices=[1.0], help="samples, rounds")
    parser.add_argument(
        "--folder", type=Path, required=True, help="for the recording, 0.7 GiB for 16,384 GPUs"
    )
    parser.add_argument("--keep", action="store_true", help="the recording, and judge one that is there")
    parser.add_argument("--out", type=Path, help="JSON")
    args = parser.parse_args()
    count = args.nodes * args.gpus
    shape = work.Shape(args.nodes, args.gpus, args.seconds, slow=count // 3, hot=2 * count // 3)
    if not (args.keep and (args.folder / PARQUET_FILE).exists()):
        write_recording(args.folder, shape, args.rate_hz)
    size = sum(path.stat().st_size for path in args.folder.iterdir() if path.suffix in (".jsonl", TABLE))
    command = [sys.executable, "-m", "rigproof", "report", str(args.folder)]
    figures = measured(command)
    found = failed(args.folder)
    meant = {shape.subjects[shape.slow], shape.subjects[shape.hot]}
    written = {path.name: path.stat().st_size for path in sorted(args.folder.iterdir()) if path.is_file()}
    result = {
        "nodes": args.nodes,
        "gpus": count,
        "seconds": args.seconds,
        "samples": (count + args.nodes) * (args.seconds + int(work.START_S)),
        "rounds": count * args.seconds,
        "recording_gib": round(size / 2**30, 2),
        "cpus": len(os.sched_getaffinity(0)),
        "load_1m_before": round(os.getloadavg()[0], 2),
        **figures,
        "files": written,
        "failed": found,
        "exactly_the_two": set(found) == meant,
    }
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")
    if not args.keep:
        shutil.rmtree(args.folder)


if __name__ == "__main__":
    main()
