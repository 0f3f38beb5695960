"""How much memory work needs, and what others may hold of a GPU beside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.cluster.driver.presence import skipped
from rigproof.profiles.loading.files import stems
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.planning.operands import (
    context_gib,
    fitting_size,
    gemm_mib,
    matrix_mib,
    operands_mib,
    room_of,
)
from rigproof.profiles.planning.plan import Plan, WorkerPlan
from rigproof.profiles.planning.planning import device_plan, make_plan
from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import ForeignMemory
from rigproof.stages.registry import KINDS


@pytest.mark.parametrize(("precision", "mib"), [("fp32", 256), ("tf32", 256), ("fp16", 128), ("bf16", 128)])
def test_the_memory_of_a_matrix_and_of_a_product(precision, mib):
    assert matrix_mib(8192, precision) == mib
    assert operands_mib(8192, precision) == 3 * mib
    assert gemm_mib(8192, precision) == 5 * mib


def test_a_product_of_fp8_is_stored_in_16_bits():
    assert matrix_mib(8192, "fp8") == 64
    assert operands_mib(8192, "fp8") == 2 * 64 + 128


@pytest.mark.parametrize(("capability", "gib"), [((9, 0), 0.67), ((8, 6), 0.4), (None, 0.4)])
def test_a_context_takes_what_was_measured_on_such_a_card(capability, gib):
    assert context_gib(capability) == gib


def test_a_product_is_planned_in_the_precision_that_takes_most():
    assert operands_mib(8192) == max(operands_mib(8192, name) for name in ("fp32", "tf32", "fp16", "bf16"))


@given(st.integers(8, 8192).map(lambda eighth: 8 * eighth), st.floats(0.1, 100_000))
def test_a_fitting_size_fits_unless_it_is_the_smallest(size, memory_mib):
    fitting = fitting_size(size, memory_mib)
    assert fitting % 8 == 0
    assert 64 <= fitting <= size
    assert fitting == 64 or gemm_mib(fitting) <= memory_mib
    assert fitting == size or gemm_mib(size) > memory_mib


def gpu(total_mib, capability=(8, 6)):
    return GpuIdentity("a/gpu0", "cuda", "GPU-a", "x", 0, total_mib, compute_capability=capability)


def workers(*vram_mib):
    return tuple(
        WorkerPlan(f"a/gpu0#{n}", "a/gpu0", "a", "cuda", 0.5, 1.0, mib, 8192)
        for n, mib in enumerate(vram_mib)
    )


def held(used_mib, reserved_mib=300.0):
    return ForeignMemory(1.0, "a/gpu0", used_mib, (4711,), reserved_mib)


@pytest.mark.parametrize(
    ("capability", "reserved_mib", "vram", "free_mib"),
    [
        ((8, 6), 300.0, (5000.0,), 8192 - 300 - 5000 - 473.6),
        ((8, 6), 300.0, (2500.0, 2500.0), 8192 - 300 - 5000 - 947.2),
        ((8, 6), None, (5000.0,), 8192 - 5000 - 473.6),
        (None, 0.0, (5000.0,), 8192 - 5000 - 473.6),
        ((9, 0), 0.0, (5000.0,), 8192 - 5000 - 750.08),  # measured on an H200
    ],
)
def test_what_others_may_hold(capability, reserved_mib, vram, free_mib):
    room = room_of(workers(*vram), gpu(8192.0, capability), held(0.0, reserved_mib))
    assert room.free_mib == pytest.approx(free_mib)
    assert room.holds(free_mib - 0.01)
    assert not room.holds(free_mib + 0.01)


def test_a_desktop_of_1_1_gib_beside_the_plan_of_a_card_of_8_gib_is_no_obstacle():
    assert room_of(workers(0.7 * 8192), gpu(8192.0), held(1126.0)).holds(1126.0)


def test_a_plan_that_no_card_holds_is_not_blamed_on_others():
    room = room_of(workers(8192.0), gpu(8192.0), held(1.0))
    assert room.free_mib < 0
    assert room.holds(15.0)
    assert not room.holds(500.0)


def test_a_card_without_workers_is_not_in_the_way():
    assert room_of((), gpu(8192.0), held(9000.0)).holds(9000.0)


@pytest.mark.parametrize("used_mib", [2000.0, 2418.0, 2419.0, 2500.0])
def test_a_card_is_left_alone_exactly_where_the_plan_does_not_fit(used_mib):
    plan = Plan("quick", workers(5000.0), (), 0.0)
    left = skipped({"a/gpu0": gpu(8192.0)}, {"a/gpu0": held(used_mib)}, plan, 0.0)
    assert bool(left) is not room_of(plan.workers, gpu(8192.0), held(used_mib)).holds(used_mib)


@pytest.mark.parametrize("name", [name for name in stems("rigs") if name != "single-gpu"])
def test_every_shipped_plan_has_room_on_a_card_that_nobody_uses(name):
    loaded = load_rig(name, KINDS)
    plan = make_plan(loaded, "quick")
    for device in loaded.devices():
        total_mib = device_plan(loaded, device).memory_gib * 1024
        room = room_of(plan.workers_of(device.subject), gpu(total_mib), held(15.0))
        assert room.free_mib > 500, device.subject
