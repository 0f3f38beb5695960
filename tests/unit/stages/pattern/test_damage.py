"""What several wrong words have in common."""

import pytest

from rigproof.stages.pattern.stage import VramError, bits_in_words, bits_of, in_common


def wrong(offset, *bits):
    expected = 0x5555
    read = expected ^ sum(1 << bit for bit in bits)
    words = [f"{word:016x}" for word in (expected, read, read)]
    place = (0, offset // 8, offset, f"{offset:x}")
    shown = " ".join(map(str, bits))
    return VramError(
        1.0, "pattern", "w", "s", "address", "check", *place, *words, shown, "hard", mended=False
    )


def test_bits_of_a_word():
    assert bits_of(0) == ()
    assert bits_of(0b1010) == (1, 3)
    assert bits_of(-(2**63)) == (63,)
    assert len(bits_of(-1)) == 64


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ((17,), "bit 17"),
        ((1, 2), "bits 1, 2"),
        ((0, 1, 2, 3), "bits 0, 1, 2, 3"),
        ((0, 1, 2, 3, 4), "5 bits"),
    ],
)
def test_bits_in_words(bits, text):
    assert bits_in_words(bits) == text


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        ([], ""),
        ([wrong(0, 17)], ""),
        ([wrong(0, 17), wrong(800, 17)], "all in bit 17"),
        ([wrong(0, 17), wrong(4096, 17), wrong(8192, 17)], "all in bit 17, every 4096 bytes"),
        (
            [wrong(0, 3, 17), wrong(4096, 17), wrong(40960, 17)],
            "all with bit 17, multiples of 4096 bytes apart",
        ),
        ([wrong(8, 1), wrong(16, 2), wrong(24, 3)], "in different bits, side by side"),
        ([wrong(0, 1), wrong(800, 2), wrong(808, 3)], "in different bits"),
    ],
)
def test_a_stuck_line_reads_differently_from_random_flips(errors, text):
    assert in_common(errors) == text
