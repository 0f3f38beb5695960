"""Real traffic of the training libraries: all-reduces by gloo, then NCCL, in processes that can be killed.

One process does an arm of gloo after the other. If it hangs, fails or dies in one, a new one does the later
arms. NCCL looks for interfaces once in a process: each of its arms has its own. Each arm begins when all of
the group are there.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from rigproof.devices.own_process import ApartError, run_apart, serve_apart
from rigproof.devices.rank import WATCHDOGS
from rigproof.devices.specs import Spec, WorkerContext
from rigproof.host import parent
from rigproof.host.interfaces import Counters, counters
from rigproof.records.crews import Member
from rigproof.records.message_text import what_it_says
from rigproof.stages.route.stage import GLOO, NCCL, Arm, Came, Library

MODULE = "rigproof.stages.route.traffic"
LOAD_S = 60.0  # for all to have torch loaded, on a busy host with a slow disk
STORE_S = 20.0  # to meet: torch looks the others' names up, and a resolver that is not there takes its time
COME_S = 30.0  # for all to begin an arm of NCCL, after those of gloo, which they ended together
GLOO_S = 5.0  # gloo's own limit on each wait
# It connects, then reduces; it is killed then: some of its waits have no end.
# NCCL took up to 1.2 s between two H200; a PC first reads its kernels from disk.
KILLED_S = {"gloo": 2 * GLOO_S + 2.0, "NCCL": 20.0}
THROUGH: tuple[Came, ...] = ("done", "wrong")

Tried = tuple[Library, Arm, str]  # an arm: the interface that it is pinned to, empty if it is not
Hear = Callable[[Tried, Came, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class TrafficSpec(Spec):
    """Who meets where, to reduce how much. `arms`: those of gloo first."""

    host: str
    port: int
    rank: int
    size: int
    megabytes: float
    arms: tuple[Tried, ...]


def reduce_all(spec: TrafficSpec, context: WorkerContext, hear: Hear) -> None:
    """Each arm, until the crew ends. `hear` gets what came of it, and more as far as it is known.

    NCCL is not tried where gloo did not get through. No arm follows one that broke: it would be no finding.

    `message`: about a failure; `seconds`: of the all-reduce; `sent_mb`: meanwhile, by interface.
    """
    from rigproof.devices.process_group import meeting_place  # noqa: PLC0415 - it loads torch

    left, came = [*spec.arms], dict[Tried, Came]()

    def heard(message: Mapping[str, Any]) -> None:
        if message["what"] == "arm":
            arm = left.pop(0)
            came[arm] = message["outcome"]
            hear(arm, message["outcome"], message["more"])

    with meeting_place(Member("", spec.rank, spec.size, (spec.host, spec.port))):
        while left and "broken" not in came.values() and not context.stopped():
            by_gloo = tuple(one for one in left if one[0] == "gloo")
            if not by_gloo and came and not any(one in THROUGH for one in came.values()):
                return
            now = by_gloo or (left[0],)
            try:
                run_apart(
                    MODULE,
                    replace(spec, arms=now),
                    context,
                    records=(),
                    test="all-reduce",
                    silent="it did not end",
                    stall_s=LOAD_S,
                    environment={"CUDA_VISIBLE_DEVICES": ""} if by_gloo else WATCHDOGS,
                    hear=heard,
                    torch=True,
                )
            except ApartError as error:
                if now[-1] in left:  # else it has told all
                    outcome = "hung" if error.how == "silent" else "broken"
                    heard({"what": "arm", "outcome": outcome, "more": {"message": str(error)}})


def _serve(spec: TrafficSpec, _context: WorkerContext) -> None:
    import torch.distributed as dist  # noqa: PLC0415 - the parent needs none of it

    if not dist.is_gloo_available():
        raise RuntimeError("this torch was built without gloo")
    parent.tell(what="meeting", limit_s=STORE_S + 5.0)
    try:
        store = dist.TCPStore(spec.host, spec.port, timeout=timedelta(seconds=STORE_S), is_master=False)
    except RuntimeError as error:
        parent.tell(what="arm", outcome="failed", more={"message": what_it_says(error)})
        return

    def all_at(place: str, limit_s: float, told: str = "") -> list[str]:
        store.set(f"{place} {spec.rank}", told)
        places = [f"{place} {rank}" for rank in range(spec.size)]
        store.wait(places, timedelta(seconds=limit_s))
        return [store.get(one).decode() for one in places]

    for library, arm, interface in spec.arms:
        parent.tell(what="waiting", limit_s=LOAD_S + 5.0)
        why = "" if library == "gloo" else _no_nccl()
        whys = all_at(f"{library} {arm} begins", LOAD_S if library == "gloo" else COME_S, why)
        if any(whys):
            message = why or f"on another node {next(filter(None, whys))}"
            parent.tell(what="arm", outcome="broken", more={"message": message})
            return
        parent.tell(what="reducing", limit_s=KILLED_S[library])
        if interface:
            os.environ[GLOO] = os.environ[NCCL] = interface
        before = counters()
        outcome, more = _reduced(spec, library, dist.PrefixStore(f"{library} {arm}", store))
        parent.tell(what="reduced", limit_s=KILLED_S[library] + 5.0)
        with suppress(RuntimeError):  # one that hangs never comes
            all_at(f"{library} {arm} ends", KILLED_S[library])  # so that all of a group's traffic is counted
        more["sent_mb"] = sent_mb(before, counters())
        parent.tell(what="arm", outcome=outcome, more=more)
        if outcome == "failed" or library != "gloo":
            return
        dist.destroy_process_group()


def sent_mb(before: Mapping[str, Counters], after: Mapping[str, Counters]) -> dict[str, float]:
    """What each interface sent between two counts, 10^6 bytes."""
    there = before.keys() & after.keys()
    return {one: (after[one].sent_bytes - before[one].sent_bytes) / 1e6 for one in there}


def _no_nccl() -> str:
    """Why NCCL cannot be tried here; empty if it can. Makes the context on the GPU that it needs."""
    import torch.distributed as dist  # noqa: PLC0415 - as above
    from torch import zeros  # noqa: PLC0415

    if not dist.is_nccl_available():
        return "torch was built without NCCL"
    try:
        zeros(1, device="cuda")
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without CUDA
        return f"the GPU cannot be used: {what_it_says(error)}"
    return ""


def _reduced(spec: TrafficSpec, library: Library, store: Any) -> tuple[Came, dict[str, Any]]:
    import torch.distributed as dist  # noqa: PLC0415 - as above
    from torch import arange, device, equal, float32  # noqa: PLC0415

    gpu = None if library == "gloo" else device("cuda", 0)
    numbers = arange(max(1, int(spec.megabytes * 1e6) // 4), dtype=float32).remainder_(1000)
    right = numbers * spec.size + spec.size * (spec.size - 1) / 2
    own = numbers.add_(spec.rank)
    own = own if gpu is None else own.to(gpu)
    try:
        dist.init_process_group(
            library.lower(),
            store=store,
            rank=spec.rank,
            world_size=spec.size,
            timeout=timedelta(seconds=GLOO_S),
            device_id=gpu,
        )
        begun_s = time.monotonic()
        dist.all_reduce(own)
        found = own.cpu()  # waits for the GPU
        seconds = time.monotonic() - begun_s
    except RuntimeError as error:  # of the library, or of its store: what it says is the finding
        return "failed", {"message": what_it_says(error)}
    return "done" if equal(found, right) else "wrong", {"seconds": seconds}


if __name__ == "__main__":
    serve_apart(_serve, TrafficSpec)
