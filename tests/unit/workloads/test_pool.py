import pytest

from rigproof.workloads.pool import Pool, matrices_in


@pytest.mark.parametrize(
    ("vram_mib", "size", "precision", "expected"),
    [(98304, 8192, "bf16", 767), (5736, 4096, "fp16", 178), (16, 1024, "fp32", 3)],
)
def test_operands_and_their_result_fill_what_is_given(vram_mib, size, precision, expected):
    assert matrices_in(vram_mib, size, precision) == expected


def test_too_little_memory_is_refused_with_what_is_needed():
    with pytest.raises(ValueError, match=r"vram_mib = 11 .* size 1024 in fp32: give at least 12 MiB"):
        matrices_in(11, 1024, "fp32")


def grown(cpu, count):
    pool = Pool(cpu, 64, "fp32")
    for _ in range(count):
        pool.grow()
    return pool


def launched(cpu, pool, products):
    sums = cpu.checksums(products)
    pairs = pool.launch(products, sums)
    sums.fetch()
    return pairs, sums.take()


def test_going_through_the_pairs_reads_every_matrix(cpu):
    pool = grown(cpu, 5)
    assert launched(cpu, pool, 3)[0] == (0, 1, 2)
    assert launched(cpu, pool, 3)[0] == (3, 0, 1)
    pool.release()


def test_every_pair_has_its_own_correct_reference_that_later_passes_meet(cpu):
    pool = grown(cpu, 5)
    pairs, sums = launched(cpu, pool, 8)
    assert len(pool.references) == pool.pairs == 4
    assert len({reference.checksum for reference in pool.references}) == 4
    assert all(pool.references[pair].confirms(got) for pair, got in zip(pairs, sums, strict=True))
    pool.release()


def test_shrinking_keeps_the_references_of_rounds_under_way_and_growing_renews_them(cpu):
    pool = grown(cpu, 6)
    before = list(pool.references)
    pool.shrink_to(3)
    assert (len(pool), pool.pairs) == (3, 2)
    assert pool.references == before
    assert set(launched(cpu, pool, 9)[0]) == {0, 1}
    pool.grow()
    assert pool.references == before[:3]
    pool.release()


def test_memory_is_counted_and_all_of_it_freed(cpu):
    pool = grown(cpu, 3)
    assert cpu.memory().allocated_mib == pool.mib == 4 * 64 * 64 * 4 / 2**20
    pool.release()
    assert cpu.memory().allocated_mib == pool.mib == 0
