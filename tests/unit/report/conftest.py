"""One sample run for all report tests: two GPUs of one host, sixty seconds, made from a fixed seed."""

import math
import random
from copy import copy
from dataclasses import replace

import pytest

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan, WorkerPlan
from rigproof.records.identity import GpuIdentity, NodeIdentity, RunInfo, WorkerIdentity
from rigproof.records.measurements import TFLOP, Event, Round, Stage
from rigproof.records.recording import Recording
from rigproof.records.samples import GpuSample, HostSample
from rigproof.records.verdict import Outcome, Verdict
from support.rig_profile import MODELS, loaded_rig

GPUS = (("pc1/gpu0", "NVIDIA GeForce RTX 3090", "rtx-3090", 24576.0, 350.0, 71.0, 79.0),
        ("pc1/gpu1", "NVIDIA GeForce RTX 3070", "rtx-3070", 8192.0, 220.0, 40.0, 84.0))  # fmt: skip


@pytest.fixture(scope="session")
def loaded() -> LoadedRig:
    """The rig that the sample run was planned for, with a band and limits."""
    skus = {
        sku: MODELS.sku(
            name=name,
            nvml_names=(name,),
            memory_gib=memory / 1024,
            memory_bandwidth_gbps=900,
            power_limit_w=power,
            peak_tflops={"bf16": rate * 1.2},
            steady={"gemm_bf16_tflops": {"value": rate}},
        )
        for _, name, sku, memory, power, rate, _ in GPUS
    }
    changes = {
        "name": "lab",
        "nodes": [{"name": "pc1", "cpus": 16, "gpus": [{"sku": sku, "workers": 1} for sku in skus]}],
        "limits": {"core_temperature_c": 80, "throttle_share": 0.0},
        "responsiveness": {"p99_ms": 1000, "max_ms": 1000},
    }
    sources = {"limits.core_temperature_c": "hwprofiles/rigs/lab.toml"}
    return replace(loaded_rig(changes), skus=skus, sources=sources, file="hwprofiles/rigs/lab.toml")


@pytest.fixture(scope="session")
def plan() -> Plan:
    """Both stages, one worker for each GPU."""
    workers = tuple(
        WorkerPlan(f"{subject}#0", subject, "pc1", "cuda", 1.0, 1.0, memory * 0.7, 8192)
        for subject, _, _, memory, *_ in GPUS
    )
    stages = (StagePlan("gemm", 20.0, 8.0, 2.0, 0.05), StagePlan("sustained", 35.0, 5.0, 30.0, 0.1))
    return Plan("quick", workers, stages, 75.0)


@pytest.fixture
def recording(recorded) -> Recording:
    """The sample run, to be changed: its lists and tables are the test's own."""
    return copy(recorded)


@pytest.fixture(scope="session")
def recorded(loaded) -> Recording:
    """Sixty seconds of both GPUs: loaded from t=3 s, the second one too hot at the end."""
    chance = random.Random(20260102)
    run = RunInfo(
        run_id="20260102T030405Z-lab-a1b2c3",
        started_at="2026-01-02T03:04:05Z",
        level="quick",
        rigproof_version="0.1.0",
        python_version="3.11.7",
        rig=loaded.dump(),
        stages=("gemm", "sustained"),
    )
    recording = Recording(run)
    recording.add(
        NodeIdentity("pc1", "workshop", "127.0.0.1", 16.0, 62.7, "Linux 6.1", "3.11.7", "2.60.0", "2.13.0",
                     "580.65.06", None, 4242, -1000.0, 0.0004)
    )  # fmt: skip
    for index, (subject, name, sku, memory, power, rate, hottest) in enumerate(GPUS):
        uuid = f"GPU-{index}1111111-2222-3333-4444-555555555555"
        recording.add(
            GpuIdentity(
                subject, "cuda", uuid, name, index, memory, sku, power_limit_w=power, sm_clock_max_mhz=2100.0
            )
        )
        worker = f"{subject}#0"
        recording.add(
            WorkerIdentity(
                worker, subject, "pc1", "cuda", uuid, 5000 + index, 2.0, "2.13.0", "12.8", ("fp32", "bf16")
            )
        )
        for step in range(600):
            recording.add(_gpu_sample(step / 10, subject, memory, power, hottest, chance))
        for step in range(100):
            recording.add(_round(4 + step * 0.2, "gemm", worker, rate, chance))
        for step in range(300):
            recording.add(_round(25 + step * 0.1, "sustained", worker, rate * 0.97, chance))
    for step in range(600):
        t_s = step / 10
        percent = 77 + chance.gauss(0, 2) if t_s > 25 else 20 + chance.gauss(0, 5)
        delays = tuple(abs(chance.gauss(0.2, 0.1)) for _ in range(9))
        recording.add(HostSample(t_s, "pc1", percent, None, 12.0, 9000.0, 54000.0, 0.0, 61.0, delays))
    workers = tuple(f"{gpu[0]}#0" for gpu in GPUS)
    recording.add(Stage("gemm", 3.0, 24.0, "finished", workers, 4.0, 23.5))
    recording.add(Stage("sustained", 24.5, 56.0, "finished", workers, 25.0, 55.0))
    recording.add(Event(40.0, "nvml_error", "pc1/gpu1", "a reading failed once", data={"code": 999}))
    return recording


def _gpu_sample(t_s, subject, memory, power, hottest, chance):
    busy = 3 < t_s < 56
    warm = 1 - math.exp(-max(min(t_s, 56) - 3, 0) / 15)
    if t_s > 56:
        warm *= math.exp(-(t_s - 56) / 20)
    return GpuSample(
        t_s,
        subject,
        utilization_percent=99.0 if busy else 0.0,
        memory_used_mib=memory * 0.7 if busy else 500.0,
        core_temperature_c=round(38 + (hottest - 38) * warm),
        power_w=power * (0.97 + chance.gauss(0, 0.01)) if busy else 25.0,
        sm_clock_mhz=1700 + 15 * chance.randint(-2, 2) if busy else 210,
        clock_event_reasons=4 if busy else 1,
    )


def _round(t_s, stage, worker, rate, chance):
    subject = worker.partition("#")[0]
    seconds = 0.1 * (1 + chance.gauss(0, 0.005))
    return Round(
        t_s,
        stage,
        worker,
        subject,
        "measure",
        seconds,
        rate * 0.1,
        TFLOP,
        True,
        {"precision": "bf16", "size": 8192},
    )


@pytest.fixture(scope="session")
def verdicts() -> list[Verdict]:
    """One failure, one warning, one baseline, one not measured, one that does not apply, passes."""
    rig, rtx_3090 = "hwprofiles/rigs/lab.toml", "hwprofiles/gpus/rtx-3090.toml"
    found = [
        Verdict("throughput.gemm_bf16", "pc1/gpu0", Outcome.PASS, "TFLOP/s", 71.04, 53.4, rtx_3090,
                direction="at_least"),
        Verdict("throughput.gemm_bf16", "pc1/gpu1", Outcome.NO_LIMIT, "TFLOP/s", 40.2, detail="no floor"),
        Verdict("thermal.core_temperature", "pc1/gpu0", Outcome.PASS, "°C", 79, 80, rig, direction="at_most"),
        Verdict(
            "thermal.core_temperature", "pc1/gpu1", Outcome.FAIL, "°C", 84, 80, rig,
            remedy="clean the heatsink or raise the fan curve", from_s=41.2, length_s=14.8,
            direction="at_most",
        ),
        Verdict("host.cpu_band", "pc1", Outcome.WARN, "%", 91, 90, "hwprofiles/defaults.toml",
                direction="at_most", remedy="stop other programs on this host"),
        Verdict("memory.ecc", "pc1/gpu0", Outcome.NOT_APPLICABLE, detail="no ECC here"),
        Verdict("power.draw", "pc1/gpu1", Outcome.NOT_MEASURED, "W", detail="no power samples",
                remedy="look at nvidia-smi -q -d POWER"),
    ]  # fmt: skip
    return [*found, replace(found[0], criterion="throughput.sustained", measured=69.1)]
