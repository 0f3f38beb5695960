"""Workers of a driver whose clock is set by hand."""

import pytest

from support.driven_workers import PLANS, Staff


@pytest.fixture
def staff():
    """Started at 0 s."""
    return Staff()


@pytest.fixture
def lonely():
    """The first worker alone."""
    return Staff(PLANS[:1])
