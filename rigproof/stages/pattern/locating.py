"""What a wrong word is: wrong again or right when it is read once more, and mended by writing it anew."""

from collections.abc import Sequence
from dataclasses import dataclass

from rigproof.stages.pattern.damage import WORD_BYTES, bits_in_words, bits_of
from rigproof.stages.pattern.filling import TestedMemory
from rigproof.stages.pattern.passes import Content, Found


@dataclass(frozen=True, slots=True)
class Located:
    """A wrong word of the memory under test; words are signed."""

    number: int
    chunk: int
    place: int  # in the chunk
    address: int
    expected: int
    read: int
    again: int
    mended: bool

    @property
    def hard(self) -> bool:
        """Whether it was wrong again."""
        return self.again != self.expected

    @property
    def offset(self) -> int:
        """Bytes from the beginning of the memory under test."""
        return self.number * WORD_BYTES

    @property
    def bits(self) -> tuple[int, ...]:
        """Those that differed at the first reading."""
        return bits_of(self.expected ^ self.read)

    @property
    def text(self) -> str:
        """`0x7f2a40001000 (byte 68719480832): expected …, read … (bit 17), hard`."""
        kind = "soft" if not self.hard else "hard, right once rewritten" if self.mended else "hard"
        return (
            f"0x{self.address:x} (byte {self.offset}): expected {as_word(self.expected)}, "
            f"read {as_word(self.read)} ({bits_in_words(self.bits)}), {kind}"
        )


def as_word(word: int) -> str:
    """A word as 16 hexadecimal digits."""
    return f"{word % 2**64:016x}"


def locate(memory: TestedMemory, found: Sequence[Found], content: Content) -> list[Located]:
    """Read each word again, past the caches, then write and read it; they hold `content`'s words then."""
    expected = [content.word(one.number) for one in found]
    memory.evict()
    again = [memory.read(one.number) for one in found]
    for one, word in zip(found, expected, strict=True):
        memory.put(one.number, word)
    memory.evict()
    rewritten = [memory.read(one.number) for one in found]
    return [
        Located(
            one.number,
            *memory.place(one.number),
            memory.address(one.number),
            word,
            one.read,
            second,
            mended=third == word,
        )
        for one, word, second, third in zip(found, expected, again, rewritten, strict=True)
    ]
