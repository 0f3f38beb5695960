"""A worker as a rank of its crew: a process of its own joins the group, and can be killed where it hangs.

The process tells each step before it enters and after it has left it (`devices.process_group`). So the
worker knows how far its rank came, its front, when the process is silent or gone. Each rank has its own
deadline, and reports its own front; which rank the others waited for is read from all fronts together.
"""

import math
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from rigproof.devices.own_process import ApartError, Task, run_apart, unheard
from rigproof.devices.ras import ADDRESS, own_address, status_at
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import WorkerContext
from rigproof.host.child import Message
from rigproof.host.interfaces import interfaces
from rigproof.host.progress import FILE, ProgressFile
from rigproof.records.crews import Member

START = "start"  # the step of a process that has not told any
# Deadlines are ours, so the library's own watchdogs, which dump for a minute before they end a process, rest.
WATCHDOGS = {
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
}
HELD_S = 10.0  # a rank that a signal holds for so long is not waited for; all others wait for it
REACH_S = 2.0  # for a host of a LAN to answer
BY_NAME = {"GLOO_SOCKET_IFNAME": "", "NCCL_SOCKET_IFNAME": "="}  # with what marks a whole name, no beginning
OURS = (*BY_NAME, ADDRESS)  # the variables that a rank has from its worker


def group_environment(crew: Member) -> dict[str, str]:
    """The variables of a rank's process: no watchdogs, and the interface that leads to the meeting place.

    The libraries would take another one where a host's name, or the order of its interfaces, misleads them;
    that is not what collectives are to show. An interface that the user has named stays.
    """
    name = _interface_to(crew.meets_at[0]) if crew.size > 1 else ""
    named = {key: mark + name for key, mark in BY_NAME.items() if name and key not in os.environ}
    return {**WATCHDOGS, **named}


def _interface_to(host: str) -> str:
    """The name of the interface by which packets to a host leave; empty if it cannot be told."""
    with suppress(OSError):
        family, _, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect(address)  # sends nothing
            own = ip_address(way.getsockname()[0])
        for interface in interfaces():
            if any(one.ip == own for one in interface.parsed()):
                return interface.name
    return ""


def _unreached(crew: Member) -> str:
    """How this host fails to reach that of rank 0, where the crew met; empty if it reaches it, or is it."""
    if crew.rank == 0:
        return ""
    host, port = crew.meets_at
    try:
        socket.create_connection((host, port), REACH_S).close()
    except ConnectionRefusedError:  # the host answers; rank 0's worker has left
        return ""
    except OSError as error:
        return f"{host} ({error.strerror or error})"
    return ""


def run_rank(
    module: str,
    spec: Task,
    context: WorkerContext,
    *,
    first_s: float,
    most_s: float = math.inf,
    records: tuple[type, ...] = (),
    data: dict[str, Any] | None = None,
    environment: Mapping[str, str] = {},
    hear: Callable[[Message], None] = unheard,
) -> bool:
    """Run `module` as this worker's rank of its crew; whether it did all of it, or was stopped.

    Called inside `meeting_place`. `hear` gets what the process tells beside its steps. `first_s`: how soon
    its first step must be told; `most_s`: how soon the last one (`run_apart`). Else an event about the crew
    has the rank's front: `rank_stuck` if the process was silent past its deadline, or a signal held it for
    HELD_S, `rank_died` if it failed or was killed. `data` is added to it, and `limit_s` (`ApartError`),
    `unreached`: how this host fails to reach rank 0's just then, `nccl_ras`: what NCCL said of the group
    while it hung, if anything, and `halves`: how many halves of operations of its last step it had begun and
    left (`host.progress`).
    `environment`: more variables of the process. The worker itself goes on.
    """
    crew, ras, said = context.crew, own_address(), []
    front: dict[str, Any] = {"sequence": 0, "operation": START, "mib": 0, "inside": False}

    def heard(message: Message) -> None:
        if message["what"] == "step":
            front.update({key: message[key] for key in front})
        else:
            hear(message)

    with ProgressFile() as progress:
        try:
            run_apart(
                module,
                spec,
                context,
                records=records,
                test="rank's process",
                silent="it was silent",
                stall_s=first_s,
                most_s=most_s,
                held_s=HELD_S,
                environment={**group_environment(crew), ADDRESS: ras, FILE: progress.path, **environment},
                hear=heard,
                examine=lambda: said.append(status_at(ras)),
                torch=True,
            )
        except ApartError as error:
            kind = "rank_stuck" if error.how == "silent" else "rank_died"
            where = f"{'inside' if front['inside'] else 'after'} {front['operation']} {front['sequence']}"
            held = ", stopped by a signal" if error.held else ""
            message = f"rank {crew.rank} of {crew.size} ({context.subject}) {where}{held}: {error}"
            told = {"rank": crew.rank, "size": crew.size, "held": error.held, "status": error.status}
            seen = {"unreached": _unreached(crew), "nccl_ras": "".join(said), "halves": progress.halves()}
            data = {**front, **told, **seen, "limit_s": error.limit_s, **(data or {})}
            Reporter(context, spec.stage, crew.subject).event(kind, message, data, t_s=error.t_s)
            return False
        return True
