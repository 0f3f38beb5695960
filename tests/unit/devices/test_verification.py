import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rigproof.devices.device import Product
from rigproof.devices.verification import Reference, as_hex, make_reference, tolerance


@pytest.mark.parametrize(
    ("precision", "size", "expected"),
    [("bf16", 8192, 0.0313), ("fp16", 8192, 0.0040), ("tf32", 8192, 0.0040), ("fp32", 8192, 8.68e-5)],
)
def test_tolerance_follows_the_format(precision, size, expected):
    assert tolerance(precision, size) == pytest.approx(expected, rel=0.02)


def test_tf32_is_not_taken_for_fp32():
    """A tf32 product is off by some 2^-11, which the fp32 tolerance must not let through."""
    assert tolerance("fp32", 8192) < 2**-11 < tolerance("tf32", 8192)


def product(cpu, precision, size=128):
    return Product(
        cpu.normal(size, precision, 1), cpu.normal(size, precision, 2), cpu.empty(size, precision), precision
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("size", [64, 256, 520])
def test_a_real_product_agrees_with_64_bit_arithmetic(cpu, precision, size):
    made = make_reference(cpu, product(cpu, precision, size), block=64)
    assert made.verified
    assert made.reference.error > 0
    assert made.seconds > 0


def test_a_bf16_product_is_not_taken_for_fp32(cpu):
    made = product(cpu, "fp32")
    cpu.multiply(made.a, made.b, made.out)
    made.out.copy_(made.out.to(torch.bfloat16))
    error = cpu.block_error(made, range(64), range(64))
    assert tolerance("fp32", 128) < error < tolerance("bf16", 128)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 0.0])
def test_one_wrong_element_of_the_block_shows(cpu, wrong):
    made = product(cpu, "bf16")
    cpu.multiply(made.a, made.b, made.out)
    largest = made.out[:64, :64].float().abs().argmax().item()
    made.out[largest // 64, largest % 64] = wrong
    error = cpu.block_error(made, range(64), range(64))
    assert not Reference(0, error, tolerance("bf16", 128)).correct


def test_a_device_that_is_always_wrong_never_confirms(faulty_cpu):
    device = faulty_cpu(lambda call, out: out.mul_(1.1))
    made = make_reference(device, product(device, "fp32"), block=16)
    assert not made.reference.correct
    assert not made.verified


def test_only_the_same_checksum_is_confirmed():
    reference = Reference(5, 0.001, 0.01)
    assert reference.confirms(5)
    assert not reference.confirms(6)
    assert not Reference(5, math.nan, 0.01).confirms(5)


@given(st.integers(0, 64 * 64 - 1), st.integers(0, 31))
def test_any_flipped_bit_changes_the_checksum(cpu, place, bit):
    matrix = cpu.normal(64, "fp32", seed=3)
    sums = cpu.checksums(2)
    sums.add(matrix)
    integers = matrix.view(torch.int32).view(-1)
    integers[place] ^= torch.tensor(1 << bit if bit < 31 else -(2**31), dtype=torch.int32)
    sums.add(matrix)
    sums.fetch()
    before, after = sums.take()
    assert before != after


def test_odd_sizes_have_a_checksum_too(cpu):
    sums = cpu.checksums(2)
    sums.add(torch.ones(3, 3))
    sums.add(torch.ones(3, 3, dtype=torch.bfloat16))
    sums.fetch()
    assert sums.take() == (9 * 0x3F800000, 9 * 0x3F80)


def test_checksums_print_as_sixteen_digits():
    assert as_hex(-1) == "f" * 16
    assert as_hex(255) == "00000000000000ff"
