"""The words of each pattern, against arithmetic with whole numbers that do not wrap around."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rigproof.stages.pattern.passes import NUMBERS, WORDS, Content
from rigproof.stages.pattern.stage import FADE, MEANINGS, patterns_with

SEEDS = st.integers(0, 2**62 - 1)
WORD_NUMBERS = st.integers(0, 2**37 - 1)  # of a TiB


def signed(word):
    return (word + 2**63) % 2**64 - 2**63


def plain(pattern, number, seed):
    """The same in whole numbers."""
    match pattern:
        case "address":
            return 8 * number + seed % 8
        case "modulo-20":
            return seed if number % 20 == seed % 20 else ~seed
        case "random":
            word = (number ^ seed) * 0x9E3779B97F4A7C15 % 2**64
            word = (word ^ word >> 32) * 0xBF58476D1CE4E5B9 % 2**64
            return word ^ word >> 32
        case "walking":
            return 1 << (number + seed) % 64
        case "bit-fade":
            return -1
    raise AssertionError(pattern)


@pytest.mark.parametrize("pattern", MEANINGS)
@given(number=WORD_NUMBERS, seed=SEEDS)
def test_a_word_follows_its_definition_and_so_does_its_complement(pattern, number, seed):
    content, word = Content(pattern, seed), signed(plain(pattern, number, seed))
    assert content.word(number) == word
    assert content.inverted.word(number) == ~word
    assert content.inverted.inverted == content


@pytest.mark.parametrize("pattern", MEANINGS)
@given(first=WORD_NUMBERS, seed=SEEDS)
def test_torch_and_numpy_make_the_same_words(pattern, first, seed):
    numbers = np.arange(first, first + 100)
    by_numpy = WORDS[NUMBERS[pattern]](numbers, np.asarray([seed]))
    by_torch = Content(pattern, seed).words(torch.from_numpy(numbers))
    assert by_torch.tolist() == by_numpy.tolist()


def test_words_as_literals():
    assert Content("address", 5).word(2**35) == 2**38 + 5
    assert Content("modulo-20", 23).word(43) == 23
    assert Content("modulo-20", 23).word(44) == ~23
    assert Content("random", 0).word(0) == 0
    assert Content("random", 0).word(1) % 2**64 == plain("random", 1, 0)
    assert Content("walking", 1).word(62) == -(2**63)
    assert Content("walking", 1).word(63) == 1
    assert Content("bit-fade", 9).inverted.word(7) == 0


def test_random_words_do_not_repeat_and_half_of_their_bits_are_set():
    words = Content("random", 12345).words(torch.arange(2**16)).numpy().view(np.uint64)
    assert len(np.unique(words)) == len(words)
    assert np.unpackbits(words.view(np.uint8)).mean() == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize("pattern", [name for name in MEANINGS if name != FADE])
def test_passes_with_other_seeds_hold_other_words(pattern):
    numbers = torch.arange(1000)
    assert not torch.equal(Content(pattern, 1).words(numbers), Content(pattern, 2).words(numbers))


def test_a_stage_without_pauses_leaves_bit_fade_out():
    assert patterns_with(0.0) == ("address", "modulo-20", "random", "walking")
    assert patterns_with(15.0) == tuple(MEANINGS)
