import io
import pickle
from typing import Any

import pytest

from rigproof.devices.reporting import run_workload
from rigproof.records.measurements import MemoryReading
from rigproof.stages.feeding import workload as feeding
from rigproof.stages.feeding.stage import FeedingSpec
from rigproof.stages.gemm.stage import GemmSpec
from rigproof.stages.sustained.stage import SustainedSpec

GEMM = GemmSpec("gemm", 64, ("fp32",), 0.02, 0.02, 0.02)
SUSTAINED = SustainedSpec("sustained", 64, 0.5, 0.1, 0.02, 0.02)
FEEDING = FeedingSpec("feeding", 0.5, 0.2, 0.02, 2, 1, 5.0, 64, overlap=True, reward_speedup=40.0)


class WithoutTorch(pickle.Unpickler):
    """The driver, which has records unpickled and must never load torch for it."""

    def find_class(self, module: str, name: str) -> Any:
        assert module.partition(".")[0] != "torch", f"{module}.{name} is in a record"
        return super().find_class(module, name)


@pytest.mark.parametrize("spec", [GEMM, SUSTAINED, FEEDING])
def test_each_spec_runs_its_workload_and_ends_with_the_memory(cpu, context, monkeypatch, spec):
    monkeypatch.setattr(feeding, "COMPARED", 4)  # strategies, each in a process of its own
    run_workload(spec, cpu, context)
    assert {round_.stage for round_ in context.rounds} == {spec.stage}
    last = context.records[-1]
    assert isinstance(last, MemoryReading)
    assert last.allocated_mib == 0
    assert last.stage == spec.stage
    assert WithoutTorch(io.BytesIO(pickle.dumps(context.records))).load() == context.records


def test_the_last_record_is_the_memory_after_an_error_too(faulty_cpu, context):
    def fail(call, out):
        raise RuntimeError("CUDA error: unspecified launch failure")

    with pytest.raises(RuntimeError, match="launch failure"):
        run_workload(GEMM, faulty_cpu(fail), context)
    assert isinstance(context.records[-1], MemoryReading)
