import os
import warnings

import pytest
import torch

from rigproof.devices.cuda import CudaDevice, best_half, cublas_version, cuda_precisions, set_tf32
from rigproof.devices.opening import open_device
from support.two_devices import needs_gpus


@pytest.mark.parametrize(
    ("capability", "precisions", "half"),
    [
        ((6, 1), ("fp32",), "fp32"),
        ((7, 0), ("fp32", "fp16"), "fp16"),
        ((7, 5), ("fp32", "fp16"), "fp16"),
        ((8, 0), ("fp32", "tf32", "fp16", "bf16"), "bf16"),
        ((8, 6), ("fp32", "tf32", "fp16", "bf16"), "bf16"),
        ((8, 9), ("fp32", "tf32", "fp16", "bf16", "fp8"), "bf16"),
        ((9, 0), ("fp32", "tf32", "fp16", "bf16", "fp8"), "bf16"),
        ((10, 0), ("fp32", "tf32", "fp16", "bf16", "fp8"), "bf16"),
    ],
)
def test_precisions_follow_the_compute_capability(capability, precisions, half):
    assert cuda_precisions(capability) == precisions
    assert best_half(precisions) == half


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("CUDA error: out of memory"), False),
    ],
)
def test_only_what_lacks_memory_is_a_lack_of_memory(error, is_one):
    device = CudaDevice.__new__(CudaDevice)  # without a card
    assert device.is_out_of_memory(error) is is_one


def test_tf32_is_switched_both_ways_without_a_warning():
    settings = torch.backends.cuda.matmul
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        set_tf32(True)
        assert settings.fp32_precision == "tf32"
        set_tf32(False)
        assert settings.fp32_precision == "ieee"


class OldSettings:
    allow_tf32 = False


def test_a_torch_without_the_new_name_gets_the_old_one(monkeypatch):
    old = OldSettings()
    monkeypatch.setattr(torch.backends.cuda, "matmul", old)
    set_tf32(True)
    assert old.allow_tf32
    assert not hasattr(old, "fp32_precision")


def test_the_allocator_s_settings_are_reported_in_short(monkeypatch):
    settings = {
        "expandable_segments": True,
        "max_split_size": -1,
        "roundup_power2_divisions": {"1": 16, "2": 16, ">": 16},
        "pinned_num_register_threads": 1,
    }
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: {"allocator_settings": settings})
    reported = CudaDevice.allocator_settings(object.__new__(CudaDevice))
    assert reported == {"expandable_segments": True, "max_split_size": -1, "roundup_power2_divisions": 16}


def test_a_torch_that_reports_no_settings_is_no_error(monkeypatch):
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", dict)
    assert CudaDevice.allocator_settings(object.__new__(CudaDevice)) == {}


@pytest.mark.parametrize(
    ("mib", "share", "capped"), [(6136.0, 0.5, True), (12272.0, 1.0, False), (None, 1.0, False)]
)
def test_the_cap_is_a_share_of_the_card(monkeypatch, mib, share, capped):
    shares = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *given: shares.append(given[0]))
    device = object.__new__(CudaDevice)
    device.where, device._total_bytes = torch.device("cuda", 0), 12272 * 2**20
    assert device.limit_memory(mib) is capped
    assert shares == [share]


@needs_gpus(1, torch.cuda.device_count())
def test_the_real_allocator_keeps_the_cap_and_counts_what_it_refuses():
    device = open_device("cuda", cpu_threads=1)
    before = device.memory().ooms
    held_mib = torch.cuda.memory_reserved() / 2**20  # by earlier tests: cuBLAS keeps 32 MiB on a Hopper
    assert device.limit_memory(held_mib + 64)
    try:
        with pytest.raises(RuntimeError) as raised:
            torch.empty(128 * 2**20, dtype=torch.uint8, device="cuda")
        assert device.is_out_of_memory(raised.value)
        assert device.memory().ooms == before + 1
        kept = torch.empty(32 * 2**20, dtype=torch.uint8, device="cuda")
        del kept
        assert device.cached_mib() >= 32
    finally:
        device.limit_memory(None)
        device.empty_cache()
    torch.empty(128 * 2**20, dtype=torch.uint8, device="cuda")
    assert "expandable_segments" in device.allocator_settings()


def test_no_gpu_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    with pytest.raises(RuntimeError, match="torch sees no CUDA device"):
        open_device("cuda", cpu_threads=1)
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


@pytest.mark.parametrize(
    "mapped",
    [
        "",
        "7f00-7f01 r--p 00000000 08:01 12 /lib/libc.so.6\n7f02-7f03 rw-p 00000000 00:00 0\n",
        "7f00-7f01 r--p 00000000 08:01 12 /lib/libcublasLt.so.13\n",
        "7f00-7f01 r--p 00000000 08:01 12 /nowhere/libcublas.so.13\n",
    ],
    ids=["nothing", "no cuBLAS", "another library", "one that is gone"],
)
def test_a_cublas_that_cannot_be_asked_has_no_version(tmp_path, mapped):
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "maps").write_text(mapped)
    assert cublas_version(tmp_path) is None


@needs_gpus(1, torch.cuda.device_count())
def test_cublas_says_its_own_version():
    version = CudaDevice(cpu_threads=1).arithmetic()["cublas"]
    assert version is not None
    assert len(version.split(".")) == 3
