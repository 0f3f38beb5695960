"""The word that each pattern has at each place: the one definition for torch, Triton and the tests.

A function takes the number of a word in the memory under test, from 0 on, and the seed of a pass, which is
not negative. Both are 64-bit integers whose products wrap around: tensors of torch, arrays of numpy, or
values in a Triton kernel, which compiles these very functions. So they consist of operators and numbers
alone, and have no types: Triton would look them up.
"""


def address(number, seed):
    """Each word holds its own address, in bytes; the lowest bits, which are free, tell passes apart."""
    return (number * 8) | (seed & 7)


def modulo_20(number, seed):
    """The seed at every twentieth word, its complement at all others; the seed also says which ones."""
    return seed ^ ((number % 20 != seed % 20) * -1)


def random(number, seed):
    """Random bits: the number and the seed, multiplied and folded twice, as splitmix64 does.

    Source of the factors: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
    """
    word = (number ^ seed) * -7046029254386353131
    word = word ^ ((word >> 32) & 4294967295)
    word = word * -4658895280553007687
    return word ^ ((word >> 32) & 4294967295)


def walking(number, seed):
    """A single bit that moves on by one from word to word, and from pass to pass."""
    return (number * 0 + 1) << ((number + seed) & 63)


def fade(number, seed):  # noqa: ARG001 - charged cells are all alike
    """All bits are set: cells that lose their charge show after a pause."""
    return number * 0 - 1
