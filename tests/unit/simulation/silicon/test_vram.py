"""A simulated card's memory, and filling it."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.profiles.planning.plan import MemoryPlan, WorkerPlan
from rigproof.simulation.silicon.vram import CONTEXT_MIB, RESERVE_MIB, Fill, Vram, fill_together

TOTAL_MIB = 24576.0
POLICY = MemoryPlan(enabled=True, start_share=0.2, step_share=0.2, retry_share=0.9, last_resort_mib=100)


def worker(number: int, vram_mib: float, policy: MemoryPlan = POLICY) -> WorkerPlan:
    return WorkerPlan(
        worker=f"pc1/gpu0#{number}",
        subject="pc1/gpu0",
        node="pc1",
        device="cuda",
        gpu_share=0.5,
        cpus=1,
        vram_mib=vram_mib,
        gemm_size=1024,
        memory=policy,
    )


def filled(vram: Vram, *plans: WorkerPlan) -> list[Fill]:
    return list(fill_together(vram, plans, "bf16").values())


def test_what_is_free_is_what_nobody_has() -> None:
    vram = Vram(TOTAL_MIB, foreign_mib=1000)
    assert vram.free_mib(2, 5000) == TOTAL_MIB - RESERVE_MIB - 1000 - 2 * CONTEXT_MIB - 5000
    assert vram.free_mib(2, 90_000) == 0


def test_fragments_cannot_be_had() -> None:
    vram = Vram(TOTAL_MIB, fragments_mib=4000)
    assert vram.room_mib(1) == vram.free_mib(1, 0) - 4000


def test_an_allocation_fails_for_want_of_free_memory_and_never_beside_it() -> None:
    vram = Vram(TOTAL_MIB, fragments_mib=14_000)
    [fill] = filled(vram, worker(0, 18_000))
    assert fill.shortages
    for one in fill.shortages:
        assert one.free_mib < one.requested_mib < one.pieces_mib
        assert one.own_mib + one.free_mib <= TOTAL_MIB - RESERVE_MIB + 1e-6
        assert "13.67 GiB is reserved by PyTorch but unallocated" in one.message(TOTAL_MIB)


def test_a_plan_that_fits_gets_all_of_it() -> None:
    one, other = filled(Vram(TOTAL_MIB), worker(0, 10_000), worker(1, 10_000))
    assert (one.held_mib, other.held_mib) == (10_000, 10_000)
    assert not one.shortages
    assert not other.shortages


def test_a_plan_that_is_too_large_really_runs_out_and_takes_less() -> None:
    [fill] = filled(Vram(TOTAL_MIB), worker(0, 30_000))
    assert fill.shortages
    assert all(one.recovered for one in fill.shortages)
    assert not fill.failed
    assert 0.8 * TOTAL_MIB < fill.held_mib <= Vram(TOTAL_MIB).room_mib(1)


def test_without_a_policy_the_first_shortage_is_the_end() -> None:
    [fill] = filled(Vram(TOTAL_MIB), worker(0, 30_000, MemoryPlan(enabled=False)))
    assert fill.failed
    assert fill.held_mib == 0
    assert [one.recovered for one in fill.shortages] == [False]


def test_where_nothing_is_left_the_cpu_takes_over_if_it_may() -> None:
    full = Vram(TOTAL_MIB, foreign_mib=TOTAL_MIB)
    [fill] = filled(full, worker(0, 8000, replace(POLICY, cpu_fallback=True)))
    assert fill.on_cpu
    assert fill.held_mib == 0
    [fill] = filled(full, worker(0, 8000))
    assert fill.failed
    assert fill.shortages[-1].recovered is False


def test_a_cap_counts_like_the_end_of_the_memory() -> None:
    [fill] = filled(Vram(TOTAL_MIB), worker(0, 10_000, replace(POLICY, cap_mib=5000)))
    assert fill.shortages
    assert fill.held_mib <= 5000


def test_the_message_is_worded_as_torch_does() -> None:
    [fill] = filled(Vram(TOTAL_MIB), worker(0, 30_000))
    message = fill.shortages[0].message(TOTAL_MIB)
    assert message.startswith("CUDA out of memory. Tried to allocate 2.00 MiB.")
    assert "24.00 GiB" in message


@settings(deadline=None)
@given(
    st.floats(0, 40_000),
    st.floats(0, 30_000),
    st.lists(st.floats(64, 30_000), min_size=1, max_size=4),
    st.booleans(),
)
def test_nobody_ever_holds_what_is_not_there(
    total_mib: float, foreign_mib: float, wanted: list[float], fallback: bool
) -> None:
    policy = replace(POLICY, cpu_fallback=fallback)
    plans = [worker(number, vram_mib, policy) for number, vram_mib in enumerate(wanted)]
    vram = Vram(total_mib, foreign_mib)
    fills = filled(vram, *plans)
    assert sum(fill.held_mib for fill in fills) <= vram.room_mib(len(plans)) + 1e-6
    assert all(fill.done for fill in fills)
    assert all(fill.held_mib == 0 for fill in fills if fill.failed or fill.on_cpu)
    assert [fill.held_mib for fill in filled(vram, *plans)] == [fill.held_mib for fill in fills]
