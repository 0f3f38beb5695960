"""A short run: a round, an event, a sample of a GPU and one of a host; and its folder."""

from rigproof.records.disk.store import RecordingWriter
from rigproof.records.identity import RunInfo
from rigproof.records.measurements import Event
from rigproof.records.samples import GpuSample, HostSample
from support.stage_records import gemm_round

RUN = RunInfo(
    "run-1", "2026-01-02T03:04:05Z", "quick", "0.1.0", "3.11.7", {"name": "lab"}, ("gemm", "sustained")
)
ROUND = gemm_round(12.5)
HAPPENED = Event(1.0, "oom", "pc1/gpu0", "12 MiB wanted")
GPU_SAMPLE = GpuSample(
    1.0, "pc1/gpu0", 99.0, 2048.0, 61.0, None, 345.5, None, 1e6, 1695.0, 9751.0, 4, 4, 16, 0, 0.002
)
HOST_SAMPLE = HostSample(1.1, "pc1", 71.5, (70.0, 73.0), 12.5, 9000.0, 55000.0, 0.0, None, (0.1, 0.2), 0.001)


def written(folder):
    writer = RecordingWriter(folder, RUN)
    writer.extend([ROUND, HAPPENED, GPU_SAMPLE, HOST_SAMPLE])
    writer.close()
    return folder
