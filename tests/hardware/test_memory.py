"""VRAM is enough, and sound."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("memory.bandwidth")
def test_bandwidth(bandwidth, subject, judge, keep_rounds):
    """Verified writes, reads, copies and triads inside the VRAM are as fast as the card's model promises."""
    keep_rounds(subject)
    judge(subject)


@pytest.mark.criterion("memory.pattern")
def test_pattern(pattern, subject, judge):
    """Nearly all free VRAM, hot from the load, keeps every word of every pattern that is written to it."""
    judge(subject)


@pytest.mark.criterion("memory.hot")
def test_hot(pattern, subject, judge):
    """VRAM without a temperature sensor is read as fast, and as right, hot as cold."""
    judge(subject)


@pytest.mark.criterion("memory.no_oom")
def test_no_oom(sustained, subject, judge):
    """No allocation failed for want of memory, not even one that was recovered."""
    judge(subject)


@pytest.mark.criterion("memory.success_rate")
def test_success_rate(sustained, subject, judge):
    """The share of tasks that ended well."""
    judge(subject)


@pytest.mark.criterion("memory.headroom")
def test_headroom(sustained, subject, judge):
    """At the fullest moment some VRAM was still free."""
    judge(subject)


@pytest.mark.criterion("memory.ecc")
def test_ecc(finished, subject, judge):
    """No uncorrected memory error was counted."""
    judge(subject)


@pytest.mark.criterion("memory.row_remap")
def test_row_remap(finished, subject, judge):
    """No row waits for remapping, and none failed to be."""
    judge(subject)
