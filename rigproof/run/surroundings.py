"""What a Ray of our own needs of this host, and does not get: read before anything is started."""

import os
import resource
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from rigproof.cluster.ray.folder import LONGEST_ROOT_BYTES, OBJECT_STORE_BYTES, SOCKET_PATH_BYTES, temp_root
from rigproof.cluster.ray.matching import local_node
from rigproof.host.offers import SHARED_MEMORY
from rigproof.host.room import MIB, ThreadRoom, free_mib, localhost_elsewhere, loopback_problem, thread_room
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan
from rigproof.profiles.tables.limits import Limits
from rigproof.records.verdict import figure
from rigproof.run.planned_load import planned_load
from rigproof.telemetry.host import HostReader, host_addresses


def lacking(loaded: LoadedRig, plan: Plan, *, simulated: bool) -> list[str]:
    """Reasons why a Ray of our own cannot run this plan here, with the way out; empty if it can.

    `simulated`: every node of the rig is a raylet of its own here, beside Ray's head.
    """
    nodes = _nodes_here(loaded, simulated)
    if not nodes:
        return []
    limits = loaded.rig.limits
    here = [worker for worker in plan.workers if worker.node in nodes]
    contexts = 0 if simulated else sum(worker.device == "cuda" for worker in here)
    load = None if simulated else planned_load(loaded, nodes[0], HostReader().usable_cpus())
    needed = threads_needed(limits, len(nodes) + simulated, len(here), contexts, os.cpu_count() or 1)
    return [
        *too_few_threads(thread_room(), needed + (load.threads if load else 0), len(here)),
        *too_tight(limits),
        *no_loopback(loopback_problem()),
        *no_localhost(localhost_elsewhere()),
        *no_room(temp_root(), SHARED_MEMORY, limits),
    ]


def _nodes_here(loaded: LoadedRig, simulated: bool) -> Sequence[str]:
    promised = loaded.rig.nodes
    if simulated:
        return [node.name for node in promised]
    here = local_node(promised, socket.gethostname(), host_addresses())
    return [] if here is None else [here]


def threads_needed(limits: Limits, raylets: int, workers: int, contexts: int, cpus: int) -> int:
    """The threads of a run without its CPU load, about as measured; `contexts`: workers with CUDA."""
    parts = (
        limits.run_threads,
        (limits.run_threads_per_node or 0) * raylets,
        (limits.run_threads_per_worker or 0) * workers,
        (limits.run_threads_per_context or 0) * contexts,
        (limits.run_threads_per_cpu or 0) * cpus,
    )
    return round(sum(part or 0 for part in parts))


def too_few_threads(room: ThreadRoom | None, needed: int, workers: int) -> Iterator[str]:
    """A sentence if a limit leaves fewer threads than a run starts."""
    if room is not None and room.free < needed:
        yield (
            f"{room.where} = {room.limit}: {room.used} threads are there already, which leaves {room.free}; "
            f"a run with {figure(workers, 'workers')} starts about {needed} (limits.run_threads and the keys "
            f"below it); {room.remedy}, or plan fewer workers"
        )


def too_tight(limits: Limits) -> Iterator[str]:
    """A sentence if a limit on each process is lower than Ray needs, which then waits for half a minute."""
    files, addresses = limits.run_open_files or 0, limits.run_address_mib or 0
    needed = (
        ("-n", resource.RLIMIT_NOFILE, 1, "open files", files, " (limits.run_open_files)"),
        ("-v", resource.RLIMIT_AS, MIB, "MiB of addresses", addresses, " (limits.run_address_mib)"),
        ("-f", resource.RLIMIT_FSIZE, MIB, "MiB in a file", OBJECT_STORE_BYTES / MIB, ""),
    )
    for option, limit, unit, what, least, key in needed:
        allowed, _ = resource.getrlimit(limit)
        if allowed != resource.RLIM_INFINITY and allowed / unit < least:
            yield (
                f"`ulimit {option}` allows {allowed / unit:.0f} {what}, and a process of Ray needs "
                f"{least:.0f}{key}; raise it (`ulimit {option}`, /etc/security/limits.conf)"
            )


def no_loopback(problem: str) -> Iterator[str]:
    """A sentence if Ray's processes could not speak with each other, with the `problem`."""
    if problem:
        yield (
            f"127.0.0.1 cannot be reached here ({problem}), and Ray's processes speak with each other there; "
            "switch the loopback interface on: `ip link set lo up`"
        )


def no_localhost(address: str) -> Iterator[str]:
    """A sentence if Ray's processes would look for each other elsewhere: Ray does not answer for a minute.

    `address`: the foreign one of localhost; empty if there is none.
    """
    if address:
        yield (
            f"/etc/hosts, or the name server, says that localhost is {address}, where Ray's processes would "
            "look for each other; write `127.0.0.1 localhost` into /etc/hosts"
        )


def no_room(folder: Path, shared_memory: Path, limits: Limits) -> Iterator[str]:
    """A sentence if Ray's files do not fit: its object store is in shared memory, or if full, beside them."""
    if not os.access(folder, os.W_OK | os.X_OK):
        yield (
            f"{folder} cannot be written, and Ray keeps its files and sockets there; set TMPDIR to a folder "
            f"that can be, with a path of at most {LONGEST_ROOT_BYTES} bytes: a socket's has "
            f"{SOCKET_PATH_BYTES} in all"
        )
        return
    if shared_memory.is_dir() and not os.access(shared_memory, os.W_OK | os.X_OK):
        yield (
            f"{shared_memory} cannot be written, and Ray keeps its object store there; mount it writable "
            f"(`mount -o remount,rw {shared_memory}`), with mode 1777"
        )
        return
    needed_mib, why = limits.run_temp_mib or 0.0, ""
    store_mib, shared_mib = OBJECT_STORE_BYTES / MIB, free_mib(shared_memory)
    if shared_mib < store_mib:
        needed_mib += store_mib
        why = f", {store_mib:.0f} of them because {shared_memory} has {shared_mib:.0f} MiB free"
    found_mib = free_mib(folder)
    if found_mib < needed_mib:
        yield (
            f"{folder} has {found_mib:.1f} MiB free; Ray's files need {needed_mib:.0f} MiB there{why}; "
            "make room, or set TMPDIR to a folder that has room and a short path"
        )
