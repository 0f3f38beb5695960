"""What several of these modules judge."""

import pytest

from rigproof.profiles.loading.load import load_rig
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.collective.stage import STAGE
from rigproof.stages.registry import KINDS
from support.collective_bench import CollectiveBench


@pytest.fixture(scope="module")
def simulated():
    """Two healthy H200 at level standard, and their rig."""
    loaded = load_rig("h200-x2", KINDS)
    return simulated_recording(loaded, "standard"), loaded


@pytest.fixture
def bench(simulated):
    """That run, to be changed and judged."""
    return CollectiveBench(*simulated, STAGE)
