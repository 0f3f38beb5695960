"""The products that are measured: those of a transformer's layer, around the size that a card trains."""

from dataclasses import dataclass

MLP = 4
ALIGNMENTS = (256, 128, 64, 32, 16, 8, 1)  # a hidden size is a multiple of one of them, and of no larger one
LAYER = ("qkv", "out", "up", "down")  # the products with weights of a layer, as in its forward pass
# GPT-2's words, and the same padded to a multiple of 128, as is usual.
VOCABULARIES = (50257, 50304)
HEADS = (64, 80, 96, 128)  # widths of an attention head: 80 and 96 occur, 64 and 128 are usual
FEWER_TOKENS = (16, 8, 4, 2)  # divisors of the tokens of a step
ITEM_BYTES = 4  # of the widest precision that is measured
UP = "up"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A product, out (m, n) = a (m, k) · b (n, k)ᵀ; or attention with `head` wide heads, if that is not 0.

    `product`: its name. `size`: the hidden size. `tokens`: m, except for attention.
    """

    product: str
    size: int
    tokens: int
    n: int
    k: int
    head: int = 0

    def tflop(self, sequence: int) -> float:
        """Its work: 2 m n k; of attention both products without the masked half, which fused kernels skip.

        With it, a card would seem to do more than it can.
        """
        if self.head:
            batch, heads, length = self.attended(sequence)
            return 2 * batch * heads * length * (length + 1) * self.head / 1e12
        return 2 * self.tokens * self.n * self.k / 1e12

    def attended(self, sequence: int) -> tuple[int, int, int]:
        """Examples, heads, and tokens of an example, of attention."""
        length = min(sequence, self.tokens)
        return self.tokens // length, self.size // self.head, length


def alignment(size: int) -> int:
    """The largest of ALIGNMENTS that divides it."""
    return next(one for one in ALIGNMENTS if size % one == 0)


def sizes_near(width: int) -> tuple[int, ...]:
    """The hidden sizes that are measured: of each alignment the nearest one, of the best one those around.

    Widths are rounded down if two are as near.
    """
    best = ALIGNMENTS[0]
    found = {max(best, width // best * best), -(-width // best) * best}
    for one in ALIGNMENTS[1:]:
        odd = width // one if width // one % 2 else width // one - 1  # an even multiple has a better one
        near = [number * one for number in (odd, odd + 2) if number > 0]
        found.add(min(near, key=lambda size: (abs(size - width), size)))
    return tuple(sorted(found))


def candidates(width: int, tokens: int) -> tuple[Candidate, ...]:
    """Everything that is measured, for the model of that width and a step of so many tokens."""
    found = [one for size in sizes_near(width) for one in layer(size, tokens)]
    size = best_size(width)
    found += [Candidate(vocabulary(words), size, tokens, words, size) for words in VOCABULARIES]
    found += [Candidate(attention(head), size, tokens, 0, 0, head) for head in HEADS if head <= size]
    fewer = sorted({max(1, tokens // divisor) for divisor in FEWER_TOKENS} - {tokens})
    return (*found, *(Candidate(UP, size, one, MLP * size, size) for one in fewer))


def layer(size: int, tokens: int) -> tuple[Candidate, ...]:
    """The products with weights of one layer."""
    widths = {
        "qkv": (3 * size, size),
        "out": (size, size),
        UP: (MLP * size, size),
        "down": (size, MLP * size),
    }
    return tuple(Candidate(name, size, tokens, *widths[name]) for name in LAYER)


def best_size(width: int) -> int:
    """The best aligned size that is nearest."""
    best = ALIGNMENTS[0]
    return max(best, (width + best // 2) // best * best)


def vocabulary(words: int) -> str:
    """The name of the product with the output head over so many words."""
    return f"vocabulary {words}"


def attention(head: int) -> str:
    """The name of attention with heads of that width."""
    return f"attention {head}"


def elements(those: tuple[Candidate, ...]) -> tuple[int, int, int]:
    """How many elements the first operand, the second, and the result take at most."""
    inputs = max(max(one.tokens * one.k, 3 * one.tokens * one.size if one.head else 0) for one in those)
    return inputs, max(one.n * one.k for one in those), max(one.tokens * one.n for one in those)


def fitting_tokens(width: int, tokens: int, memory_mib: float) -> int:
    """`tokens`, halved until the operands of all candidates fit into `memory_mib`; at least 1."""
    while tokens > 1 and sum(elements(candidates(width, tokens))) * ITEM_BYTES > memory_mib * 2**20:
        tokens //= 2
    return tokens
