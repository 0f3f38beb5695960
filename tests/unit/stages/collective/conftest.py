"""What several of these modules judge."""

import pytest

from rigproof.stages.collective.stage import STAGE
from support.collective_bench import CollectiveBench
from support.simulated_bench import two_h200


@pytest.fixture(scope="module")
def simulated():
    """Two healthy H200 at level standard, and their rig."""
    return two_h200("standard")


@pytest.fixture
def bench(simulated):
    """That run, to be changed and judged."""
    return CollectiveBench(*simulated, STAGE)
