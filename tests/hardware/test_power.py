"""The power supply gives what the cap allows, and no more is drawn."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("power.draw")
def test_draw(sustained, subject, judge):
    """Each GPU's draw stays within its enforced limit."""
    judge(subject)
