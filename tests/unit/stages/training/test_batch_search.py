import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.stages.training.batch_search import MOST_BATCH, BatchSearch

MEMORY = {"held": st.floats(1, 10_000), "example": st.floats(0.5, 2_000), "limit": st.floats(10, 140_000)}


def known(held_mib=0.0, limit_mib=1e9, **peaks):
    """What was measured: b3=1300 is a batch of 3 with that peak."""
    search = BatchSearch(held_mib, limit_mib)
    for batch, peak_mib in peaks.items():
        search.measured(int(batch[1:]), peak_mib)
    return search


def searched(search, peak_of, fails_from=None, most=MOST_BATCH):
    """Every batch that was tried, in order."""
    tried = []
    while (batch := search.next(most)) is not None:
        tried.append(batch)
        assert len(tried) < 200
        if fails_from is not None and batch >= fails_from:
            search.failed(batch)
        else:
            search.measured(batch, peak_of(batch))
    return tried


@pytest.mark.parametrize(
    ("search", "batch", "peak_mib"),
    [
        (known(b1=1100, b3=1300), 2, 1200),
        (known(b1=1100, b3=1300), 10, 2000),
        (known(held_mib=1000, b2=1400), 4, 1800),  # rather too much: 1200 of it may not grow, 1000 do not
        (known(held_mib=100, b1=520, b2=500), 4, 900),  # a peak that falls with the batch is not believed
        (known(held_mib=600, b1=500), 2, 1000),  # nor one of less than the model holds
        (known(held_mib=600), 2, 600),
    ],
)
def test_measured_batches_predict_the_others(search, batch, peak_mib):
    assert search.predicted_mib(batch) == peak_mib


def test_a_batch_may_take_all_that_is_allowed():
    peaks = {"b1": 1100, "b3": 1300}
    assert [known(limit_mib=mib, **peaks).too_large() for mib in (900, 1999, 2000)] == [1, 10, 11]


def test_the_highest_of_several_measurements_counts():
    search = known(b1=100)
    search.measured(1, 90)
    assert search.peaks == {1: 100}


def test_the_search_narrows_from_both_sides():
    search = BatchSearch(1000, 10_000)
    assert searched(search, lambda batch: 2000 + 50 * batch) == [1, 5, 83, 122, 141, 151, 156]
    assert (search.largest(), search.too_large()) == (156, 161)


@given(**MEMORY)
def test_what_is_tried_fits_and_what_is_found_is_near_the_limit(held, example, limit):
    search = BatchSearch(held, limit)
    tried = searched(search, lambda batch: held + example * batch)
    assert all(batch == 1 or held + example * batch <= limit * (1 + 1e-9) for batch in tried)
    true = min(MOST_BATCH, int((limit - held) / example)) if limit > held else 0
    if true < 1:
        assert search.largest() is None
    else:
        assert true - max(1, true / 16) <= search.largest() <= true


@given(**MEMORY, planned=st.integers(1, 64))
def test_up_to_a_planned_batch_it_finds_exactly_what_fits(held, example, limit, planned):
    search = BatchSearch(held, limit)
    tried = searched(search, lambda batch: held + example * batch, most=planned)
    assert max(tried, default=0) <= planned
    true = min(planned, int((limit - held) / example + 1e-9)) if limit > held else 0
    found = search.largest(planned) or 0
    assert found <= planned
    assert true - max(1, true / 16) <= found <= true + 1e-9 or abs(true - found) <= 1
    if held + example * planned <= limit:
        assert found == planned


@given(**MEMORY, noise=st.lists(st.floats(-0.3, 0.3), min_size=200, max_size=200))
def test_it_ends_however_uneven_the_memory_is(held, example, limit, noise):
    search = BatchSearch(held, limit)
    searched(search, lambda batch: (held + example * batch) * (1 + noise[batch % 200]))
    if search.largest() is not None:
        assert search.peaks[search.largest()] <= limit


@given(fails_from=st.integers(1, 400))
def test_a_failure_all_the_same_lets_it_go_on_below(fails_from):
    search = BatchSearch(1000, 20_000)
    tried = searched(search, lambda batch: 1000 + 50 * batch, fails_from=fails_from)
    true = min(380, fails_from - 1)
    if true == 0:
        assert search.largest() is None
    else:
        assert true - max(1, true / 16) <= search.largest() <= true
    assert len([batch for batch in tried if batch >= fails_from]) <= 9


def test_batches_that_were_measured_before_are_a_start():
    search = known(held_mib=1000, limit_mib=11_000, b16=3000)
    assert search.largest() == 16
    assert search.next() == 48  # in the middle of it and what it foretells: (11000 - 1000) / 125, and one


def test_one_small_batch_that_predicts_too_much_provokes_no_failure():
    """An H200's figures: examples cost more than the first 16 show, and 350 of them did not fit the card."""
    search = known(held_mib=9_770, limit_mib=135_311, b16=15_502)
    tried = searched(search, lambda batch: 3_100 + 433 * batch)
    assert max(3_100 + 433 * batch for batch in tried) <= 135_311
    assert 3_100 + 433 * search.largest() >= 0.93 * 135_311


def test_nothing_is_tried_where_the_first_does_not_fit():
    search = BatchSearch(0, 100)
    assert searched(search, lambda batch: 200 * batch) == [1]
    assert search.largest() is None
