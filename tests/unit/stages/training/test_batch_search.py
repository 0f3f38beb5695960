import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.stages.training.batch_search import MOST_BATCH, BatchSearch, PeakLine

MEMORY = {"held": st.floats(1, 10_000), "example": st.floats(0.5, 2_000), "limit": st.floats(10, 140_000)}


def searched(search, peak_of, fails_from=None):
    """Every batch that was tried, in order."""
    tried = []
    while (batch := search.next()) is not None:
        tried.append(batch)
        assert len(tried) < 200
        if fails_from is not None and batch >= fails_from:
            search.failed(batch)
        else:
            search.measured(batch, peak_of(batch))
    return tried


def test_two_measured_batches_predict_the_others():
    line = PeakLine()
    line.add(1, 1100)
    line.add(3, 1300)
    assert [line.at(batch) for batch in (2, 4, 10)] == [1200, 1400, 2000]
    assert line.largest_within(1999) == 9
    assert line.largest_within(2000) == 10
    assert line.largest_within(900) == 0


def test_one_measured_batch_predicts_too_much_rather_than_too_little():
    line = PeakLine(held_mib=1000)
    line.add(2, 1400)  # 1200 of it do not grow, as far as is true; 1000 are known
    assert line.at(4) == 1800
    assert line.largest_within(1800) == 4


def test_a_peak_that_falls_with_the_batch_is_not_believed():
    line = PeakLine(held_mib=100)
    line.add(1, 520)
    line.add(2, 500)
    assert line.at(4) == 900
    below = PeakLine(held_mib=600)
    below.add(1, 500)
    assert below.at(2) == 1000


def test_the_highest_of_several_measurements_counts():
    line = PeakLine()
    line.add(1, 100)
    line.add(1, 90)
    assert line.peaks == {1: 100}


def test_nothing_is_predicted_without_a_measurement():
    with pytest.raises(ValueError, match="no batch was measured"):
        PeakLine().at(1)


def test_the_search_narrows_from_both_sides():
    search = BatchSearch(PeakLine(1000), 10_000)
    assert searched(search, lambda batch: 2000 + 50 * batch) == [1, 5, 83, 122, 141, 151, 156]
    assert search.largest == 156
    assert search.too_large == 161


@given(**MEMORY)
def test_what_is_tried_fits_and_what_is_found_is_near_the_limit(held, example, limit):
    search = BatchSearch(PeakLine(held), limit)
    tried = searched(search, lambda batch: held + example * batch)
    assert all(batch == 1 or held + example * batch <= limit * (1 + 1e-9) for batch in tried)
    true = min(MOST_BATCH, int((limit - held) / example)) if limit > held else 0
    if true < 1:
        assert search.largest is None
    else:
        assert true - max(1, true / 16) <= search.largest <= true


@given(**MEMORY, planned=st.integers(1, 64))
def test_up_to_a_planned_batch_it_finds_exactly_what_fits(held, example, limit, planned):
    search = BatchSearch(PeakLine(held), limit, most=planned)
    tried = searched(search, lambda batch: held + example * batch)
    assert max(tried, default=0) <= planned
    true = min(planned, int((limit - held) / example + 1e-9)) if limit > held else 0
    found = search.largest or 0
    assert found <= planned
    assert true - max(1, true / 16) <= found <= true + 1e-9 or abs(true - found) <= 1
    if held + example * planned <= limit:
        assert found == planned


@given(**MEMORY, noise=st.lists(st.floats(-0.3, 0.3), min_size=200, max_size=200))
def test_it_ends_however_uneven_the_memory_is(held, example, limit, noise):
    search = BatchSearch(PeakLine(held), limit)
    searched(search, lambda batch: (held + example * batch) * (1 + noise[batch % 200]))
    if search.largest is not None:
        assert search.line.peaks[search.largest] <= limit


@given(fails_from=st.integers(1, 400))
def test_a_failure_all_the_same_lets_it_go_on_below(fails_from):
    search = BatchSearch(PeakLine(1000), 20_000)
    tried = searched(search, lambda batch: 1000 + 50 * batch, fails_from=fails_from)
    true = min(380, fails_from - 1)
    if true == 0:
        assert search.largest is None
    else:
        assert true - max(1, true / 16) <= search.largest <= true
    assert len([batch for batch in tried if batch >= fails_from]) <= 9


def test_batches_that_were_measured_before_are_a_start():
    line = PeakLine(1000)
    line.add(16, 3000)
    search = BatchSearch(line, 11_000)
    assert search.largest == 16
    assert search.next() == 48  # in the middle of it and what it foretells: (11000 - 1000) / 125, and one


def test_one_small_batch_that_predicts_too_much_provokes_no_failure():
    """An H200's figures: examples cost more than the first 16 show, and 350 of them did not fit the card."""
    line = PeakLine(9_770)
    line.add(16, 15_502)
    search = BatchSearch(line, 135_311)
    tried = searched(search, lambda batch: 3_100 + 433 * batch)
    assert max(3_100 + 433 * batch for batch in tried) <= 135_311
    assert 3_100 + 433 * search.largest >= 0.93 * 135_311


def test_nothing_is_tried_where_the_first_does_not_fit():
    search = BatchSearch(PeakLine(), 100)
    assert searched(search, lambda batch: 200 * batch) == [1]
    assert search.largest is None
