"""The cap is the one that is meant; the power supply gives what it allows, and no more is drawn."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("power.draw")
def test_draw(finished, subject, judge):
    """Each GPU's draw stays within its enforced limit."""
    judge(subject)


@pytest.mark.criterion("power.limit")
def test_limit(rig, subject, judge):
    """Each GPU runs at the power limit that its rig is meant to have."""
    judge(subject)


@pytest.mark.criterion("power.transient")
def test_transient(transient, subject, judge):
    """Each host stands all its GPUs switching their load on and off together."""
    judge(subject)
