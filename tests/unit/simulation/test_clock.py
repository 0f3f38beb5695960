"""Simulated time."""

from hypothesis import given
from hypothesis import strategies as st

from rigproof.simulation.faults.injected import SimulatedClock, StageWindow


@given(st.lists(st.floats(-10, 10)))
def test_time_never_runs_backwards(steps: list[float]) -> None:
    clock, before = SimulatedClock(), 0.0
    for step in steps:
        clock.advance(step)
        assert clock.now_s() >= before
        before = clock.now_s()


def test_a_stage_begins_as_often_as_it_is_run() -> None:
    clock = SimulatedClock()
    clock.stage_begins("gemm", 1.0, 20.0)
    clock.stage_begins("gemm", 1.0, 20.0)
    clock.stage_begins("sustained", 22.0, 60.0)
    clock.stage_begins("sustained", 90.0, 60.0)
    assert clock.stages == (
        StageWindow("gemm", 1.0, 20.0),
        StageWindow("sustained", 22.0, 60.0),
        StageWindow("sustained", 90.0, 60.0),
    )
