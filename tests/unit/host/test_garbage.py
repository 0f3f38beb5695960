"""Garbage collection rests only while it was asked to, and what it left alone is searched again later."""

import gc

import pytest

from rigproof.host.garbage import without_collections


@pytest.fixture(autouse=True)
def enabled_again():
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.parametrize("enabled", [True, False])
def test_it_is_afterwards_as_it_was_before(enabled):
    (gc.enable if enabled else gc.disable)()
    for lasting in (False, True):
        with without_collections(lasting=lasting):
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
        with pytest.raises(ZeroDivisionError), without_collections(lasting=lasting):
            _ = 1 / 0
        assert gc.isenabled() is enabled


def test_only_what_lasts_is_never_searched_again():
    gc.unfreeze()
    with without_collections():
        pass
    assert gc.get_freeze_count() == 0
    with without_collections(lasting=True):
        assert gc.get_freeze_count() == 0
    assert gc.get_freeze_count() > 0
