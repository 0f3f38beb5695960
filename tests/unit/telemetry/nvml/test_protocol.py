"""What rigproof calls a number of NVML is what pynvml calls it."""

import pynvml

from rigproof.telemetry.nvml import protocol as nvml_protocol
from rigproof.telemetry.nvml.protocol import Code, Field


def test_protocol_numbers_are_those_of_pynvml() -> None:
    for code in Code:
        name = "NVML_SUCCESS" if code is Code.SUCCESS else f"NVML_ERROR_{code.name}"
        assert getattr(pynvml, name) == code
    assert {
        pynvml.NVML_FI_DEV_MEMORY_TEMP,
        pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION,
        pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER,
        pynvml.NVML_FI_DEV_POWER_AVERAGE,
        pynvml.NVML_FI_DEV_POWER_INSTANT,
        pynvml.NVML_FI_DEV_POWER_CURRENT_LIMIT,
        pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
        pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
        pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT,
        pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY,
        pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY,
        pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC,
        pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS,
    } == set(Field)
    assert nvml_protocol.Threshold.SHUTDOWN == pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN
    assert nvml_protocol.Threshold.SLOWDOWN == pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    assert nvml_protocol.Threshold.MEMORY_MAX == pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX
    assert nvml_protocol.Threshold.GPU_MAX == pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX
    for brand in nvml_protocol.Brand:
        assert getattr(pynvml, f"NVML_BRAND_{brand.name}") == brand
    for compute_mode in nvml_protocol.ComputeMode:
        assert getattr(pynvml, f"NVML_COMPUTEMODE_{compute_mode.name}") == compute_mode
    for error in nvml_protocol.LinkError:
        assert getattr(pynvml, f"NVML_NVLINK_ERROR_DL_{error.name}") == error
    for state in nvml_protocol.FabricState:
        assert getattr(pynvml, f"NVML_GPU_FABRIC_STATE_{state.name}") == state
    for mode in nvml_protocol.Virtualization:
        assert getattr(pynvml, f"NVML_GPU_VIRTUALIZATION_MODE_{mode.name}") == mode
    assert nvml_protocol.Clock.SM == pynvml.NVML_CLOCK_SM
    assert nvml_protocol.Clock.MEMORY == pynvml.NVML_CLOCK_MEM
    assert nvml_protocol.ECC_CORRECTED == pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
    assert nvml_protocol.ECC_UNCORRECTED == pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    assert nvml_protocol.ECC_VOLATILE == pynvml.NVML_VOLATILE_ECC
    assert (
        nvml_protocol.RETIRED_MULTIPLE_SINGLE_BIT
        == pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS
    )
    assert nvml_protocol.RETIRED_DOUBLE_BIT == pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR
    assert pynvml.nvmlEventTypeXidCriticalError == nvml_protocol.EVENT_XID_CRITICAL_ERROR
    assert pynvml.nvmlMemory_v2 == nvml_protocol.MEMORY_INFO_V2
    assert nvml_protocol.TEMPERATURE_SENSOR_GPU == pynvml.NVML_TEMPERATURE_GPU
    members = {name for name, _ in pynvml.c_nvmlValue_t._fields_}
    assert set(nvml_protocol.VALUE_MEMBERS.values()) == members
    assert len(nvml_protocol.VALUE_MEMBERS) == pynvml.NVML_VALUE_TYPE_COUNT
