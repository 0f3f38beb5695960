import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.profiles.planning.operands import context_gib, fitting_size, gemm_mib, matrix_mib, operands_mib


@pytest.mark.parametrize(("precision", "mib"), [("fp32", 256), ("tf32", 256), ("fp16", 128), ("bf16", 128)])
def test_the_memory_of_a_matrix_and_of_a_product(precision, mib):
    assert matrix_mib(8192, precision) == mib
    assert operands_mib(8192, precision) == 3 * mib
    assert gemm_mib(8192, precision) == 5 * mib


def test_a_product_of_fp8_is_stored_in_16_bits():
    assert matrix_mib(8192, "fp8") == 64
    assert operands_mib(8192, "fp8") == 2 * 64 + 128


@pytest.mark.parametrize(("capability", "gib"), [((9, 0), 0.67), ((8, 6), 0.4), (None, 0.4)])
def test_a_context_takes_what_was_measured_on_such_a_card(capability, gib):
    assert context_gib(capability) == gib


def test_a_product_is_planned_in_the_precision_that_takes_most():
    assert operands_mib(8192) == max(operands_mib(8192, name) for name in ("fp32", "tf32", "fp16", "bf16"))


@given(st.integers(8, 8192).map(lambda eighth: 8 * eighth), st.floats(0.1, 100_000))
def test_a_fitting_size_fits_unless_it_is_the_smallest(size, memory_mib):
    fitting = fitting_size(size, memory_mib)
    assert fitting % 8 == 0
    assert 64 <= fitting <= size
    assert fitting == 64 or gemm_mib(fitting) <= memory_mib
    assert fitting == size or gemm_mib(size) > memory_mib
