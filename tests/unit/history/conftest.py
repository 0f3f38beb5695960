"""A recorded GPU with one worker, as the history tests need it."""

import pytest

from rigproof.records.identity import GpuIdentity, NodeIdentity, RunInfo, WorkerIdentity
from rigproof.records.recording import Recording
from rigproof.records.samples import GpuSample
from support.stage_records import gemm_round

UUID = "GPU-11111111-2222-3333-4444-555555555555"


@pytest.fixture
def recording() -> Recording:
    """Four rounds at 70 TFLOP/s on average, five samples of which three lie inside them."""
    recording = Recording(
        RunInfo("run-1", "2026-01-02T03:04:05Z", "quick", "0", "3.11", {"name": "lab"}, ("gemm",))
    )
    recording.extend(
        [
            NodeIdentity(
                "pc1", "pc1", "::1", 8, 16, "Linux", "3.11", "2.60", "2.13.0", "580.65", None, 1, 0, 0
            ),
            GpuIdentity("pc1/gpu0", "cuda", UUID, "NVIDIA H200", 0, 143771, "h200-sxm", power_limit_w=700),
            WorkerIdentity("pc1/gpu0#0", "pc1/gpu0", "pc1", "cuda", UUID, 2, 0, "2.13.0", "12.8", ("bf16",)),
            *(gemm_round(10 + number, seconds) for number, seconds in enumerate((0.05, 0.04, 0.06, 0.05))),
            GpuSample(5.0, "pc1/gpu0", sm_clock_mhz=210, core_temperature_c=30),
            GpuSample(10.5, "pc1/gpu0", sm_clock_mhz=1700, core_temperature_c=60, power_w=600),
            GpuSample(11.5, "pc1/gpu0", sm_clock_mhz=1800, core_temperature_c=70),
            GpuSample(12.5, "pc1/gpu0", sm_clock_mhz=1900, core_temperature_c=80),
            GpuSample(12.5, "pc1/gpu1", sm_clock_mhz=99, core_temperature_c=99),
            GpuSample(20.0, "pc1/gpu0", sm_clock_mhz=210, core_temperature_c=50),
        ]
    )
    return recording
