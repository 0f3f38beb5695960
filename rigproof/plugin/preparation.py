"""From the options to a checked profile and plan. What can be refused is refused here, before any load."""

import socket
from dataclasses import dataclass

from rigproof.plugin.options import Request
from rigproof.profiles.auto import completed, rig_of
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.lint import lint_rig
from rigproof.profiles.load import load_rig
from rigproof.profiles.loaded import LoadedRig
from rigproof.profiles.models import LevelName
from rigproof.profiles.plan import Plan
from rigproof.profiles.planning import make_plan
from rigproof.records.inventory import HostInventory
from rigproof.telemetry.inventory import detect

DETECTION_LIMIT_S = 20.0
CONNECT_LIMIT_S = 3.0


class Refused(Exception):  # noqa: N818 - says what is the case
    """The run cannot begin; the message says what to change. Becomes exit status 4."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is going to be done, checked."""

    request: Request
    loaded: LoadedRig
    level: LevelName
    plan: Plan
    inventory: HostInventory  # this machine, as found


def prepare(request: Request) -> Prepared:
    """Load the rig, complete it by what is found here, lint it, plan it. Raises Refused."""
    try:
        loaded, inventory = _rig(request)
        promises_gpu = any(device.gpu.device == "cuda" for device in loaded.devices())
        if request.require_gpu and not promises_gpu:
            raise Refused(f"{loaded.file}: promises no GPU, and --require-gpu wants one; drop one of the two")
        level: LevelName = request.level or ("standard" if promises_gpu else "quick")
        problems = lint_rig(loaded, level)
        if problems:
            raise Refused("\n".join(problems))
        plan = make_plan(loaded, level, request.sustained_s)
    except ProfileError as error:
        raise Refused(str(error)) from error
    if request.ray_address is not None:
        _check_reachable(request.ray_address)
    return Prepared(request, loaded, level, plan, inventory)


def _rig(request: Request) -> tuple[LoadedRig, HostInventory]:
    """The promised rig and this machine. Raises ProfileError."""
    stated = None if request.profile == "auto" else load_rig(request.profile)
    inventory = detect(DETECTION_LIMIT_S)
    if stated is None:
        return rig_of(inventory, require_gpu=request.require_gpu), inventory
    return completed(stated, inventory), inventory


def _check_reachable(address: str) -> None:
    """Refuse an address that nobody listens at, before Ray would wait for it."""
    host, separator, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto":
        return
    if not separator or not port.isdigit() or not 0 < int(port) < 65536:
        raise Refused(
            f"--ray-address {address}: not an address; write HOST:PORT as `ray start --head` printed it, "
            "such as 192.168.1.10:6379"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_LIMIT_S).close()
    except OSError as error:
        raise Refused(
            f"--ray-address {address}: nobody answers there ({error}); start the cluster with "
            f"`ray start --head --port={port}` on {host}, or leave the option out to use this machine alone"
        ) from error
