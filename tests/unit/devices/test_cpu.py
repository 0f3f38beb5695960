import pytest
import torch

from rigproof.devices.cpu import CpuDevice, cpu_name, host_memory_mib


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


def written(folder, **files):
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


MEMINFO = (
    "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\nHugePages_Total:       0\n"
)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ({}, (8192, 16384)),
        ({"memory_max": "max\n", "memory_current": "5\n"}, (8192, 16384)),
        ({"memory_max": f"{2**32}\n", "memory_current": f"{2**30}\n"}, (3072, 4096)),
        ({"memory_max": f"{2**40}\n", "memory_current": f"{2**30}\n"}, (8192, 16384)),
    ],
)
def test_a_control_group_bounds_the_memory(tmp_path, group, expected):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(MEMINFO)
    assert host_memory_mib(meminfo, written(tmp_path, **group)) == expected


@pytest.mark.parametrize("text", [None, "", "MemTotal: many kB\n"])
def test_memory_that_cannot_be_read_is_none(tmp_path, text):
    meminfo = tmp_path / "meminfo"
    if text is not None:
        meminfo.write_text(text)
    assert host_memory_mib(meminfo, tmp_path) == (None, None)


def test_the_name_is_the_kernel_s(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: A CPU @ 3 GHz\nmodel name\t: B\n")
    assert cpu_name(cpuinfo) == "A CPU @ 3 GHz"
    assert cpu_name(tmp_path / "none")
