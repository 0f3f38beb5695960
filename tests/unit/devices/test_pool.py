import numpy as np
import pytest
import torch

from rigproof.devices.cpu import CpuMark
from rigproof.devices.device import Product
from rigproof.devices.golden import MATRICES, GoldenData, Numbers, exact_blocks, fill
from rigproof.devices.pool import Launched, Pool, matrices_in
from rigproof.devices.torch_device import DTYPES, integer_view
from rigproof.devices.verification import placed


@pytest.mark.parametrize(
    ("vram_mib", "size", "precision", "expected"),
    [(98304, 8192, "bf16", 767), (5736, 4096, "fp16", 178), (16, 1024, "fp32", 3), (12, 1024, "fp32", 2)],
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
    pairs = pool.launch(products, sums).pairs
    sums.fetch()
    return pairs, sums.take()


def test_going_through_the_pairs_reads_every_matrix(cpu):
    pool = grown(cpu, 5)
    assert launched(cpu, pool, 3)[0] == (0, 1, 2)
    assert launched(cpu, pool, 3)[0] == (3, 4, 0)
    pool.release()


def test_every_pair_has_its_own_correct_reference_that_later_passes_meet(cpu):
    pool = grown(cpu, 5)
    pairs, sums = launched(cpu, pool, 8)
    assert len(pool.references) == pool.pairs == 5
    assert len({reference.checksum for reference in pool.references}) == 5
    assert all(pool.references[pair].confirms(got) for pair, got in zip(pairs, sums, strict=True))
    pool.release()


def test_shrinking_keeps_the_references_of_rounds_under_way_and_growing_renews_them(cpu):
    pool = grown(cpu, 6)
    before = list(pool.references)
    pool.shrink_to(3)
    assert (len(pool), pool.pairs) == (3, 3)
    assert pool.references == before
    assert set(launched(cpu, pool, 9)[0]) == {0, 1, 2}
    pool.grow()
    assert pool.references == before[:4]
    pool.release()


def test_memory_is_counted_and_all_of_it_freed(cpu):
    pool = grown(cpu, 3)
    assert cpu.memory().allocated_mib == pool.mib == 4 * 64 * 64 * 4 / 2**20
    pool.release()
    assert cpu.memory().allocated_mib == pool.mib == 0


def test_one_matrix_makes_no_product_and_two_make_two(cpu):
    pool = Pool(cpu, 64, "fp32")
    assert pool.grow() == ()
    assert pool.pairs == 0
    assert len(pool.grow()) == pool.pairs == 2
    assert list(pool.checksums) == ["1·0", "0·1"]
    assert launched(cpu, pool, 4)[0] == (0, 1, 0, 1)
    pool.release()


def test_a_product_that_is_not_computed_is_found_in_a_pool_of_any_size(cpu, monkeypatch):
    """What the last product left behind is another pair's result."""
    for matrices in (2, 3, 5):
        pool = grown(cpu, matrices)
        with monkeypatch.context() as patch:
            launched(cpu, pool, 1)
            patch.setattr(cpu, "multiply", lambda a, b, out: None)
            pairs, sums = launched(cpu, pool, 2 * matrices)
        confirmed = [pool.references[pair].confirms(got) for pair, got in zip(pairs, sums, strict=True)]
        assert confirmed.count(True) == 2  # only where it is this pair's turn again
        assert not confirmed[0]
        pool.release()


def test_an_operand_that_memory_does_not_keep_makes_no_correct_reference(cpu, monkeypatch):
    """A bit that is lost while the pool is filled: all products agree with what is stored, which is wrong."""
    write = cpu.normal

    def normal(size, precision, seed):
        matrix = write(size, precision, seed)
        if seed == 2:
            matrix.view(torch.int32)[40, 9] ^= 1
        return matrix

    monkeypatch.setattr(cpu, "normal", normal)
    pool = grown(cpu, 5)
    assert [reference.correct for reference in pool.references] == [True, True, False, False, True]
    assert all(reference.error <= reference.tolerance for reference in pool.references)
    message, data = pool.references[2].wrong("fp32")
    assert "operand 2 reads back as" in message
    assert data["precision"] == "fp32"
    pool.release()


def test_two_products_with_one_checksum_make_no_second_correct_reference(cpu, monkeypatch):
    """As where the checksum of a product is never made, and the last one stands for it."""
    sums_of = cpu.checksums

    class Constant:
        def __init__(self, sums):
            self.sums, self.capacity = sums, sums.capacity

        def __getattr__(self, name):
            return getattr(self.sums, name)

        def take(self):
            return tuple(7 for _ in self.sums.take())

    monkeypatch.setattr(cpu, "checksums", lambda capacity: Constant(sums_of(capacity)))
    pool = grown(cpu, 3)
    assert [reference.correct for reference in pool.references] == [True, False, False]
    assert "as if it were not computed" in pool.references[1].wrong("fp32")[0]
    pool.release()


# Golden operands


@pytest.fixture
def golden(cpu):
    """A pool of golden operands, twice as many as there are different ones."""

    def made(precision="fp32", size=96, device=cpu):
        device.use(precision)
        pool = Pool(device, size, precision, GoldenData(device, size, precision))
        return pool, [one for _ in range(2 * MATRICES) for one in pool.grow()]

    return made


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("size", [96, 100, 256])
def test_golden_products_are_those_of_whole_numbers(golden, cpu, precision, size):
    """By numpy's integers, which know nothing of torch; 256 is in the package, the others are made."""
    pool, made = golden(precision, size)
    assert all(one.verified and one.reference.correct for one in made)
    parts = [Numbers(size, precision, seed).part(0, size * size, cpu.where) for seed in range(MATRICES)]
    whole = [part.numpy().astype(np.int64).reshape(size, size) for part in parts]
    for pair, one in enumerate(made):
        first, second = (pair - 1, pair) if pair else (1, 0)
        exact = torch.from_numpy(whole[first % MATRICES] @ whole[second % MATRICES].T)
        stored = exact.to(torch.float32).to(DTYPES[precision])
        assert one.checksum == int(integer_view(stored).sum(dtype=torch.int64))
    assert set(pool.checksums) == {"1·0", "0·1", "1·2", "2·3", "3·0"}


@pytest.mark.parametrize(
    ("precision", "scale", "numbers"),
    [
        ("fp8", 1, [-6, -3, 7, -4, 0, -6, -2, -4]),
        ("bf16", 1, [101, 6, -65, -26, 40, -99, -13, -30]),
        ("tf32", 1, [101, 6, -65, -26, 40, -99, -13, -30]),
        ("fp32", 1, [101, 6, -65, -26, 40, -99, -13, -30]),
        ("fp16", 16, [101, 6, -65, -26, 40, -99, -13, -30]),
    ],
)
def test_golden_numbers_are_the_same_in_every_version(precision, scale, numbers):
    """Checksums that were made by another version, on another card, are those of the same numbers."""
    found = Numbers(8192, precision, 3).part(10**6, 8, torch.device("cpu"))
    assert (found * scale).tolist() == numbers


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "fp8"])
def test_golden_numbers_are_whole_in_every_precision_and_no_sum_of_their_products_is_rounded(cpu, precision):
    matrix = cpu.empty(512, precision)
    for seed in range(MATRICES):
        fill(matrix, precision, seed)
        scale = 16 if precision == "fp16" else 1
        numbers = Numbers(512, precision, seed).part(0, 512 * 512, cpu.where).view(512, 512)
        assert torch.equal(matrix.float(), numbers)
        whole = matrix.double() * scale
        assert torch.equal(whole, whole.round())
        assert float((whole.abs() @ whole.abs().t()).max()) < 2**24


def test_the_operands_of_longer_sums_are_smaller():
    largest, smaller = (
        Numbers(size, "bf16", 0).part(0, 2**16, torch.device("cpu")).abs().max() for size in (8192, 8200)
    )
    assert smaller < largest / 1.9


@pytest.mark.parametrize(("size", "edges"), [(16, [(0, 8), (8, 16)]), (12, [(0, 12)])])
def test_an_exact_product_is_made_in_blocks_that_no_word_of_a_checksum_crosses(cpu, monkeypatch, size, edges):
    monkeypatch.setattr("rigproof.devices.golden.BLOCK", 8)
    made = Product(*(cpu.normal(size, "fp32", seed) for seed in (1, 2)), cpu.empty(size, "fp32"), "fp32")
    blocks = list(exact_blocks(cpu, made))
    found = [(one.rows.start, one.rows.stop, one.columns.start, one.columns.stop) for one in blocks]
    assert found == [(*rows, *columns) for rows in edges for columns in edges]


def test_an_operand_that_changes_in_memory_is_named(golden):
    pool, _ = golden()
    pool._operands[6].matrix[17, 40] += 1
    found = pool.examine(6)
    assert (found["again"], found["operand"], found["elements"]) == (3, 1, 1)
    assert (found["rows"], found["columns"]) == ([17, 17], [40, 40])
    assert placed(found).startswith(
        "its operand has changed in memory, 1 element (row 17, column 40, bits 0x"
    )
    assert pool.examine(1) == {"repeated": 3, "again": 0}


def test_a_golden_operand_that_reads_back_otherwise_is_a_flaw(cpu, monkeypatch):
    fills = []

    def damaged(matrix, precision, seed):
        fill(matrix, precision, seed)
        fills.append(seed)
        if len(fills) == 2:
            matrix[0, 0] += 1

    monkeypatch.setattr("rigproof.devices.golden.fill", damaged)
    pool = Pool(cpu, 96, "fp32", GoldenData(cpu, 96, "fp32"))
    pool.grow()
    first, second = pool.grow()
    assert not first.reference.correct
    assert not second.reference.correct
    assert "operand 0 reads back as" in first.reference.flaw


def test_an_exact_product_that_contradicts_its_sums_is_no_reference(cpu, monkeypatch):
    monkeypatch.setattr(cpu, "multiply_exactly", lambda left, right, precision: left @ right.t() + 1)
    pool = Pool(cpu, 96, "fp32", GoldenData(cpu, 96, "fp32"))
    pool.grow()
    assert {one.reference.flaw for one in pool.grow()} == {
        "the exact product's sums of rows or columns are not those of its operands"
    }


# Who sets the pace


class PacedMark(CpuMark):
    def __init__(self, reached):
        super().__init__()
        self._reached = reached

    def reached(self):
        return self._reached


@pytest.fixture
def paced(cpu, monkeypatch):
    """A device that is that far whenever it is asked; and the numbers of products before its marks."""

    def made(*, reached):
        count, multiply, before = [0], cpu.multiply, []

        def counted(a, b, out):
            count[0] += 1
            multiply(a, b, out)

        def mark():
            before.append(count[0])
            return PacedMark(reached)

        pool = grown(cpu, 2)
        monkeypatch.setattr(cpu, "multiply", counted)
        monkeypatch.setattr(cpu, "mark", mark)
        return pool, before

    return made


@pytest.mark.parametrize("reached", [True, False])
@pytest.mark.parametrize(("products", "before"), [(2, 1), (3, 2), (7, 4), (128, 64), (129, 65), (1000, 936)])
def test_a_device_that_is_near_the_end_of_a_round_once_it_is_launched_waits_for_its_host(
    cpu, paced, products, before, reached
):
    pool, marked = paced(reached=reached)
    assert pool.launch(products, cpu.checksums(products)).host_paced is reached
    assert marked == [before]
    pool.release()


def test_one_product_says_nothing_of_the_pace(cpu, paced):
    pool, marked = paced(reached=True)
    assert pool.launch(1, cpu.checksums(1)) == Launched((0,), host_paced=False)
    assert marked == []
    pool.release()


def test_a_cpu_that_works_as_it_launches_waits_for_no_host(cpu):
    pool = grown(cpu, 2)
    assert not pool.launch(8, cpu.checksums(8)).host_paced
    pool.release()
