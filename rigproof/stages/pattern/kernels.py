"""The passes over the memory as Triton kernels: they make the pattern while they write and compare it.

Imported only where Triton may work. One kernel does all passes and patterns, so that little is compiled.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from rigproof.stages.pattern import words as pure
from rigproof.stages.pattern.passes import MOST_FOUND, NUMBERS, Chunk, Compared, Content, Found, Passes

# Measured on an H200 over 100 GiB: 4702 GB/s written, 4624 compared; torch's own fill and sum: 4640, 4320.
BLOCK, WARPS = 1024, 8

address = triton.jit(pure.address)
modulo_20 = triton.jit(pure.modulo_20)
random = triton.jit(pure.random)
walking = triton.jit(pure.walking)
fade = triton.jit(pure.fade)


def _sweep(  # noqa: PLR0917 - as a kernel is called
    words,
    right,
    counted,
    found,
    first: tl.int64,
    seed: tl.int64,
    flip: tl.int64,
    pattern: tl.int32,
    READ: tl.constexpr,  # noqa: N803 - as constants of the compiler are written
    WRITE: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    MOST: tl.constexpr,  # noqa: N803
):
    """One block of a chunk: its right words are counted in `right`, its wrong ones in `counted`.

    The first MOST wrong words of the pass go to `found`, as pairs of number and content.
    """
    block = tl.program_id(0)
    place = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if READ:
        got = tl.load(words + place)
    number = first + place
    if pattern == 0:
        word = address(number, seed)
    elif pattern == 1:
        word = modulo_20(number, seed)
    elif pattern == 2:
        word = random(number, seed)
    elif pattern == 3:
        word = walking(number, seed)
    else:
        word = fade(number, seed)
    word = word ^ flip
    if READ:
        same = got == word
        equal = tl.sum(same.to(tl.int32))
        tl.store(right + block, equal)
        if equal < BLOCK:
            wrong = (got != word).to(tl.int32)
            begin = tl.atomic_add(counted, (BLOCK - equal).to(tl.int64))
            slot = begin + tl.cumsum(wrong, 0) - 1
            kept = (wrong > 0) & (slot < MOST)
            tl.store(found + 2 * slot, number, mask=kept)
            tl.store(found + 2 * slot + 1, got, mask=kept)
            if WRITE:  # a wrong word stays, so that it can be read again
                tl.store(words + place, ~word, mask=same)
        elif WRITE:
            tl.store(words + place, ~word)
    else:
        tl.store(words + place, word)


# Not specialised: each seed and place would be compiled anew.
sweep = triton.jit(_sweep, do_not_specialize=["first", "seed", "flip", "pattern"])


class TritonPasses(Passes):
    """The passes as one kernel per chunk. Each chunk is whole blocks."""

    name = "Triton"

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        super().__init__(chunks)
        where = chunks[0].words.device
        self._blocks = [chunk.words.numel() // BLOCK for chunk in chunks]
        self._right = torch.zeros(sum(self._blocks), dtype=torch.int32, device=where)
        self._parts = self._right.split(self._blocks)
        self._counted = torch.zeros(1, dtype=torch.int64, device=where)
        self._found = torch.zeros(2 * MOST_FOUND, dtype=torch.int64, device=where)

    def write(self, content: Content) -> None:
        self._launch(content, read=False, write=True)

    def prepare(self) -> None:
        for counts in (self._right, self._counted, self._found):
            counts.zero_()

    def compare(self, content: Content, *, invert: bool) -> None:
        self._launch(content, read=True, write=invert)

    def result(self) -> Compared:
        right, wrong = int(self._right.sum(dtype=torch.int64)), int(self._counted)
        pairs = self._found.view(-1, 2)[: min(wrong, MOST_FOUND)].tolist()
        return Compared(right, wrong, tuple(Found(*pair) for pair in pairs))

    def _launch(self, content: Content, *, read: bool, write: bool) -> None:
        number = NUMBERS[content.pattern]
        for chunk, blocks, right in zip(self.chunks, self._blocks, self._parts, strict=True):
            sweep[(blocks,)](
                chunk.words,
                right,
                self._counted,
                self._found,
                chunk.first,
                content.seed,
                content.flip,
                number,
                READ=read,
                WRITE=write,
                BLOCK=BLOCK,
                MOST=MOST_FOUND,
                num_warps=WARPS,
            )
