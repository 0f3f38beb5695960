"""What is found on this host: `python -m rigproof.telemetry.inventory` prints it as JSON.

Detection runs in a child process with a deadline, so that a driver that hangs or crashes takes neither
time nor the process of whoever asks. Nothing heavy is imported: no torch, no ray, no CUDA.
"""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

from rigproof.host.package import ROOT
from rigproof.host.visible import visible_gpus
from rigproof.records.identity import GpuIdentity
from rigproof.records.inventory import HostInventory
from rigproof.telemetry.host import HostReader

MODULE = "rigproof.telemetry.inventory"
# The package's folder goes to the end of the path: it is there too where it was found by other means
# than the environment, and -P keeps the current folder's modules out of the way of the library's.
BOOT = f"import sys, runpy; sys.path.append(sys.argv[1]); runpy.run_module({MODULE!r}, run_name='__main__')"
WAY_OUT = "run `nvidia-smi`, look for Xid in `dmesg`, and reboot where it does not answer either"


def inventory() -> HostInventory:
    """What is found here, in this process. GPUs that CUDA_VISIBLE_DEVICES hides are left out."""
    # Here, so that the process that only calls `detect` does not load NVML's bindings.
    from rigproof.telemetry.nvml import NvmlUnavailable, open_nvml  # noqa: PLC0415

    host = _host_alone(nvml_error=None)
    try:
        with open_nvml() as nvml:
            gpus = nvml.gpus(host.hostname)
            problems = "; ".join(f"{event.subject}: {event.message}" for event in nvml.problems())
            return dataclasses.replace(
                host,
                driver_version=nvml.driver_version,
                nvml_error=problems or None,
                gpus=visible_gpus(gpus, os.environ.get("CUDA_VISIBLE_DEVICES")),
            )
    except NvmlUnavailable as error:
        return dataclasses.replace(host, nvml_error=None if error.driver_missing else str(error))


def detect(timeout_s: float) -> HostInventory:
    """What is found here, by a child process that gets `timeout_s`.

    Never raises for what NVML does: where the child hangs, crashes or prints nothing of use, the
    inventory is the host alone, and its `nvml_error` says why and what to do.
    """
    root = str(ROOT)
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", BOOT, root],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        printed, complaints = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _end(child)
        return _host_alone(f"NVML did not answer within {timeout_s:g} s: the driver hangs; {WAY_OUT}")
    try:
        return inventory_from_json(printed)
    except (ValueError, KeyError, TypeError):
        last = complaints.strip().splitlines()[-1:] or ["no output"]
        return _host_alone(f"GPU detection ended with {_ending(child.returncode)}: {last[0]}; {WAY_OUT}")


def inventory_to_json(found: HostInventory) -> str:
    """One line of JSON."""
    return json.dumps(dataclasses.asdict(found))


def inventory_from_json(text: str) -> HostInventory:
    """The inventory that `inventory_to_json` wrote.

    Raises:
        ValueError, KeyError, TypeError: where it is not that.
    """
    entries: dict[str, Any] = json.loads(text)
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


def _end(child: subprocess.Popen[str]) -> None:
    """Kill it, without waiting for one that the kernel does not let go."""
    child.kill()
    try:
        child.communicate(timeout=1)
    except subprocess.TimeoutExpired:
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def _ending(status: int) -> str:
    if status < 0:
        return f"signal {-status} ({signal.Signals(-status).name})"
    return f"status {status}"


if __name__ == "__main__":
    sys.stdout.write(inventory_to_json(inventory()) + "\n")
