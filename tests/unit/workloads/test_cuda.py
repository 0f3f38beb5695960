import os
import warnings

import pytest
import torch

from rigproof.workloads.cuda import best_half, cuda_precisions, set_tf32
from rigproof.workloads.device import open_device


@pytest.mark.parametrize(
    ("capability", "precisions", "half"),
    [
        ((6, 1), ("fp32",), "fp32"),
        ((7, 0), ("fp32", "fp16"), "fp16"),
        ((7, 5), ("fp32", "fp16"), "fp16"),
        ((8, 0), ("fp32", "tf32", "fp16", "bf16"), "bf16"),
        ((8, 6), ("fp32", "tf32", "fp16", "bf16"), "bf16"),
        ((9, 0), ("fp32", "tf32", "fp16", "bf16"), "bf16"),
        ((10, 0), ("fp32", "tf32", "fp16", "bf16"), "bf16"),
    ],
)
def test_precisions_follow_the_compute_capability(capability, precisions, half):
    assert cuda_precisions(capability) == precisions
    assert best_half(precisions) == half


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


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_no_gpu_is_one_clear_error(monkeypatch):
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    with pytest.raises(RuntimeError, match="torch sees no CUDA device"):
        open_device("cuda", cpu_threads=1)
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
