"""What the all-reduce of several nodes is held against: what they exchange two by two in the same run."""

import re
from dataclasses import replace
from functools import cache

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import judge
from rigproof.judging.roots import with_roots
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.measurements import Round
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from support.equal_hosts import NONE
from support.lengths import lengths
from support.simulated_bench import SimulatedBench

ALL_REDUCE = "collective.all_reduce"


@cache
def simulated(level, *faults):
    """Two unlike PCs on a LAN, which do little else than exchange."""
    named = [
        {"name": name, "address": f"{name}.lan", "cpus": 16, "ram_gib": 64, "gpus": [{"sku": sku}]}
        for name, sku in (("pc1", "rtx-3090"), ("pc2", "rtx-3070"))
    ]
    own = {"sustained": 2, "lan": 2, "collective": 4}
    tables = lengths(level, settle_s=1, measure_s=1, **(NONE | own))
    loaded = over_defaults({"name": "pcs", **tables, "nodes": named}, "pcs.toml", KINDS)
    return simulated_recording(loaded, level, faults), loaded


def bench_of(level, *faults):
    return SimulatedBench(*simulated(level, *faults), "collective")


@pytest.mark.parametrize(
    ("level", "source"),
    [
        ("standard", r"0\.5 of 0\.11\d? GB/s, what pc1 and pc2 exchange by nccl; hwprofiles/defaults.toml"),
        ("quick", r"0\.3 of 0\.11\d? GB/s, what pc1 and pc2 exchange by tcp; hwprofiles/defaults.toml"),
    ],
)
def test_the_rig_is_held_against_the_slowest_way_of_its_ring(level, source):
    bench = bench_of(level)
    found = bench.verdict(ALL_REDUCE, "rig")
    assert found.outcome is Outcome.PASS
    assert re.fullmatch(source, found.limit_source)
    assert found.measured > found.limit


@pytest.mark.parametrize("level", ["quick", "standard"])
def test_an_exchange_that_is_slow_on_a_sound_lan_fails(level):
    bench = bench_of(level, "collective-slow@pc2/gpu0")
    found = bench.verdict(ALL_REDUCE, "rig")
    assert found.outcome is Outcome.FAIL
    assert found.measured < found.limit
    assert bench.verdict("lan.bandwidth", "pc1+pc2").outcome is Outcome.PASS


def test_a_slow_lan_is_said_once():
    """The limit follows what the LAN was measured to carry, which its own criterion says is too little."""
    recording, loaded = simulated("standard", "slow-link@pc2")
    bench = SimulatedBench(recording, loaded, "collective")
    assert bench.verdict("lan.bandwidth", "pc1+pc2").outcome is Outcome.FAIL
    bench.slower("rig", 0.4)  # over the same link
    assert bench.verdict(ALL_REDUCE, "rig").outcome is Outcome.PASS


def test_where_both_fail_the_rig_follows_from_the_lan():
    bench = bench_of("standard", "slow-link@pc2")
    bench.slower("rig", 0.1)
    evidence = Evidence(bench.recording, bench.loaded)
    found = [
        judge(CATALOGUE[name], of, evidence)
        for name, of in (("lan.bandwidth", "pc1+pc2"), (ALL_REDUCE, "rig"))
    ]
    assert {one.outcome for one in found} == {Outcome.FAIL}
    lan, rig = with_roots(found, evidence)
    assert lan == found[0]
    assert rig.remedy == "follows from lan.bandwidth of pc1+pc2, see there first"


def test_without_a_library_tcp_is_the_limit_and_without_both_there_is_none():
    bench = bench_of("standard")
    for traffic, then in (("nccl", Outcome.PASS), ("tcp", Outcome.NO_LIMIT)):
        left = [one for one in bench.recording.rounds if one.label("traffic") != traffic]
        bench.recording.put(Round, left)
        found = bench.verdict(ALL_REDUCE, "rig")
        assert found.outcome is then
    assert "by tcp" not in found.limit_source


def test_wrong_data_of_the_lan_are_no_limit():
    bench = bench_of("standard")
    bench.recording.put(
        Round,
        [replace(one, verified=one.stage != "lan") for one in bench.recording.rounds],
    )
    assert bench.verdict(ALL_REDUCE, "rig").outcome is Outcome.NO_LIMIT


def test_two_nodes_of_one_host_have_no_lan_between_them():
    bench = bench_of("standard")
    bench.recording.nodes = {
        name: replace(one, hostname="one", address="10.0.0.1") for name, one in bench.recording.nodes.items()
    }
    assert bench.verdict(ALL_REDUCE, "rig").outcome is Outcome.NO_LIMIT
