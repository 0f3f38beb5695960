"""Pairs of worker processes of a real Ray: they meet, and one that is killed ends its own pair alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.planning.subjects import turns_of
from support.exchange import NAME, ROUND_S, ExchangeSpec

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 0.5
NODE = """
name = "crews"
[timeouts]
start_s = 240
stall_s = 30
stop_s = 12
[[nodes]]
name = "host"
cpus = 2
ram_gib = 8
"""
DEVICE = """
[[nodes.gpus]]
sku = "unknown"
device = "cpu"
gemm_size = 256
vram_gib_per_worker = 0.02
cpus_per_worker = 0.5
"""


def test_pairs_meet_turn_by_turn_and_a_killed_worker_ends_its_own_pair_alone(
    load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'tests'}")  # where worker processes find the stage
    rig = load(NODE + 3 * DEVICE)
    turns = turns_of("pairs", rig.loaded, rig.plan.workers)
    assert [[crew.subject for crew in turn] for turn in turns] == [
        ["host/cpu1-host/cpu2"],
        ["host/cpu0-host/cpu2"],
        ["host/cpu0-host/cpu1"],
    ]
    plan = StagePlan(NAME, SECONDS, 0.0, SECONDS, ROUND_S).in_turns(len(turns))
    spec = ExchangeSpec(NAME, SECONDS, fatal="host/cpu0-host/cpu2")
    with rig.cluster(None) as cluster:
        stage = cluster.run_stage(plan, {one.worker: spec for one in rig.plan.workers}, turns)
    assert stage.status == "partial"
    assert [one.worker for one in rig.events("worker_died")] == ["host/cpu0#0"]
    (failed,) = rig.events("crew_failed")
    assert failed.subject == "host/cpu0-host/cpu2"
    assert failed.message == "it lost host/cpu0#0; the others were told to stop"
    assert not rig.events("worker_hung", "worker_failed", "timeout")
    whole = {crew.subject: set(crew.workers) for turn in (turns[0], turns[2]) for crew in turn}
    rounds = [(one.subject, one.worker) for one in rig.recording.rounds]
    assert {pair: {worker for subject, worker in rounds if subject == pair} for pair in whole} == whole
