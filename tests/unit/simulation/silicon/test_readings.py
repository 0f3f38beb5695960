"""What NVML says of a simulated card, read by the real NVML code."""

import pytest

from rigproof.records.samples import GpuSample
from rigproof.simulation.rig import SimulatedNode
from rigproof.telemetry.nvml.sampling import read_sample
from rigproof.telemetry.nvml.session import open_nvml
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
        return read_sample(nvml.gpu(card.uuid, subject, t_s), 0.0)


def test_a_healthy_geforce_card_under_load() -> None:
    found = sample(node("pc1"), LOADED_S)
    assert found.power_w == pytest.approx(340, abs=10)
    assert found.utilization_percent == 99
    assert found.core_temperature_c is not None
    assert 55 < found.core_temperature_c < 70
    assert found.clock_event_reasons == 0x4


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


def test_a_frozen_sensor_shows_what_it_read_when_it_froze_and_energy_goes_on() -> None:
    frozen = node("pc1", "sensor-frozen@pc1/gpu0:field=power,after=50%")  # from 52 s on
    last, *after = (sample(frozen, t_s) for t_s in (51.0, 53.0, 60.0, 90.0))
    assert last.power_w is not None
    assert last.power_w > 300
    assert {one.power_w for one in after} == {last.power_w}
    assert (after[2].energy_j or 0) < (
        after[1].energy_j or 0
    ) + 30 * 300  # it rests from 82 s on: less than it shows


def test_a_shifted_sensor_reads_too_little_or_late() -> None:
    true = sample(node("pc1"), LOADED_S).power_w or 0.0
    low = sample(node("pc1", "sensor-shifted@pc1/gpu0:by=15%"), LOADED_S)
    assert low.power_w == pytest.approx(0.85 * true, abs=0.01)
    late = node("pc1", "sensor-shifted@pc1/gpu0:by=5s,after=0")
    assert sample(late, LOADED_S).power_w == pytest.approx(sample(node("pc1"), LOADED_S - 5).power_w)


def test_a_card_in_a_gap_of_the_telemetry_is_silent_for_so_long() -> None:
    one = node("pc1", "telemetry-gap@pc1/gpu0:stage=sustained,after=50%,for=25%")
    assert [one.silent("pc1/gpu0", t_s) for t_s in (GEMM_S, 51.0, 53.0, 66.0, 68.0)] == [
        False,
        False,
        True,
        True,
        False,
    ]
