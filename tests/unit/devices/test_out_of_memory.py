"""Want of memory in a workload: a message, an event and an error, and nothing that stays allocated."""

import weakref

import pytest
import torch

from rigproof.devices.out_of_memory import failed_allocation, within_memory
from rigproof.devices.reporting import Reporter


def failing(error):
    def work():
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "message"),
    [(torch.OutOfMemoryError("no room"), "no room"), (MemoryError(), "MemoryError")],
)
def test_a_failed_allocation_is_its_message_which_is_never_empty(cpu, error, message):
    assert failed_allocation(cpu, failing(error)) == message
    assert failed_allocation(cpu, lambda: 5) == ""


@pytest.mark.parametrize("error", [RuntimeError("CUDA error: an illegal memory access"), KeyError("pair")])
def test_whatever_else_fails_passes_through(cpu, context, error):
    with pytest.raises(type(error)):
        within_memory(cpu, Reporter(context, "gemm"), 3.0, "operands", failing(error))
    assert not context.events("oom")


def test_what_was_allocated_before_the_failure_is_freed(cpu, context):
    kept = []

    def work():
        matrix = cpu.empty(64, "fp32")
        kept.append(weakref.ref(matrix))
        raise torch.OutOfMemoryError("no room")

    with pytest.raises(MemoryError, match="operands of size 64: no room"):
        within_memory(cpu, Reporter(context, "gemm"), 3.0, "operands of size 64", work)
    assert kept[0]() is None
    (event,) = context.events("oom")
    assert event.data == {"requested_mib": 3.0, "recovered": False}
