"""Passes of torch's operations over chunks of any size: what they write, count, find and leave."""

import pytest
import torch

from rigproof.stages.pattern.choosing import choose, disagreement
from rigproof.stages.pattern.passes import MOST_FOUND, Chunk, Compared, Content, Found, TorchPasses
from rigproof.stages.pattern.stage import MEANINGS

SIZES = (4096, 12288, 8192)
WORDS = sum(SIZES)
FIRST = 2**36  # of the first chunk: beyond what 32 bits hold


@pytest.fixture
def chunks():
    made, first = [], FIRST
    for size in SIZES:
        made.append(Chunk(torch.zeros(size, dtype=torch.int64), first))
        first += size
    return made


@pytest.fixture
def passes(chunks):
    return TorchPasses(chunks)


def compared(passes, content, *, invert=False):
    passes.prepare()
    passes.compare(content, invert=invert)
    return passes.result()


def held(passes):
    return torch.cat([chunk.words for chunk in passes.chunks])


def content_of(content):
    return content.words(torch.arange(FIRST, FIRST + WORDS))


@pytest.mark.parametrize("pattern", MEANINGS)
def test_what_is_written_is_compared_and_inverted(passes, pattern):
    content = Content(pattern, 77)
    passes.write(content)
    assert torch.equal(held(passes), content_of(content))
    assert compared(passes, content, invert=True) == Compared(WORDS, 0, ())
    assert torch.equal(held(passes), content_of(content.inverted))
    assert compared(passes, content.inverted) == Compared(WORDS, 0, ())
    if pattern not in ("modulo-20", "bit-fade"):  # whose neighbours are alike
        assert compared(passes, Content(pattern, 78)).wrong > 0


def test_a_wrong_word_is_found_as_it_was_read_and_left_as_it_is(passes, chunks):
    content = Content("random", 5)
    passes.write(content)
    chunks[1].words[100] ^= 1 << 17
    number, read = FIRST + SIZES[0] + 100, int(chunks[1].words[100])
    assert compared(passes, content, invert=True) == Compared(WORDS - 1, 1, (Found(number, read),))
    assert int(chunks[1].words[100]) == read
    chunks[1].words[100] = content.inverted.word(number)
    assert torch.equal(held(passes), content_of(content.inverted))


def test_of_many_wrong_words_all_are_counted_and_the_first_kept(passes, chunks):
    content = Content("address", 0)
    passes.write(content)
    chunks[0].words[:50] += 1
    chunks[2].words[:50] += 1
    result = compared(passes, content)
    assert (result.right, result.wrong, len(result.found)) == (WORDS - 100, 100, MOST_FOUND)
    assert result.found[0] == Found(FIRST, content.word(FIRST) + 1)
    assert result.found[50].number == FIRST + SIZES[0] + SIZES[1]


def test_a_comparison_that_was_not_made_has_looked_at_nothing(passes):
    content = Content("walking", 3)
    passes.write(content)
    assert compared(passes, content).right == WORDS
    passes.prepare()
    assert passes.result() == Compared(0, 0, ())


def test_a_chunk_that_is_left_out_is_missing_in_the_count(passes, chunks):
    content = Content("walking", 3)
    passes.write(content)
    passes.chunks = chunks[:2]
    assert compared(passes, content).right == SIZES[0] + SIZES[1]


# Which passes a device gets


def test_the_cpu_gets_those_of_torch(cpu):
    assert choose(cpu) == (TorchPasses, "Triton's kernels are for GPUs")


def test_a_gpu_on_which_triton_does_not_work_gets_them_too_with_the_reason(cpu, monkeypatch):
    monkeypatch.setattr(cpu, "kind", "cuda")  # Triton is missing here, or finds no GPU
    make, reason = choose(cpu)
    assert make is TorchPasses
    assert reason.startswith("Triton")


def test_torchs_own_agree_with_the_definition(cpu):
    assert disagreement(TorchPasses, cpu) == ""


class Blind(TorchPasses):
    """Finds nothing wrong."""

    def compare(self, content, *, invert):
        self._right += sum(len(part) for part, _ in self._slices())


class Lazy(TorchPasses):
    """Writes nothing."""

    def write(self, content):
        """Nothing."""


class Rough(TorchPasses):
    """Inverts the wrong words, too."""

    def compare(self, content, *, invert):
        super().compare(content, invert=False)
        for part, numbers in self._slices() if invert else ():
            part.copy_(content.inverted.words(numbers))


@pytest.mark.parametrize(
    ("make", "how"),
    [(Lazy, "write other words"), (Blind, "do not find the one wrong word"), (Rough, "do not invert")],
)
def test_passes_that_do_something_else_are_noticed(cpu, make, how):
    assert disagreement(make, cpu).startswith(how)
