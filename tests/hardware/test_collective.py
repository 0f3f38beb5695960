"""The devices of the rig exchange what they compute, correctly and fast enough."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("collective.all_reduce")
def test_all_reduce(collective, subject, judge):
    """Every device gets the exact sum of what all of them have, at every size."""
    judge(subject)


@pytest.mark.criterion("collective.all_gather")
def test_all_gather(collective, subject, judge):
    """Every device gets what each of the others has."""
    judge(subject)


@pytest.mark.criterion("collective.reduce_scatter")
def test_reduce_scatter(collective, subject, judge):
    """Every device gets its part of the exact sum."""
    judge(subject)


@pytest.mark.criterion("collective.broadcast")
def test_broadcast(collective, subject, judge):
    """Every device gets what one of them has, each in turn."""
    judge(subject)


@pytest.mark.criterion("collective.all_to_all")
def test_all_to_all(collective, subject, judge):
    """Every device gets its part of what each of the others has."""
    judge(subject)


@pytest.mark.criterion("collective.path")
def test_path(collective, subject, judge):
    """GPUs reach each other directly, and through the host as well, and every way gives right answers."""
    judge(subject)


@pytest.mark.criterion("collective.training")
def test_training(ddp, subject, judge):
    """All devices train one model together: with the same gradients, and faster than one."""
    judge(subject)
