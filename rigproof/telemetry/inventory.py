"""The hardware found on this host: `python -m rigproof.telemetry.inventory` prints it as JSON.

Detection runs in a child process with a deadline, so that a driver that hangs or crashes neither
delays nor ends the calling process. Nothing heavy is imported: no torch, no ray, no CUDA.
"""

import dataclasses
import json
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from rigproof.host.child import STOP_S, Answer, Child, Message, ask
from rigproof.host.parent import Orders, die_with_parent
from rigproof.host.visible import own_setting, unresolved, visible_gpus
from rigproof.records.identity import GpuIdentity
from rigproof.records.inventory import HostInventory
from rigproof.telemetry.host import HostReader

MODULE = "rigproof.telemetry.inventory"
STAY = "--stay"
WAY_OUT = "run `nvidia-smi`, look for Xid in `dmesg`, and reboot if it does not answer either"


def inventory() -> HostInventory:
    """The hardware found here, read in this process. GPUs hidden by CUDA_VISIBLE_DEVICES are left out."""
    with _found_here() as found:
        return found


@contextmanager
def _found_here() -> Iterator[HostInventory]:
    """The hardware found here; within this, NVML stays open."""
    # Here, so that the process that only calls `detect` does not load NVML's bindings.
    from rigproof.telemetry.nvml.errors import NvmlUnavailable  # noqa: PLC0415
    from rigproof.telemetry.nvml.session import open_nvml  # noqa: PLC0415

    host = _host_alone(nvml_error=None)
    with ExitStack() as opened:
        try:
            nvml = opened.enter_context(open_nvml())
            gpus = nvml.gpus(host.hostname)
        except NvmlUnavailable as error:
            found = dataclasses.replace(host, nvml_error=None if error.driver_missing else str(error))
        else:
            visible = visible_gpus(gpus, own_setting(), nvml.parent_of)
            problems = [f"{event.subject}: {event.message}" for event in nvml.problems()]
            problems += filter(None, [unresolved(gpus, own_setting(), visible)])
            found = dataclasses.replace(
                host,
                driver_version=nvml.driver_version,
                nvml_error="; ".join(problems) or None,
                gpus=visible,
            )
        yield found


def detect(timeout_s: float) -> HostInventory:
    """The hardware found here, read by a child process with a deadline of `timeout_s`.

    Never raises because of NVML: if the child hangs, crashes or prints nothing usable, the
    inventory has the host alone, and its `nvml_error` gives the reason and the remedy.
    """
    return _told(ask(MODULE, limit_s=timeout_s), timeout_s)


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
        self._child = Child(MODULE, STAY, hear=self._hear, ended=self._ended, keep_stderr=True)

    def result(self, timeout_s: float) -> HostInventory:
        """What was found, waited for at most `timeout_s`. Never raises because of NVML, as `detect`."""
        if not self._over.wait(timeout_s):
            self.stop(0)
            return _told(Answer(None, None, ""), timeout_s)
        if self._messages:
            return _told(Answer(self._messages[0], 0, ""), timeout_s)
        complaint = self._child.complaint().splitlines()[-1:] or [""]
        return _told(Answer(None, self._status, complaint[0]), timeout_s)

    def stop(self, timeout_s: float = STOP_S) -> None:
        """End the child; it is killed if it has not ended within `timeout_s`."""
        self._child.stop(timeout_s)

    def let_go(self) -> None:
        """Let the child end by itself. Does not wait."""
        self._child.let_go()

    def _hear(self, message: Message) -> None:
        self._messages.append(message)
        self._over.set()

    def _ended(self, status: int | None) -> None:
        self._status = status
        self._over.set()


def _told(answer: Answer, timeout_s: float) -> HostInventory:
    """What a child's answer says; the host alone, with the reason, if it is no inventory."""
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
    with _found_here() as found_here:
        sys.stdout.write(inventory_to_json(found_here) + "\n")
        sys.stdout.flush()
        if STAY in sys.argv:
            Orders().closed.wait()
