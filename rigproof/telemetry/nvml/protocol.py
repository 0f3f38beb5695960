"""Numbers of the NVML interface (nvml.h), by name. A test compares each with pynvml's own."""

from enum import IntEnum


class Code(IntEnum):
    """Return codes that are distinguished here (nvmlReturn_t)."""

    SUCCESS = 0
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    LIB_RM_VERSION_MISMATCH = 18
    NO_DATA = 21
    VGPU_ECC_NOT_SUPPORTED = 22
    ARGUMENT_VERSION_MISMATCH = 25
    DEPRECATED = 26
    GPU_NOT_FOUND = 28
    UNKNOWN = 999


# By itself: Python 3.11 takes long to look up a member, and each call asks for this one.
SUCCESS = int(Code.SUCCESS)

# "This GPU, driver or user does not have that": None, and no event. A driver too old to know a
# field answers with INVALID_ARGUMENT.
ABSENT = frozenset(
    {
        Code.INVALID_ARGUMENT,
        Code.NOT_SUPPORTED,
        Code.NO_PERMISSION,
        Code.NOT_FOUND,
        Code.FUNCTION_NOT_FOUND,
        Code.NO_DATA,
        Code.VGPU_ECC_NOT_SUPPORTED,
        Code.ARGUMENT_VERSION_MISMATCH,
        Code.DEPRECATED,
    }
)
# The GPU no longer answers. 28 is what newer drivers return for a GPU that has fallen off the bus.
LOST = frozenset({Code.GPU_IS_LOST, Code.GPU_NOT_FOUND})


class Field(IntEnum):
    """Field ids of nvmlDeviceGetFieldValues."""

    POWER_CAPPED = 74  # ns, as the four other reasons of a lower clock
    SYNC_BOOST = 76
    MEMORY_TEMPERATURE = 82  # °C
    TOTAL_ENERGY = 83  # mJ since the driver was loaded
    NVLINK_COUNT = 91
    PCIE_REPLAYS = 94
    NVLINK_REPLAYS = 161  # of the link in `scopeId`, as the next two; not on NVLink 5
    NVLINK_RECOVERIES = 162
    NVLINK_CRC_ERRORS = 163
    POWER_AVERAGE = 185  # mW
    POWER_INSTANT = 186  # mW
    POWER_LIMIT = 190  # mW, in force now
    SLOWDOWN_MARGIN = 194  # °C, signed
    NVLINK5_RECOVERIES = 215  # of the link in `scopeId`
    SW_THERMAL = 269
    HW_THERMAL = 270
    POWER_BRAKE = 271
    RECOVERY_ACTION = 230  # nvmlDeviceGpuRecoveryAction_t


class Threshold(IntEnum):
    """nvmlTemperatureThresholds_t."""

    SHUTDOWN = 0
    SLOWDOWN = 1
    MEMORY_MAX = 2
    GPU_MAX = 3


class Clock(IntEnum):
    """nvmlClockType_t."""

    SM = 1
    MEMORY = 2


class LinkEnd(IntEnum):
    """nvmlIntNvLinkDeviceType_t: what an NVLink leads to."""

    GPU = 0
    SWITCH = 2


class Ancestor(IntEnum):
    """nvmlGpuTopologyLevel_t: the nearest thing that the PCIe links of two GPUs have in common."""

    INTERNAL = 0
    SINGLE = 10
    MULTIPLE = 20
    HOSTBRIDGE = 30
    NODE = 40
    SYSTEM = 50


class P2p(IntEnum):
    """nvmlGpuP2PCapsIndex_t."""

    READ = 0


class P2pStatus(IntEnum):
    """nvmlGpuP2PStatus_t."""

    OK = 0
    CHIPSET = 1
    GPU = 2
    TOPOLOGY = 3
    DISABLED = 4
    NOT_SUPPORTED = 5


class LinkError(IntEnum):
    """nvmlNvLinkErrorCounter_t."""

    REPLAY = 0
    RECOVERY = 1
    CRC_FLIT = 2
    CRC_DATA = 3


class FabricState(IntEnum):
    """nvmlGpuFabricState_t."""

    NOT_SUPPORTED = 0
    NOT_STARTED = 1
    IN_PROGRESS = 2
    COMPLETED = 3


class Brand(IntEnum):
    """nvmlBrandType_t; values that NVML keeps only for old callers are left out."""

    QUADRO = 1
    TESLA = 2
    NVS = 3
    GRID = 4
    GEFORCE = 5
    TITAN = 6
    NVIDIA_VAPPS = 7
    NVIDIA_VPC = 8
    NVIDIA_VCS = 9
    NVIDIA_VWS = 10
    NVIDIA_CLOUD_GAMING = 11
    QUADRO_RTX = 12
    NVIDIA_RTX = 13
    NVIDIA = 14
    GEFORCE_RTX = 15
    TITAN_RTX = 16


class ComputeMode(IntEnum):
    """nvmlComputeMode_t."""

    DEFAULT = 0
    EXCLUSIVE_THREAD = 1
    PROHIBITED = 2
    EXCLUSIVE_PROCESS = 3


class Virtualization(IntEnum):
    """nvmlGpuVirtualizationMode_t, read in a guest or on bare metal."""

    NONE = 0
    PASSTHROUGH = 1
    VGPU = 2
    HOST_VGPU = 3
    HOST_VSGA = 4


TEMPERATURE_SENSOR_GPU = 0
ECC_CORRECTED, ECC_UNCORRECTED = 0, 1  # nvmlMemoryErrorType_t
ECC_VOLATILE = 0  # nvmlEccCounterType_t: since the driver was loaded
RETIRED_MULTIPLE_SINGLE_BIT, RETIRED_DOUBLE_BIT = 0, 1  # nvmlPageRetirementCause_t
EVENT_XID_CRITICAL_ERROR = 0x8
MEMORY_INFO_V2 = 0x02000028

# Member of nvmlValue_t that each nvmlValueType_t is kept in.
VALUE_MEMBERS = {
    0: "dVal",
    1: "uiVal",
    2: "ulVal",
    3: "ullVal",
    4: "sllVal",
    5: "siVal",
    6: "usVal",
}
# All bits set is NVML's "not available", whatever the width.
NOT_AVAILABLE = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})
