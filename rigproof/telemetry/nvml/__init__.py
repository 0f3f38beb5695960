"""NVML as rigproof reads it: identity, samples, counters, foreign memory, Xid events. Never writes a setting.

`library` is the only module that imports pynvml; what it cannot read is None, what it does not
understand is None and noted once as an event (`Nvml.problems`), and a GPU that is lost raises GpuLost.
"""

from rigproof.telemetry.nvml.errors import GpuLost, NvmlUnavailable
from rigproof.telemetry.nvml.processes import Listed
from rigproof.telemetry.nvml.session import Nvml, open_nvml
from rigproof.telemetry.nvml.xid import XidListener

__all__ = ["GpuLost", "Listed", "Nvml", "NvmlUnavailable", "XidListener", "open_nvml"]
