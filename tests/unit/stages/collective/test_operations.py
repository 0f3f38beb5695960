"""Numbers whose sums are exact, and answers of which every element is compared."""

from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rigproof.stages.collective.operations import CHUNKS, KINDS, Part, b_of, numbers
from rigproof.stages.collective.stage import ALL_REDUCE, BROADCAST, OPERATIONS

CPU = torch.device("cpu")
RANKS = 3


def exchanged(operation, elements, number, ranks=RANKS):
    """The answers that a right operation gives, made of all ranks' operands without communication."""
    every = [KINDS[operation](elements, rank, ranks, CPU, 1) for rank in range(ranks)]
    for one in every:
        one.prepare(0, number)
    operands = [one.operands[0].clone() for one in every]
    part = slice(0, elements)
    for rank, one in enumerate(every):
        mine = slice(rank * elements, (rank + 1) * elements)
        one.answers[0].copy_(
            {
                ALL_REDUCE: lambda: sum(operands),
                "all_gather": lambda: torch.cat(operands),
                "reduce_scatter": lambda: sum(operands)[mine],  # noqa: B023 - called at once
                BROADCAST: lambda: next(row for row in operands if not row.isnan().any())[part],
                "all_to_all": lambda: torch.cat([row[mine] for row in operands]),  # noqa: B023
            }[operation]()
        )
    return every


@given(
    first=st.integers(0, 2**30),
    ranks=st.integers(1, 1024),
    number=st.integers(0, 2**40),
    rank=st.integers(0, 1023),
)
def test_numbers_are_whole_and_small_and_their_sum_is_known(first, ranks, number, rank):
    parts = [Part(0, 5, first, one) for one in range(ranks)]
    own = numbers(Part(0, 5, first, rank % ranks), number, ranks, CPU)
    assert own.dtype == torch.float32
    assert bool((own == own.round()).all())
    assert own.abs().max() <= 1016
    total = numbers(Part(0, 5, first, None), number, ranks, CPU)
    assert total.abs().max() < 2**24
    if ranks <= 8:
        assert torch.equal(total, sum(numbers(part, number, ranks, CPU) for part in parts))


def test_each_rank_has_a_number_of_its_own_at_every_place():
    for number in (0, 7, 4711):
        assert len({b_of(rank, number) for rank in range(127)}) == 127
        rows = torch.stack([numbers(Part(0, 1000, 0, rank), number, 8, CPU) for rank in range(8)])
        assert all(len(set(column.tolist())) == 8 for column in rows.t())


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_right_answer_is_right_on_every_rank(operation):
    for one in exchanged(operation, 1001, 64 * 5):
        assert one.wrong(64 * 5) == []


@pytest.mark.parametrize("operation", OPERATIONS)
@given(data=st.data())
def test_any_wrong_element_is_found_and_located(operation, data):
    one = exchanged(operation, 33, 640)[1]
    size = len(one.answers[0])
    places = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=3))
    right = one.answers[0].clone()
    for place in places:
        one.answers[0][place] += data.draw(st.sampled_from([1.0, -3.0, float("nan"), float("inf")]))
    with mock.patch.dict(CHUNKS, cpu=data.draw(st.sampled_from([7, 33, 2**18]))):
        (found,) = one.wrong(640)
    assert (found.count, found.first, found.last) == (len(places), min(places), max(places))
    assert found.expected == float(right[min(places)])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_did_nothing_is_wrong_all_over(operation):
    ranks = [KINDS[operation](64, rank, RANKS, CPU, 2) for rank in range(RANKS)]
    for one in ranks:
        one.prepare(0, 640)
        one.prepare(1, 641)
    silent = [one.wrong(640) for one in ranks]
    root = 640 // 64 // 2 % RANKS
    for rank, found in enumerate(silent):
        if operation == BROADCAST and rank == root:
            assert found == []  # it has what it sends
        else:
            assert [one.count for one in found] >= [60, 60]


def test_the_answer_of_another_operation_or_rank_is_wrong():
    one, other, _ = exchanged(ALL_REDUCE, 100, 640)
    assert one.wrong(641)[0].count > 90
    other.answers[0].copy_(other.answers[0] - numbers(Part(0, 100, 0, 2), 640, RANKS, CPU))  # without rank 2
    assert other.wrong(640)[0].count > 90


def test_chunks_make_no_difference():
    rows = [numbers(one, 5, 2, CPU) for one in Part(0, 1003, 17, 1).chunks(1000)]
    assert [len(one) for one in rows] == [1000, 3]
    assert torch.equal(rows[1], numbers(Part(0, 3, 1017, 1), 5, 2, CPU))


@pytest.mark.parametrize(
    ("operation", "size", "factor"),
    [
        (ALL_REDUCE, 40, 2 * 3 / 4),
        ("all_gather", 160, 3 / 4),
        ("reduce_scatter", 160, 3 / 4),
        (BROADCAST, 40, 1.0),
        ("all_to_all", 160, 3 / 4),
    ],
)
def test_bytes_are_counted_as_nccl_tests_does(operation, size, factor):
    one = KINDS[operation](10, 0, 4, CPU, 1)
    assert (one.size_bytes, one.bus_factor) == (size, factor)
