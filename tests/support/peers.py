"""A node of equal GPUs, each with one worker: the smallest rig in which one GPU is compared with others."""

from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

from rigproof.records.measurements import MemoryReading, Round
from rigproof.records.recording import Recording
from rigproof.records.samples import GpuSample, PcieErrors
from rigproof.stages.feeding.stage import RewardBatch
from support.bench import Bench
from support.recordings import healthy_recording
from support.rig_profile import stage_changes

MODEL = "pc2/gpu0"  # of the healthy recording: every card of the node does what it did
NODE = "pc1"


def subject_of(index: int) -> str:
    """The name of one card of the node."""
    return f"{NODE}/gpu{index}"


def copied(record: Any, subject: str) -> Any:
    """The record as that card would have left it."""
    also = {"uuid": f"GPU-{subject}", "node": NODE}
    fields = {"subject": subject} | {name: value for name, value in also.items() if hasattr(record, name)}
    if getattr(record, "worker", None):
        fields["worker"] = record.worker.replace(MODEL, subject)
    return replace(record, **fields)


@cache
def _measured(number: int) -> Recording:
    """What there is much of, of so many healthy cards. To be copied."""
    healthy = healthy_recording()
    found = Recording(healthy.run)
    for kind in (GpuSample, Round, MemoryReading, RewardBatch, PcieErrors):
        of_model = [one for one in healthy.of(kind) if one.subject == MODEL]
        found.put(kind, [copied(one, subject_of(index)) for index in range(number) for one in of_model])
    return found


def make_peers(bench: Bench, number: int = 8, cards: dict[int, dict[str, Any]] | None = None) -> None:
    """Put a node with that many H200 on the bench; `cards` changes what the profile says of some.

    First of all: what was changed of rounds, readings and samples until now is lost.
    """
    plans = [{"sku": "h200", "workers": 1} | (cards or {}).get(index, {}) for index in range(number)]
    node = {"name": NODE, "cpus": 8 * number, "ram_gib": 192 * number, "gpus": plans}
    bench.rig(nodes=[node], **stage_changes("sustained", combined_floor_tflops=None))
    recording, subjects = bench.recording, [subject_of(index) for index in range(number)]

    recording.tables |= copy(_measured(number)).tables
    for kind in ("counters", "workers", "events", "processes"):
        of_model = [one for one in getattr(recording, kind) if one.subject == MODEL]
        setattr(recording, kind, [copied(one, subject) for subject in subjects for one in of_model])
    for kind in ("gpus", "foreign_memory", "process_watches"):
        of_model = getattr(recording, kind)[MODEL]
        setattr(recording, kind, {subject: copied(of_model, subject) for subject in subjects})
    del recording.nodes["pc2"]
    recording.nodes[NODE] = replace(recording.nodes[NODE], cpus=8.0 * number, ram_gib=192.0 * number)
    for name, stage in recording.stages.items():
        recording.stages[name] = replace(stage, workers=tuple(f"{subject}#0" for subject in subjects))


def slow_peer(bench: Bench, number: int = 8, share: float = 0.9, index: int = 0) -> None:
    """One card of the node does this share of the others' work."""
    make_peers(bench, number)
    bench.slow(subject_of(index), share)
