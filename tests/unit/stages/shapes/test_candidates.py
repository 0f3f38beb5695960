"""Which products are measured, and how much work they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.stages.shapes.candidates import (
    ALIGNMENTS,
    HEADS,
    LAYER,
    VOCABULARIES,
    Candidate,
    alignment,
    attention,
    best_size,
    candidates,
    elements,
    fitting_tokens,
    layer,
    sizes_near,
    vocabulary,
)


@pytest.mark.parametrize(
    ("width", "sizes"),
    [
        (2496, (2304, 2432, 2464, 2480, 2488, 2495, 2496, 2560)),
        (960, (768, 896, 928, 944, 952, 959, 960, 1024)),
        (64, (32, 48, 56, 63, 64, 128, 256)),
        (4096, (3968, 4032, 4064, 4080, 4088, 4095, 4096)),
    ],
)
def test_sizes_of_every_alignment_around_the_width(width, sizes):
    assert sizes_near(width) == sizes


@given(st.integers(1, 256).map(lambda number: 64 * number))
def test_every_alignment_is_there_and_near(width):
    sizes = sizes_near(width)
    assert {alignment(size) for size in sizes} == set(ALIGNMENTS)
    assert all(size > 0 and abs(size - width) <= 256 for size in sizes)
    assert alignment(best_size(width)) == 256


def test_a_layer_has_the_products_of_its_forward_pass():
    assert [(one.n, one.k) for one in layer(512, 8)] == [(1536, 512), (512, 512), (2048, 512), (512, 2048)]
    assert sum(one.tflop(1) for one in layer(512, 8)) == pytest.approx(2 * 12 * 512**2 * 8 / 1e12)


def test_attention_counts_both_products_of_whole_examples_and_heads_without_the_masked_half():
    whole = Candidate(attention(64), 512, 1024, 0, 0, 64)
    assert whole.attended(256) == (4, 8, 256)
    assert whole.tflop(256) == pytest.approx(4 * 4 * 8 * (256 * 257 / 2) * 64 / 1e12)
    assert Candidate(attention(96), 512, 1024, 0, 0, 96).attended(256) == (4, 5, 256)
    assert whole.attended(4096) == (1, 8, 1024)


def test_everything_is_measured_once():
    those = candidates(2496, 8192)
    keys = [(one.product, one.size, one.tokens) for one in those]
    assert len(set(keys)) == len(keys) == 8 * 4 + 2 + 4 + 4
    names = {one.product for one in those}
    assert names == {*LAYER, *map(vocabulary, VOCABULARIES), *map(attention, HEADS)}
    assert {one.tokens for one in those} == {512, 1024, 2048, 4096, 8192}


@given(st.integers(1, 64).map(lambda number: 64 * number), st.floats(1.0, 1e5))
def test_tokens_are_halved_until_everything_fits(width, memory_mib):
    tokens = fitting_tokens(width, 8192, memory_mib)
    needed_mib = [4 * sum(elements(candidates(width, one))) / 2**20 for one in (tokens, 2 * tokens)]
    assert needed_mib[0] <= memory_mib or tokens == 1
    assert tokens == 8192 or needed_mib[1] > memory_mib


@pytest.mark.parametrize("width", [64, 960])
@pytest.mark.parametrize("tokens", [1, 7, 64])
def test_the_operands_have_room_for_every_candidate(width, tokens):
    those = candidates(width, tokens)
    left, right, out = elements(those)
    for one in those:
        if one.head:
            batch, heads, length = one.attended(16)
            assert 3 * batch * heads * length * one.head <= left
        else:
            assert (one.tokens * one.k <= left, one.n * one.k <= right, one.tokens * one.n <= out) == (
                True,
            ) * 3
