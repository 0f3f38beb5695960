import pynvml

from rigproof.criteria.evidence.reasons import EXPLAINS_LOW_CLOCK, NAMES, THROTTLE, names_of

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
