"""Strict work: what is switched on inside, and that nothing of it is left afterwards."""

import os

import pytest
import torch

from rigproof.devices.determinism import VARIABLE, configure, strict
from rigproof.devices.opening import open_device


def settings():
    cudnn = torch.backends.cudnn
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        cudnn.deterministic,
        cudnn.benchmark,
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
        torch.backends.cuda.cudnn_sdp_enabled(),
    )


def test_only_deterministic_algorithms_are_used_inside_and_the_settings_come_back():
    before = settings()
    with strict():
        assert settings() == (True, False, True, False, True, False, True, False)
    assert settings() == before


def test_they_come_back_after_an_error_too_and_as_they_were(monkeypatch):
    torch.use_deterministic_algorithms(True, warn_only=True)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    before = settings()
    try:
        with pytest.raises(RuntimeError), strict():
            raise RuntimeError
        assert settings() == before
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    ("given", "set_to"),
    [(None, ":4096:8"), (":4096:2:16:8", ":4096:8"), (":16:8", ":16:8"), (":4096:8", ":4096:8")],
)
def test_cublas_gets_a_workspace_with_which_it_repeats_its_bits(given, set_to):
    environ = {} if given is None else {VARIABLE: given}
    configure(environ)
    assert environ == {VARIABLE: set_to}


def test_it_is_set_before_a_process_uses_its_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv(VARIABLE, "")
    with pytest.raises(RuntimeError, match="torch sees no CUDA device"):
        open_device("cuda", cpu_threads=1)
    assert os.environ[VARIABLE] == ":4096:8"
