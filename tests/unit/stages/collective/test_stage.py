"""What each rank is told: the same for all, by level, and as large as the smallest device has room for."""

import pytest

from rigproof.profiles.loading.load import load_rig, over_defaults
from rigproof.profiles.planning.planning import make_plan
from rigproof.stages.collective.stage import ALL_REDUCE, BROADCAST, KIND, OPERATIONS, STAGE, Case
from rigproof.stages.kind import StageWork
from rigproof.stages.registry import KINDS


def specs(loaded, level):
    plan = make_plan(loaded, level)
    return KIND.specs(StageWork(loaded, plan, plan.stage(STAGE), {}))


def rig(*gpus, **node):
    node = {"name": "n1", "cpus": 16, "ram_gib": 64, "gpus": list(gpus), **node}
    return over_defaults({"name": "made", "nodes": [node]}, "made.toml", KINDS)


@pytest.mark.parametrize(
    ("level", "cases"),
    [
        ("quick", 3),  # 4 B, 1 and 16 MiB, odd
        ("standard", 1 + 5 * 2 + 4 * 2),
        ("extended", 5 * (1 + 5 * 2)),
    ],
)
def test_longer_levels_do_more_operations_at_more_sizes(level, cases):
    found = specs(load_rig("h200-x2", KINDS), level)
    assert [*found] == ["localhost/gpu0#0", "localhost/gpu1#0"]
    one, other = found.values()
    assert one == other
    assert (one.backend, one.buffers_mib) == ("nccl", 4 * 1024)
    assert len(list(one.cases())) == len(set(one.cases())) == cases


def test_an_operation_begins_with_small_sizes_so_that_large_ones_are_foreseen():
    (spec, *_) = specs(load_rig("h200-x2", KINDS), "extended").values()
    for operation in OPERATIONS:
        sizes = [case.mib for case in spec.cases() if case.operation == operation]
        assert sizes == sorted(sizes)
        assert set(sizes) == {0, 1, 16, 32, 128, 1024}


def test_the_smallest_device_bounds_the_size_for_all():
    spec = specs(load_rig("dual-3090-3070", KINDS), "extended")
    assert len(set(spec.values())) == 1
    (first, *_) = spec.values()
    assert first.sizes_mib[-1] == first.buffers_mib // 4 < 128
    assert 2 * first.buffers_mib <= 0.16 * 8 * 1024  # of the RTX 3070


def test_cpus_exchange_by_gloo_and_little():
    cpu = {"sku": "unknown", "device": "cpu"}
    nodes = [
        {"name": f"n{one}", "address": f"10.0.0.{one}", "cpus": 4, "ram_gib": 16, "gpus": [cpu]}
        for one in (1, 2)
    ]
    loaded = over_defaults({"name": "cpus", "nodes": nodes}, "cpus.toml", KINDS)
    found = specs(loaded, "standard").values()
    assert {one.backend for one in found} == {"gloo"}
    assert {max(one.sizes_mib) for one in found} == {16}


def test_one_device_alone_has_nothing_to_exchange():
    plan = make_plan(rig({"sku": "h200-sxm"}), "extended")
    assert STAGE not in plan.stage_names


@pytest.mark.parametrize(
    ("operation", "mib", "ranks", "even", "odd"),
    [
        (ALL_REDUCE, 0, 8, 1, 1),
        (ALL_REDUCE, 16, 8, 4_194_304, 4_194_303),
        (BROADCAST, 1, 3, 262_144, 262_143),
        ("all_gather", 16, 8, 524_288, 524_287),
        ("reduce_scatter", 16, 3, 1_398_100, 1_398_099),
        ("all_to_all", 1, 1024, 256, 255),
    ],
)
def test_each_size_is_there_with_an_even_and_an_odd_number_of_elements(operation, mib, ranks, even, odd):
    assert Case(operation, mib, odd=False).elements(ranks) == even
    assert Case(operation, mib, odd=True).elements(ranks) == odd
