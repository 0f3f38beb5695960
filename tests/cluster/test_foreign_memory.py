"""A local rig whose driver is simulated in every process of Ray: which of its GPUs are loaded at all."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rigproof.host import processes

ROOT = Path(__file__).resolve().parents[2]
# Python runs this at each start, in the agent's process too.
SIMULATED = f"""
import sys
sys.path.append({str(ROOT)!r})
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import SimulatedDriver, SimulatedGpu, SimulatedProcess
full = SimulatedGpu("GPU-a", memory_used_mib=20000.0, processes=[SimulatedProcess(17, 20000.0)])
roomy = SimulatedGpu("GPU-b", memory_used_mib=100.0, processes=[SimulatedProcess(18, 100.0)])
kept = installed(SimulatedDriver([full, roomy]))
kept.__enter__()
"""
PROFILE = """
name = "three"
[[nodes]]
name = "host"
cpus = 4
ram_gib = 8
gpus = [
    { sku = "rtx-3090", uuid = "GPU-a", vram_share = 0.5 },
    { sku = "rtx-3090", uuid = "GPU-b", vram_share = 0.5 },
    { sku = "rtx-3090", uuid = "GPU-c", vram_share = 0.5 },
]
"""


def test_a_gpu_that_others_fill_is_not_touched_one_with_room_is_reserved_and_one_that_is_not_there_is_missing(
    load: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reserved as far as a simulated card goes: CUDA, where there is any, does not know it."""
    (tmp_path / "sitecustomize.py").write_text(SIMULATED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    environment = dict(os.environ)
    rig = load(PROFILE)
    with rig.cluster(None) as cluster:
        folder, ours = cluster._ground._session.folder, cluster._ground._session._processes
        ours |= processes.descendants({process.pid for process in ours})
        plan, specs = rig.sustained("sustained", 1)
        assert cluster.run_stage(plan, specs).status == "failed"
        assert cluster._workers.slots == {}
    assert {subject: gpu.uuid for subject, gpu in rig.recording.gpus.items()} == {
        "host/gpu0": "GPU-a",
        "host/gpu1": "GPU-b",
    }
    assert not rig.recording.workers

    (skipped,) = rig.events("gpu_skipped")
    assert skipped.subject == "host/gpu0"
    assert skipped.data["pids"] == (17,)
    assert "pid 17 holds 20000 MiB" in skipped.message

    (taken,) = rig.events("gpu_taken")
    assert taken.subject == "host/gpu1"
    assert "could not be reserved" in taken.message
    assert "another job" not in taken.message

    (missing,) = rig.events("gpu_missing")
    assert missing.subject == "host/gpu2"
    assert "GPU-c" in missing.message
    assert "host" in rig.recording.nodes
    assert rig.recording.host_samples

    assert processes.wait_gone(ours, 0) == ()  # the rig's orderly end has taken all down
    assert not folder.exists()
    assert dict(os.environ) == environment
