"""What error counters and clock-event reasons say."""

import pynvml
import pytest

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.counters import EXPLAINS_LOW_CLOCK, NAMES, THROTTLE, growth, names_of
from rigproof.records.measurements import GpuCounters

BITS = {
    "idle": "GpuIdle",
    "application clocks setting": "ApplicationsClocksSetting",
    "power cap": "SwPowerCap",
    "HW slowdown": "HwSlowdown",
    "sync boost": "SyncBoost",
    "SW thermal slowdown": "SwThermalSlowdown",
    "HW thermal slowdown": "HwThermalSlowdown",
    "HW power brake": "HwPowerBrakeSlowdown",
    "display clocks setting": "DisplayClockSetting",
}


def counted(moment, pcie_replays):
    return GpuCounters(1.0, "pc1/gpu0", moment, pcie_replays=pcie_replays)


def test_growth_is_the_difference_of_its_ends():
    assert growth(counted("before", 3), counted("after", 7), "pcie_replays", "replays") == 4
    assert growth(counted("before", 3), counted("after", 3), "pcie_replays", "replays") == 0


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, counted("after", 7), "replays were not counted before the load"),
        (counted("before", 3), None, "replays were not counted after the load"),
        (counted("before", None), counted("after", 7), "replays were not counted before the load"),
        (counted("before", 7), counted("after", 3), "the counter of replays went back from 7 to 3"),
    ],
)
def test_without_both_ends_or_after_a_reset_nothing_was_measured(before, after, expected):
    with pytest.raises(NotMeasured, match=expected):
        growth(before, after, "pcie_replays", "replays")


def test_each_name_is_that_of_nvml_s_bit():
    assert {name: bit for bit, name in NAMES.items()} == {
        name: getattr(pynvml, f"nvmlClocksEventReason{constant}") for name, constant in BITS.items()
    }


def test_several_reasons_are_named_with_their_bits():
    assert names_of(0x24) == "power cap (0x4), SW thermal slowdown (0x20)"


def test_heat_hardware_and_supply_throttle_and_everything_but_idle_explains_a_low_clock():
    assert names_of(THROTTLE) == (
        "HW slowdown (0x8), SW thermal slowdown (0x20), HW thermal slowdown (0x40), HW power brake (0x80)"
    )
    assert sum(NAMES) - 0x1 == EXPLAINS_LOW_CLOCK
