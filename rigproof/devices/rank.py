"""A worker as a rank of its crew: a process of its own joins the group, and can be killed where it hangs.

The process tells each step before it enters and after it has left it (`devices.process_group`). So the
worker knows how far its rank came, its front, when the process is silent or gone. Each rank has its own
deadline, and reports its own front; which rank the others waited for is read from all fronts together.
"""

from typing import Any

from rigproof.devices.own_process import ApartError, Task, run_apart
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import WorkerContext
from rigproof.host.child import Message
from rigproof.records.crews import Member

START = "start"  # the step of a process that has not told any
# Deadlines are ours, so the library's own watchdogs, which dump for a minute before they end a process, rest.
WATCHDOGS = {
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
}
LOOPBACK_ALONE = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}  # where all ranks are on one host


def group_environment(crew: Member, **more: str) -> dict[str, str]:
    """The variables of a rank's process: no watchdogs; within one host the meeting place is loopback."""
    inside = crew.rendezvous is not None and crew.rendezvous[0] in ("127.0.0.1", "::1")
    return {**WATCHDOGS, **(LOOPBACK_ALONE if inside else {}), **more}


def run_rank(
    module: str,
    spec: Task,
    context: WorkerContext,
    *,
    first_s: float,
    records: tuple[type, ...] = (),
    data: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
) -> bool:
    """Run `module` as this worker's rank of its crew; whether it did all of it, or was stopped.

    `first_s`: how soon its first step must be told. Else an event about the crew has the rank's front:
    `rank_stuck` if the process was silent past its deadline, `rank_died` if it failed or was killed. `data`
    is added to it. The worker itself goes on: the card's own process is not hurt.
    """
    crew = context.crew
    front: dict[str, Any] = {"sequence": 0, "operation": START, "mib": 0, "inside": False}

    def hear(message: Message) -> None:
        if message["what"] == "step":
            front.update({key: message[key] for key in front})

    try:
        run_apart(
            module,
            spec,
            context,
            records=records,
            test="rank's process",
            silent="it was silent",
            stall_s=first_s,
            environment=group_environment(crew) if environment is None else environment,
            hear=hear,
            torch=True,
        )
    except ApartError as error:
        kind = "rank_stuck" if error.how == "silent" else "rank_died"
        where = f"{'inside' if front['inside'] else 'after'} {front['operation']} {front['sequence']}"
        held = ", stopped by a signal" if error.held else ""
        message = f"rank {crew.rank} of {crew.size} ({context.subject}) {where}{held}: {error}"
        told = {"rank": crew.rank, "size": crew.size, "held": error.held, "status": error.status}
        Reporter(context, spec.stage, crew.subject).event(kind, message, {**front, **told, **(data or {})})
        return False
    return True
