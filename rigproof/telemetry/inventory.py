"""The hardware found on this host: `python -m rigproof.telemetry.inventory` prints it as JSON.

Detection runs in a child process with a deadline, so that a driver that hangs or crashes neither
delays nor ends the calling process. Nothing heavy is imported: no torch, no ray, no CUDA.
"""

import dataclasses
import json
import signal
import socket
import sys
from typing import Any

from rigproof.host.child import ask
from rigproof.host.parent import die_with_parent
from rigproof.host.visible import own_setting, visible_gpus
from rigproof.records.identity import GpuIdentity
from rigproof.records.inventory import HostInventory
from rigproof.telemetry.host import HostReader

MODULE = "rigproof.telemetry.inventory"
WAY_OUT = "run `nvidia-smi`, look for Xid in `dmesg`, and reboot if it does not answer either"


def inventory() -> HostInventory:
    """The hardware found here, read in this process. GPUs hidden by CUDA_VISIBLE_DEVICES are left out."""
    # Here, so that the process that only calls `detect` does not load NVML's bindings.
    from rigproof.telemetry.nvml.errors import NvmlUnavailable  # noqa: PLC0415
    from rigproof.telemetry.nvml.session import open_nvml  # noqa: PLC0415

    host = _host_alone(nvml_error=None)
    try:
        with open_nvml() as nvml:
            gpus = nvml.gpus(host.hostname)
            problems = "; ".join(f"{event.subject}: {event.message}" for event in nvml.problems())
            return dataclasses.replace(
                host,
                driver_version=nvml.driver_version,
                nvml_error=problems or None,
                gpus=visible_gpus(gpus, own_setting()),
            )
    except NvmlUnavailable as error:
        return dataclasses.replace(host, nvml_error=None if error.driver_missing else str(error))


def detect(timeout_s: float) -> HostInventory:
    """The hardware found here, read by a child process with a deadline of `timeout_s`.

    Never raises because of NVML: if the child hangs, crashes or prints nothing usable, the
    inventory has the host alone, and its `nvml_error` gives the reason and the remedy.
    """
    answer = ask(MODULE, limit_s=timeout_s)
    if answer.status is None:
        return _host_alone(f"NVML did not answer within {timeout_s:g} s: the driver hangs; {WAY_OUT}")
    try:
        return inventory_from(answer.message or {})
    except (KeyError, TypeError):
        output = answer.complaint or "no output"
        return _host_alone(f"GPU detection ended with {_ending(answer.status)}: {output}; {WAY_OUT}")


def inventory_to_json(found: HostInventory) -> str:
    """One line of JSON."""
    return json.dumps(dataclasses.asdict(found))


def inventory_from(entries: dict[str, Any]) -> HostInventory:
    """The inventory that `inventory_to_json` wrote, read as JSON.

    Raises:
        KeyError, TypeError: if it is no such inventory.
    """
    return HostInventory(**{**entries, "gpus": tuple(_gpu(gpu) for gpu in entries["gpus"])})


def _gpu(entries: dict[str, Any]) -> GpuIdentity:
    capability = entries["compute_capability"]
    return GpuIdentity(
        **{**entries, "compute_capability": None if capability is None else (capability[0], capability[1])}
    )


def _host_alone(nvml_error: str | None) -> HostInventory:
    reader = HostReader()
    return HostInventory(
        hostname=socket.gethostname(),
        cpus=reader.usable_cpus(),
        ram_gib=reader.ram_gib(),
        driver_version=None,
        nvml_error=nvml_error,
        gpus=(),
    )


def _ending(status: int) -> str:
    if status < 0:
        return f"signal {-status} ({signal.Signals(-status).name})"
    return f"status {status}"


if __name__ == "__main__":
    die_with_parent()
    sys.stdout.write(inventory_to_json(inventory()) + "\n")
