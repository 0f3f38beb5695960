"""The driver has nothing to report."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("health.xid")
def test_xid(finished, subject, judge):
    """No Xid came while the rig was under load."""
    judge(subject)


@pytest.mark.criterion("health.reset")
def test_reset(finished, subject, judge):
    """The host did not restart under load, in this run or unnoticed in one before."""
    judge(subject)


@pytest.mark.criterion("health.ecc_mode")
def test_ecc_mode(rig, subject, judge):
    """ECC is on where the card has it."""
    judge(subject)


@pytest.mark.criterion("health.defects")
def test_defects(finished, subject, judge):
    """The card reports no defect of its own."""
    judge(subject)


@pytest.mark.criterion("health.nvlink")
def test_nvlink(finished, subject, judge):
    """Every NVLink is active and had no errors."""
    judge(subject)


@pytest.mark.criterion("health.fabric")
def test_fabric(finished, subject, judge):
    """Where there are NVSwitches, their fabric is set up."""
    judge(subject)
