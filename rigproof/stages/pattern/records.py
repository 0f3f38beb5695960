"""The pattern stage's records besides its rounds."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class VramError:
    """A word of the memory that was not as written, and what reading it again gave.

    `hard`: it was wrong again; `soft`: it was right the second time, so that only the reading was wrong.
    `mended`: it was right once it had been written anew, so that its cell is not stuck. Words are 16
    hexadecimal digits; `bits` are those that differ, from 0 on.
    """

    t_s: float
    stage: str
    worker: str
    subject: str
    pattern: str
    operation: str
    chunk: int  # the allocation, from 0 on
    word: int  # its place in the chunk
    offset: int  # bytes from the beginning of the memory under test
    address: str  # the device's virtual address, hexadecimal
    expected: str
    read: str
    again: str
    bits: str
    kind: Literal["hard", "soft"]
    mended: bool
