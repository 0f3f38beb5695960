"""Each GPU is as fast as its profile says, and stays so. Every test here keeps its rounds in the history."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("throughput.gemm_fp32")
def test_gemm_fp32(gemm, subject, judge, keep_rounds):
    """Steady rate of large fp32 matrix products."""
    keep_rounds(subject)
    judge(subject)


@pytest.mark.criterion("throughput.gemm_tf32")
def test_gemm_tf32(gemm, subject, judge, keep_rounds):
    """Steady rate of large tf32 matrix products."""
    keep_rounds(subject)
    judge(subject)


@pytest.mark.criterion("throughput.gemm_fp16")
def test_gemm_fp16(gemm, subject, judge, keep_rounds):
    """Steady rate of large fp16 matrix products."""
    keep_rounds(subject)
    judge(subject)


@pytest.mark.criterion("throughput.gemm_bf16")
def test_gemm_bf16(gemm, subject, judge, keep_rounds):
    """Steady rate of large bf16 matrix products."""
    keep_rounds(subject)
    judge(subject)


@pytest.mark.criterion("throughput.gemm_fp8")
def test_gemm_fp8(gemm, subject, judge, keep_rounds):
    """Steady rate of large fp8 matrix products, on cards that have it."""
    keep_rounds(subject)
    judge(subject)


@pytest.mark.criterion("throughput.sustained")
def test_sustained(sustained, subject, judge, keep_rounds):
    """What each GPU holds while everything is loaded at once."""
    keep_rounds(subject)
    judge(subject)


@pytest.mark.criterion("throughput.combined")
def test_combined(sustained, subject, judge):
    """What the whole rig holds together."""
    judge(subject)


@pytest.mark.criterion("throughput.stability")
def test_stability(sustained, subject, judge):
    """The rate does not sag while the stage goes on."""
    judge(subject)


@pytest.mark.criterion("throughput.peer_outlier")
def test_peer_outlier(sustained, subject, judge):
    """No GPU is slower than the others of its kind in this rig."""
    judge(subject)
