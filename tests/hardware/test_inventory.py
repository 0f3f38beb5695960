"""What is plugged in is what the profile promises."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("inventory.gpus_present")
def test_gpus_present(rig, subject, judge):
    """Every promised GPU is there, and is the model that was promised."""
    judge(subject)


@pytest.mark.criterion("inventory.driver")
def test_driver(rig, subject, judge):
    """NVML answers, with one driver version on all nodes."""
    judge(subject)


@pytest.mark.criterion("inventory.modes")
def test_modes(rig, subject, judge):
    """No mode of the driver keeps programs from the card or splits it up."""
    judge(subject)


@pytest.mark.criterion("inventory.foreign_memory")
def test_foreign_memory(rig, subject, judge):
    """Nobody else holds the VRAM that the plan needs."""
    judge(subject)
