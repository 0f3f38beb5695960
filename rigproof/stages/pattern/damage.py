"""What the wrong words of a card have in common: a stuck line reads differently from a random flip. Pure."""

import math
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from operator import and_

from rigproof.stages.pattern.stage import VramError

BITS_SHOWN = 4
FEWEST = 3  # words: any two are at some distance from each other
WORD_BYTES = 8


def bits_of(differing: int) -> tuple[int, ...]:
    """The bits that are set, from 0 on; of a negative number those of its 64-bit form."""
    return tuple(bit for bit in range(64) if differing >> bit & 1)


def bits_in_words(bits: Sequence[int | str]) -> str:
    """`bit 17`, `bits 3, 17`, `60 bits`."""
    if len(bits) > BITS_SHOWN:
        return f"{len(bits)} bits"
    return f"bit{'' if len(bits) == 1 else 's'} {', '.join(map(str, bits))}"


def in_common(errors: Sequence[VramError]) -> str:
    """What several wrong words share: bits, and a regular distance. Empty for a single one."""
    if len(errors) < 2:
        return ""
    differing = [int(one.expected, 16) ^ int(one.read, 16) for one in errors]
    shared = bits_of(reduce(and_, differing))
    which = "in different bits"
    if shared:
        which = f"all {'with' if len(set(differing)) > 1 else 'in'} {bits_in_words(shared)}"
    distance = _distance(sorted({one.offset for one in errors}))
    return f"{which}, {distance}" if distance else which


def _distance(offsets: Sequence[int]) -> str:
    """How far apart, if that is regular: adjoining words, or multiples of a distance."""
    if len(offsets) < FEWEST:
        return ""
    apart = [after - before for before, after in pairwise(offsets)]
    if set(apart) == {WORD_BYTES}:
        return "side by side"
    if len(set(apart)) == 1:
        return f"every {apart[0]} bytes"
    common = math.gcd(*apart)
    return f"multiples of {common} bytes apart" if common > WORD_BYTES else ""
