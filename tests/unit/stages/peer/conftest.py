"""Runs of two H200, of four H100 without a switch and of two RTX 3090, to be changed and judged."""

import pytest

from support.peer_bench import PeerBench, bench_of
from support.simulated_bench import two_h200


@pytest.fixture(scope="module")
def simulated():
    return two_h200("quick")


@pytest.fixture
def bench(simulated):
    return PeerBench(*simulated, "peer")


@pytest.fixture(scope="module")
def four_made():
    made = bench_of(*4 * ["h100-sxm"])
    return made.recording, made.loaded


@pytest.fixture
def four(four_made):
    return PeerBench(*four_made, "peer")


@pytest.fixture(scope="module")
def geforce_made():
    made = bench_of("rtx-3090", "rtx-3090")
    return made.recording, made.loaded


@pytest.fixture
def geforce(geforce_made):
    bench = PeerBench(*geforce_made, "peer")
    bench.pair = "n1/gpu0-n1/gpu1"
    return bench
