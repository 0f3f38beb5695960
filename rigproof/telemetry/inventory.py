"""The hardware found on this host: `python -m rigproof.telemetry.inventory` prints it as JSON, and stays.

Detection runs in a child process with a deadline, so that a driver that hangs or crashes neither
delays nor ends the calling process. Nothing heavy is imported: no torch, no ray, no CUDA.
"""

import dataclasses
import json
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from rigproof.host.child import STOP_S, Child, Message
from rigproof.host.nvidia import KernelDriver
from rigproof.host.parent import Orders, die_with_parent
from rigproof.host.pcie_errors import sysfs_address
from rigproof.host.visible import container_hides, hides_all, own_setting, shown, visible_gpus, wrong_setting
from rigproof.records.identity import GpuIdentity, HostInventory
from rigproof.telemetry.host import HostReader

MODULE = "rigproof.telemetry.inventory"
UNSEEN = "look for NVRM in `sudo dmesg`"
OR_THE_CPU = ", or set CUDA_VISIBLE_DEVICES=-1 to have the CPU tested"
WAY_OUT = "run `nvidia-smi`, look for Xid in `sudo dmesg`, and reboot if it does not answer either"


def inventory() -> HostInventory:
    """The hardware found here, read in this process. GPUs hidden by CUDA_VISIBLE_DEVICES are left out."""
    with _found_here() as found:
        return found


@contextmanager
def _found_here() -> Iterator[HostInventory]:
    """The hardware found here; within this, NVML stays open."""
    # Here, so that the process that only calls `detect` does not load NVML's bindings.
    from rigproof.telemetry.nvml.errors import NvmlUnavailable  # noqa: PLC0415
    from rigproof.telemetry.nvml.library import kernel_under_nvml  # noqa: PLC0415
    from rigproof.telemetry.nvml.session import open_nvml  # noqa: PLC0415

    host = _host_alone(nvml_error=None)
    with ExitStack() as opened:
        try:
            nvml = opened.enter_context(open_nvml())
            gpus = nvml.gpus(host.hostname)
        except NvmlUnavailable as error:
            problem = _not_found(kernel_under_nvml()) if error.driver_missing else str(error)
            setting = own_setting()
            names = problem is None and setting is not None and not hides_all(setting)
            found = dataclasses.replace(
                host,
                nvml_error=problem,
                named_by=shown(setting) if names and setting is not None else None,
                hidden_by=host.hidden_by
                or (container_hides(driver_there=False) if error.not_there else None),
            )
        else:
            setting = own_setting()
            visible = visible_gpus(gpus, setting, nvml.parent_of)
            hidden = tuple(gpu for gpu in gpus if gpu not in visible)
            problems = [f"{event.subject}: {event.message}" for event in nvml.problems()]
            found = dataclasses.replace(
                host,
                driver_version=nvml.driver_version,
                nvml_error="; ".join(problems) or _with_the_cpu(unlisted(kernel_under_nvml(), gpus), gpus),
                gpus=visible,
                hidden=hidden,
                hidden_by=host.hidden_by
                or (shown(setting) if hidden and setting is not None else None)
                or (None if gpus else container_hides(driver_there=True)),
                setting_error=wrong_setting(gpus, setting, nvml.parent_of),
            )
        yield found


def unlisted(kernel: KernelDriver, gpus: Sequence[GpuIdentity]) -> str | None:
    """The problem, if NVML has started and its list lacks GPUs that are here; else None.

    `gpus` are all that NVML lists. A driver without any card is wrong too: it was installed for one.
    """
    if not gpus:
        where = (
            f"there are cards at {', '.join(kernel.cards)}"
            if kernel.cards
            else "no card that it drives is on the PCI bus"
        )
        return (
            f"NVIDIA's driver is loaded, {where}, and NVML lists no GPU: the driver could initialise none; "
            f"{UNSEEN}"
        )
    listed = {sysfs_address(gpu.pci_bus_id) for gpu in gpus if gpu.pci_bus_id is not None}
    missing = [address for address in kernel.expected if address not in listed]
    if not missing or len(listed) < len(gpus):
        return None
    return (
        f"NVIDIA's driver has a card at {', '.join(missing)} that NVML does not list: it could not be "
        f"initialised; {UNSEEN}"
    )


def _with_the_cpu(problem: str | None, gpus: Sequence[GpuIdentity]) -> str | None:
    """The problem, with the way to have the CPU tested where there is no GPU to be tested."""
    return f"{problem}{OR_THE_CPU}" if problem is not None and not gpus else problem


def _not_found(kernel: KernelDriver) -> str | None:
    """The problem, if NVML's library is missing although a driver is loaded; else None."""
    if not kernel.loaded:
        return None
    where = f" (cards at {', '.join(kernel.cards)})" if kernel.cards else ""
    return (
        f"NVIDIA's driver is loaded{where}, but libnvidia-ml.so.1 is not found; install the driver's "
        f"libraries, or start this container with `--gpus all`{OR_THE_CPU}"
    )


def detect(timeout_s: float) -> HostInventory:
    """The hardware found here, read by a child process with a deadline of `timeout_s`.

    Never raises because of NVML: if the child hangs, crashes or prints nothing usable, the
    inventory has the host alone, and its `nvml_error` gives the reason and the remedy.
    """
    detection = Detection()
    try:
        return detection.result(timeout_s)
    finally:
        detection.stop()


class Detection:
    """`detect` in two steps: the child looks from this object's creation on, and keeps NVML open.

    Without persistence mode the driver forgets each GPU when its last user has gone, and the next one waits
    up to a second for each (NVIDIA, Driver Persistence). A start opens NVML several times: here, in Ray, in
    the agent.
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._status: int | None = None
        self._over = threading.Event()
        self._child = Child(MODULE, hear=self._hear, ended=self._ended, keep_stderr=True)

    def result(self, timeout_s: float) -> HostInventory:
        """The inventory, waited for at most `timeout_s`. Never raises because of NVML."""
        if not self._over.wait(timeout_s):
            self.stop(0)
            return _host_alone(f"NVML did not answer within {timeout_s:g} s: the driver hangs; {WAY_OUT}")
        try:
            return inventory_from(self._messages[0] if self._messages else {})
        except (KeyError, TypeError):
            ended = _ending(self._status or 0)
            output = self._child.last_words() or ": no output"
            return _host_alone(f"GPU detection ended with {ended}{output}; {WAY_OUT}")

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Let the child end, and kill it after `timeout_s`."""
        self._child.stop(timeout_s)

    def let_go(self) -> None:
        """Let the child end by itself, and do not wait."""
        self._child.let_go()

    def _hear(self, message: Message) -> None:
        self._messages.append(message)
        self._over.set()

    def _ended(self, status: int | None) -> None:
        self._status = status
        self._over.set()


def inventory_to_json(found: HostInventory) -> str:
    """The inventory as JSON on one line."""
    return json.dumps(dataclasses.asdict(found))


def inventory_from(entries: dict[str, Any]) -> HostInventory:
    """The inventory that `inventory_to_json` wrote, read as JSON.

    Raises:
        KeyError, TypeError: if it is no such inventory.
    """
    cards = {key: tuple(map(_gpu, entries[key])) for key in ("gpus", "hidden")}
    return HostInventory(**{**entries, **cards})


def _gpu(entries: dict[str, Any]) -> GpuIdentity:
    capability = entries["compute_capability"]
    return GpuIdentity(
        **{**entries, "compute_capability": None if capability is None else (capability[0], capability[1])}
    )


def _host_alone(nvml_error: str | None) -> HostInventory:
    reader = HostReader()
    setting = own_setting()
    return HostInventory(
        hostname=socket.gethostname(),
        cpus=reader.usable_cpus(),
        ram_gib=reader.ram_gib(),
        driver_version=None,
        nvml_error=nvml_error,
        gpus=(),
        hidden_by=shown(setting) if setting is not None and hides_all(setting) else None,
        setting_error=wrong_setting((), setting, lambda _mig: None),
    )


def _ending(status: int) -> str:
    if status < 0:
        return f"signal {-status} ({signal.Signals(-status).name})"
    return f"status {status}"


if __name__ == "__main__":
    die_with_parent()
    with _found_here() as found_here:
        sys.stdout.write(inventory_to_json(found_here) + "\n")
        sys.stdout.flush()
        Orders().closed.wait()
