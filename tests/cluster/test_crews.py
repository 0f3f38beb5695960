"""Pairs of worker processes of a real Ray: they meet, and one that is killed ends its own pair alone."""

import os
import signal
from collections.abc import Callable
from typing import Any

from rigproof.profiles.planning.crews import Turn, turns_of
from rigproof.profiles.planning.plan import StagePlan
from support.exchange import NAME, ROUND_S, ExchangeSpec

SECONDS = 1.0
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


def exchange(rig: Any) -> tuple[StagePlan, dict[str, ExchangeSpec], tuple[Turn, ...]]:
    """Every two devices of the rig, as long as it takes them."""
    turns = turns_of("pairs", rig.loaded, rig.plan.workers)
    plan = StagePlan(NAME, SECONDS, 0.0, SECONDS, ROUND_S).in_turns(len(turns))
    return plan, {one.worker: ExchangeSpec(NAME, SECONDS) for one in rig.plan.first_workers()}, turns


def test_pairs_meet_turn_by_turn_and_a_killed_worker_ends_its_own_pair_alone(
    load: Callable[[str], Any],
) -> None:
    rig = load(NODE + 3 * DEVICE)
    plan, specs, turns = exchange(rig)
    assert [[crew.subject for crew in turn] for turn in turns] == [
        ["host/cpu1-host/cpu2"],
        ["host/cpu0-host/cpu2"],
        ["host/cpu0-host/cpu1"],
    ]
    hurt: list[str] = []

    def kill_first() -> None:
        """In the second turn."""
        if not hurt and rig.rounds(NAME, "host/cpu0-host/cpu2"):
            hurt.append("host/cpu0")
            os.kill(rig.pid_of("host/cpu0"), signal.SIGKILL)

    with rig.cluster(None) as cluster:
        specs["host/cpu0#0"] = ExchangeSpec(NAME, 60.0)  # until it is killed, and then no longer
        stage = cluster.run_stage(plan, specs, turns, on_tick=kill_first)
    assert stage.status == "partial"
    assert [one.worker for one in rig.events("worker_died")] == ["host/cpu0#0"]
    (failed,) = rig.events("crew_failed")
    assert failed.subject == "host/cpu0-host/cpu2"
    assert failed.message == "it lost host/cpu0#0; the others were told to stop"
    assert not rig.events("worker_hung", "worker_failed", "timeout")
    for one, other in ((1, 2), (0, 1)):
        found = [one for one in rig.recording.rounds if one.subject == f"host/cpu{one}-host/cpu{other}"]
        assert {one.worker for one in found} == {f"host/cpu{number}#0" for number in (one, other)}
