"""What NVML says of a simulated card, read by the real NVML code."""

import pytest

from rigproof.records.samples import GpuSample
from rigproof.simulation.rig import SimulatedNode
from rigproof.telemetry.nvml import open_nvml
from support.simulated import DUAL, STAGES, rig_named, simulated

IDLE_S, GEMM_S, LOADED_S = 0.5, 10.0, 60.0


def node(name: str, *faults: str, rig: str = DUAL) -> SimulatedNode:
    found = simulated(rig_named(rig), *faults).node(name)
    found.stages = STAGES
    return found


def sample(one: SimulatedNode, t_s: float) -> GpuSample:
    """The node's first card at that moment."""
    subject, card = next(iter(one.cards.items()))
    with one.library.active(), open_nvml() as nvml:
        one.show(t_s)
        return nvml.sample(card.uuid, subject, t_s, 0.0)


def test_a_healthy_geforce_card_under_load() -> None:
    found = sample(node("pc1"), LOADED_S)
    assert found.power_w == pytest.approx(340, abs=10)
    assert found.utilization_percent == 99
    assert found.core_temperature_c is not None
    assert 55 < found.core_temperature_c < 70
    assert found.clock_event_reasons == 0x4


def test_what_its_driver_does_not_tell_is_none() -> None:
    found = sample(node("pc1"), LOADED_S)
    assert found.memory_temperature_c is None


def test_memory_in_use_is_what_the_workers_hold() -> None:
    one = node("pc1")
    idle, little, full = (sample(one, t_s).memory_used_mib or 0 for t_s in (IDLE_S, GEMM_S, LOADED_S))
    assert idle < 10
    assert 2000 < little < 4000
    assert full == pytest.approx(0.72 * 24576 + 500, abs=100)


def test_the_link_goes_down_where_there_is_no_traffic() -> None:
    one = node("pc1")
    assert [sample(one, t_s).pcie_generation for t_s in (IDLE_S, LOADED_S)] == [1, 4]
    assert sample(one, LOADED_S).pcie_width == 16


def test_the_counter_of_energy_only_grows() -> None:
    one = node("pc1")
    energies = [sample(one, t_s).energy_j or 0 for t_s in (1.0, 10.0, 30.0, 60.0)]
    assert energies == sorted(energies)
    assert energies[-1] > energies[0]


def test_a_missing_sensor_is_none_and_a_frozen_one_stays() -> None:
    missing = node("pc1", "sensor-missing@pc1/gpu0:field=core_temperature")
    assert sample(missing, LOADED_S).core_temperature_c is None
    frozen = node("pc1", "sensor-frozen@pc1/gpu0:field=power")
    assert sample(frozen, GEMM_S).power_w == sample(frozen, LOADED_S).power_w


def test_foreign_memory_is_seen_with_its_process() -> None:
    one = node("pc1", "foreign-memory@pc1/gpu0:to=3000")
    card = one.cards["pc1/gpu0"]
    with one.library.active(), open_nvml() as nvml:
        foreign = nvml.foreign_memory(card.uuid, "pc1/gpu0", frozenset(), 0.0)
    assert foreign.used_mib == pytest.approx(3001)
    assert foreign.pids == (4711,)
