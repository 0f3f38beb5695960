import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rigproof.devices.device import Product
from rigproof.devices.verification import (
    Made,
    Reference,
    as_hex,
    differing,
    make_operand,
    make_reference,
    placed,
    tolerance,
)


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


@pytest.mark.parametrize(
    ("reference", "correct", "confirms_5"),
    [
        (Reference(5, 0.01, 0.01), True, True),
        (Reference(6, 0.0, 0.01), True, False),
        (Reference(5, 0.0101, 0.01), False, False),
        (Reference(5, math.nan, 0.01), False, False),
        (Reference(5, 0.0, 0.01, "its operand reads back otherwise"), False, False),
    ],
)
def test_a_reference_is_correct_up_to_its_tolerance_and_without_a_flaw(reference, correct, confirms_5):
    assert (reference.correct, reference.confirms(5)) == (correct, confirms_5)


def test_the_first_product_of_a_correct_reference_may_still_be_wrong():
    made = Made(Reference(5, 0.0, 0.01), 6, 0.1, pair=3)
    assert not made.verified
    assert made.wrong == {"product": 0, "pair": 3, "expected": as_hex(5), "got": as_hex(6)}
    assert Made(Reference(5, 0.0, 0.01), 5, 0.1).verified


def test_a_result_is_wrong_where_it_differs_and_its_reference_is_correct():
    references = [Reference(5, 0.0, 0.01), Reference(6, 0.0, 0.01), Reference(7, 1.0, 0.01)]
    assert differing(references, (0, 1, 0), (5, 6, 5)) == (True, [])
    # That the third reference is wrong was reported when it was made: its results prove nothing.
    assert differing(references, (0, 2), (5, 7)) == (False, [])
    assert differing(references, (2, 0, 1, 1), (7, 5, 9, 6)) == (
        False,
        [{"product": 2, "pair": 1, "expected": as_hex(6), "got": as_hex(9)}],
    )


def test_an_operand_that_is_not_what_was_written_has_a_flaw(cpu, monkeypatch):
    assert make_operand(cpu, 64, "fp32", 3, cpu.empty(64, "fp32")).flaw == ""
    other = cpu.normal(64, "fp32", 4)
    monkeypatch.setattr(cpu, "normal", lambda *_: other)
    flaw = make_operand(cpu, 64, "fp32", 3, cpu.empty(64, "fp32")).flaw
    assert flaw.startswith("operand 3 reads back as ")
    assert flaw.endswith(" was written to it")


def test_a_product_with_the_checksum_of_another_one_may_not_have_been_computed(cpu):
    checksum = make_reference(cpu, product(cpu, "fp32"), block=8).checksum
    again = make_reference(cpu, product(cpu, "fp32"), block=8, taken=[checksum]).reference
    assert not again.correct
    assert f"the checksum {as_hex(checksum)} of another one" in again.flaw
    message, data = again.wrong("fp32")
    assert message == f"fp32 {again.flaw}"
    assert data == {"precision": "fp32", "error": again.error, "tolerance": again.tolerance}
    flawed = make_reference(cpu, product(cpu, "fp32"), block=8, flaw="operand 1", taken=[checksum])
    assert flawed.reference.flaw == "operand 1"
    assert make_reference(cpu, product(cpu, "fp32"), block=8, taken=[checksum + 1]).verified


def test_of_an_oblong_product_each_row_and_column_can_be_sampled(cpu, monkeypatch):
    sampled = []
    monkeypatch.setattr(cpu, "block_error", lambda _, rows, columns: sampled.append((rows, columns)) or 0.0)
    made = Product(torch.ones(4, 16), torch.ones(8, 16), torch.empty(4, 8), "fp32")
    assert make_reference(cpu, made, block=64).reference.tolerance == tolerance("fp32", 16)
    ((rows, columns),) = sampled
    assert (sorted(rows), sorted(columns)) == (list(range(4)), list(range(8)))
    make_reference(cpu, made, block=3, seed=1)
    assert [len(one) for one in sampled[1]] == [3, 3]


ELEMENTS = {"elements": 1, "rows": (4, 4), "columns": (7, 9), "bits": "3"}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({}, ""),
        ({"repeated": 3, "again": 0}, "not again"),
        ({"repeated": 3, "again": 2}, "again in 2 of 3"),
        (
            {"repeated": 3, "again": 2, **ELEMENTS},
            "1 element (row 4, columns 7–9, bits 3), again in 2 of 3",
        ),
        (
            {"repeated": 3, "again": 0, **ELEMENTS, "elements": 2, "operand": "a"},
            "its operand has changed in memory, 2 elements (row 4, columns 7–9, bits 3)",
        ),
    ],
)
def test_where_a_product_was_wrong_is_said_in_words(found, words):
    assert placed(found) == words
