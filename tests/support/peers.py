"""A node of equal GPUs, each with one worker: the smallest rig in which one GPU is compared with others."""

from dataclasses import replace
from typing import Any

from rigproof.stages.feeding.records import RewardBatch
from support.bench import Bench
from support.recordings import stage_changes

MODEL = "pc2/gpu0"  # of the healthy recording: every card of the node does what it did
NODE = "pc1"


def subject_of(index: int) -> str:
    """The name of one card of the node."""
    return f"{NODE}/gpu{index}"


def make_peers(bench: Bench, number: int = 8, cards: dict[int, dict[str, Any]] | None = None) -> None:
    """Put a node with that many H200 on the bench; `cards` changes what the profile says of some."""
    plans = [{"sku": "h200", "workers": 1} | (cards or {}).get(index, {}) for index in range(number)]
    node = {"name": NODE, "cpus": 8 * number, "ram_gib": 64, "gpus": plans}
    bench.rig(nodes=[node], **stage_changes("sustained", combined_floor_tflops=None))
    recording, subjects = bench.recording, [subject_of(index) for index in range(number)]

    def copied(record: Any, subject: str) -> Any:
        also = {"uuid": f"GPU-{subject}", "node": NODE}
        fields = {"subject": subject} | {name: value for name, value in also.items() if hasattr(record, name)}
        if getattr(record, "worker", None):
            fields["worker"] = record.worker.replace(MODEL, subject)
        return replace(record, **fields)

    rewards = [one for one in recording.of(RewardBatch) if one.subject == MODEL]
    recording.put(RewardBatch, [copied(one, subject) for subject in subjects for one in rewards])
    for kind in ("gpu_samples", "rounds", "memory", "counters", "workers", "events", "processes"):
        of_model = [one for one in getattr(recording, kind) if one.subject == MODEL]
        setattr(recording, kind, [copied(one, subject) for subject in subjects for one in of_model])
    for kind in ("gpus", "foreign_memory", "process_watches"):
        of_model = getattr(recording, kind)[MODEL]
        setattr(recording, kind, {subject: copied(of_model, subject) for subject in subjects})
    del recording.nodes["pc2"]
    recording.nodes[NODE] = replace(recording.nodes[NODE], cpus=8.0 * number)
    for name, stage in recording.stages.items():
        recording.stages[name] = replace(stage, workers=tuple(f"{subject}#0" for subject in subjects))


def slow_peer(bench: Bench, number: int = 8, share: float = 0.9, index: int = 0) -> None:
    """One card of the node does this share of the others' work."""
    make_peers(bench, number)
    bench.slow(subject_of(index), share)
