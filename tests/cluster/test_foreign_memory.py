"""A local rig whose driver is simulated in every process of Ray: whether its one GPU is loaded at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Python runs this at each start, in the agent's process too.
SIMULATED = """
import sys
sys.path.append({root!r})
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import SimulatedDriver, SimulatedGpu, SimulatedProcess
gpu = SimulatedGpu("GPU-a", memory_used_mib={used_mib}, processes=[SimulatedProcess(17, {used_mib})])
kept = installed(SimulatedDriver([gpu]))
kept.__enter__()
"""
PROFILE = """
name = "one"
[[nodes]]
name = "host"
cpus = 2
ram_gib = 8
gpus = [{ sku = "rtx-3090", vram_share = 0.5 }]
"""


@pytest.fixture
def occupied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    def occupy(used_mib: float) -> None:
        code = SIMULATED.format(root=str(ROOT), used_mib=used_mib)
        (tmp_path / "sitecustomize.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return occupy


def load_it(rig: Any) -> None:
    with rig.cluster(None) as cluster:
        plan, specs = rig.sustained("sustained", 1)
        assert cluster.run_stage(plan, specs).status == "failed"
        assert cluster._workers.slots == {}
    assert rig.recording.gpus["host/gpu0"].uuid == "GPU-a"
    assert not rig.recording.workers


def test_a_gpu_that_others_fill_is_not_touched(
    load: Callable[[str], Any], occupied: Callable[[float], None]
) -> None:
    occupied(20000.0)
    rig = load(PROFILE)
    load_it(rig)
    (skipped,) = rig.events("gpu_skipped")
    assert skipped.subject == "host/gpu0"
    assert skipped.data["pids"] == (17,)
    assert "pid 17 holds 20000 MiB" in skipped.message
    assert not rig.events("gpu_taken")


def test_a_gpu_with_room_is_reserved(load: Callable[[str], Any], occupied: Callable[[float], None]) -> None:
    """As far as a simulated card goes: CUDA, where there is any, does not know it."""
    occupied(100.0)
    rig = load(PROFILE)
    load_it(rig)
    assert not rig.events("gpu_skipped")
    (taken,) = rig.events("gpu_taken")
    assert "could not be reserved" in taken.message
    assert "another job" not in taken.message
