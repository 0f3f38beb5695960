"""Nothing gets too hot."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("thermal.core_temperature")
def test_core_temperature(finished, subject, judge):
    """The core stays at or under its limit."""
    judge(subject)


@pytest.mark.criterion("thermal.memory_temperature")
def test_memory_temperature(finished, subject, judge):
    """The VRAM stays at or under its limit."""
    judge(subject)


@pytest.mark.criterion("thermal.margin")
def test_margin(finished, subject, judge):
    """No part of the die comes near the temperature at which the card slows down."""
    judge(subject)


@pytest.mark.criterion("thermal.throttle")
def test_throttle(finished, subject, judge):
    """No GPU slowed down for heat or for a power brake."""
    judge(subject)
