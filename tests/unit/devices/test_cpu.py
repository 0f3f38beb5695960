import resource

import pytest
import torch

from rigproof.devices import cpu as module
from rigproof.devices.cpu import CpuDevice
from rigproof.host.cgroup import memory_limit

MIB = 2**20


def test_a_cpu_keeps_its_identity(cpu):
    again = CpuDevice(cpu_threads=1)
    assert again.uuid == cpu.uuid
    assert cpu.uuid.startswith("CPU-")
    assert cpu.name


def test_torch_uses_the_threads_it_is_given():
    CpuDevice(cpu_threads=2)
    assert torch.get_num_threads() == 2
    CpuDevice(cpu_threads=1)
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_random_data_is_normal_repeatable_and_differs_by_seed(cpu, precision):
    first, again, other = (cpu.normal(256, precision, seed) for seed in (7, 7, 8))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.float().mean().abs() < 0.02
    assert first.float().std().sub(1).abs() < 0.02
    assert first.is_contiguous()


@pytest.mark.parametrize(("bf16", "fp32", "expected"), [(50.0, 100.0, "bf16"), (49.0, 100.0, "fp32")])
def test_half_is_bf16_only_where_it_is_not_emulated(monkeypatch, bf16, fp32, expected):
    rates = {"bf16": bf16, "fp32": fp32}
    monkeypatch.setattr(CpuDevice, "_probe", lambda self, precision: rates[precision])
    assert CpuDevice(cpu_threads=1).half == expected


def test_a_probe_that_waits_for_a_cpu_now_and_then_decides_the_same(monkeypatch):
    """bf16 takes 1 ms and fp32 4; all but one of the products of bf16 wait for others' work."""
    now_s, calls = [0.0], []

    def multiply(self, a, b, out):
        calls.append(a.dtype)
        waits = a.dtype == torch.bfloat16 and calls.count(a.dtype) != 4
        now_s[0] += {torch.float32: 0.004, torch.bfloat16: 0.001}[a.dtype] + (0.1 if waits else 0)

    monkeypatch.setattr(module.time, "perf_counter", lambda: now_s[0])
    monkeypatch.setattr(CpuDevice, "multiply", multiply)
    assert CpuDevice(cpu_threads=1).half == "bf16"


def test_memory_follows_what_is_held(cpu):
    before = cpu.memory()
    matrix = cpu.normal(512, "fp32", seed=1)
    held = cpu.memory()
    del matrix
    assert held.allocated_mib == before.allocated_mib + 1
    assert cpu.memory().allocated_mib == before.allocated_mib
    assert 0 < held.reserved_mib <= held.peak_reserved_mib
    assert held.device_free_mib < held.device_total_mib
    assert held.ooms is None
    assert held.alloc_retries is None


def test_the_allocator_s_own_error_is_known(cpu):
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**50)
    assert cpu.is_out_of_memory(raised.value)
    assert cpu.is_out_of_memory(MemoryError())
    assert not cpu.is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not cpu.is_out_of_memory(ValueError("can't allocate memory"))


V2 = {
    "cgroup.controllers": "memory",
    "box/memory.max": f"{MIB}",
    "box/memory.current": f"{MIB}",
    "box/memory.stat": f"inactive_file {MIB // 4}",
}
V1 = {
    "memory/box/memory.limit_in_bytes": f"{MIB}",
    "memory/box/memory.usage_in_bytes": f"{MIB}",
    "memory/box/memory.stat": f"total_inactive_file {MIB // 4}",
}


@pytest.mark.parametrize(("groups", "line"), [(V2, "0::/box"), (V1, "7:memory:/box")], ids=["v2", "v1"])
def test_a_container_s_memory_is_what_there_is(tmp_path, monkeypatch, groups, line):
    (tmp_path / "cgroup").mkdir()
    for name, text in {"../proc/self/cgroup": line, **groups}.items():
        file = tmp_path / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(module, "memory_limit", lambda: memory_limit(tmp_path / "proc", tmp_path / "cgroup"))
    memory = CpuDevice(cpu_threads=1).memory()
    assert (memory.device_free_mib, memory.device_total_mib) == (0.25, 1.0)


def test_memory_that_cannot_be_read_is_none(cpu, monkeypatch):
    def unreadable(limit):
        raise ValueError("MemTotal: many kB")

    monkeypatch.setattr(module, "usable_memory", unreadable)
    memory = cpu.memory()
    assert (memory.device_free_mib, memory.device_total_mib) == (None, None)
    assert memory.reserved_mib > 0


def test_the_process_may_have_256_mib_beside_the_capped_memory(cpu, monkeypatch):
    held = 2**40
    monkeypatch.setattr("rigproof.devices.cpu.own_data_bytes", lambda: held)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        assert cpu.limit_memory(200.5)
        assert resource.getrlimit(resource.RLIMIT_DATA) == (held + int(456.5 * 2**20), before[1])
    finally:
        cpu.limit_memory(None)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
