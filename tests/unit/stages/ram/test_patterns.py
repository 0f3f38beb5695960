"""Patterns are written and read back word by word, and a wrong one is found and told from the others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.stages.ram.patterns import TILE_WORDS, Pattern, Wrong
from rigproof.stages.ram.stage import PATTERNS

WORDS = 3 * TILE_WORDS + 17


def filled(pattern, place=0):
    words = np.zeros(WORDS, np.uint64)
    pattern.fill(words, place)
    return words


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("place", [0, 5 * TILE_WORDS])
def test_what_was_written_is_right(name, place):
    pattern = Pattern(name, 3)
    assert pattern.verify(filled(pattern, place), place, 16) == (0, [])


@settings(max_examples=30, deadline=None)
@given(name=st.sampled_from(PATTERNS), at=st.integers(0, WORDS - 1), bit=st.integers(0, 63))
def test_any_bit_that_differs_is_found_with_its_place(name, at, bit):
    pattern, place = Pattern(name, 1), 2 * TILE_WORDS
    words = filled(pattern, place)
    expected = int(words[at])
    words[at] ^= np.uint64(1 << bit)
    number, [wrong] = pattern.verify(words, place, 16)
    assert number == 1
    assert wrong == Wrong(place + at, expected, expected ^ (1 << bit))
    assert (wrong.offset, wrong.bits) == (8 * (place + at), (bit,))


def test_all_wrong_words_are_counted_and_the_first_ones_named():
    pattern = Pattern("random", 1)
    words = filled(pattern)
    words[::1000] += np.uint64(1)
    number, found = pattern.verify(words, 0, 4)
    assert number == len(words[::1000])
    assert [one.place for one in found] == [0, 1000, 2000, 3000]


def test_every_bit_is_0_and_1_between_random_and_complement():
    random, complement = (filled(Pattern(name, 7)) for name in ("random", "complement"))
    assert (random == ~complement).all()


def test_tiles_and_seeds_differ():
    """Otherwise memory at the wrong address would look right."""
    first, second = (filled(Pattern("random", seed)) for seed in (1, 2))
    tiles = [first[:TILE_WORDS], first[TILE_WORDS : 2 * TILE_WORDS], second[:TILE_WORDS]]
    assert all((one != other).all() for one, other in [(tiles[0], tiles[1]), (tiles[0], tiles[2])])


def test_a_word_that_shows_another_ones_address_is_wrong():
    """As with an address line that is stuck."""
    pattern = Pattern("address", 0)
    words = filled(pattern)
    words[2**14] = words[0]
    number, [wrong] = pattern.verify(words, 0, 16)
    assert (number, wrong.read, wrong.expected) == (1, 0, 2**14)
