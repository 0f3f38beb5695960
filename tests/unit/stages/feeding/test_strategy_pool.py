from types import SimpleNamespace

import pytest

from rigproof.stages.feeding import strategy_pool
from rigproof.stages.feeding.strategy_pool import Game


@pytest.mark.parametrize(
    ("cpu_s", "wall_s", "late"), [(0.49, 4.9, False), (0.5, 0.6, True), (0.0, 4.9, False), (0.0, 5.1, True)]
)
def test_a_strategy_is_late_by_its_own_cpu_time_and_by_ten_times_as_much_waiting(
    monkeypatch, cpu_s, wall_s, late
):
    monkeypatch.setattr(strategy_pool, "cpu_seconds", {7: cpu_s}.__getitem__)
    monkeypatch.setattr(strategy_pool.time, "monotonic", lambda: 100 + wall_s)
    assert Game(0, SimpleNamespace(pid=7), None, begun_s=100.0).late(strategy_s=0.5) == late
