"""Real traffic of the training libraries: all-reduces by gloo, in a process that can be killed.

One process does an arm after the other. If it hangs, fails or dies in one, a new one does the later arms.
Each arm begins when all of the group are there.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from rigproof.devices.own_process import ApartError, run_apart, serve_apart
from rigproof.devices.specs import Spec, WorkerContext
from rigproof.host import parent
from rigproof.host.interfaces import counters
from rigproof.records.crews import Member
from rigproof.stages.route.stage import GLOO, NCCL, Arm, Came

MODULE = "rigproof.stages.route.traffic"
LOAD_S = 60.0  # for all to have torch loaded, on a busy host with a slow disk
STORE_S = 20.0  # to meet: torch looks the others' names up, and a resolver that is not there takes its time
GLOO_S = 5.0  # gloo's own limit on each wait
KILLED_S = 2 * GLOO_S + 2.0  # it connects, then reduces; it is killed then: some of its waits have no end

Hear = Callable[[Arm, Came, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class TrafficSpec(Spec):
    """Who meets where, to reduce how much. `arms`: pairs of a name and the interface that it is pinned to."""

    host: str
    port: int
    rank: int
    size: int
    megabytes: float
    arms: tuple[tuple[Arm, str], ...]


def reduce_all(spec: TrafficSpec, context: WorkerContext, hear: Hear) -> None:
    """Each arm, until the crew ends. `hear` gets what came of it, and more as far as it is known.

    `message`: about a failure; `seconds`: of the all-reduce; `sent_mb`: meanwhile, by interface.
    """
    from rigproof.devices.process_group import meeting_place  # noqa: PLC0415 - it loads torch

    left = [*spec.arms]

    def heard(message: Mapping[str, Any]) -> None:
        if message["what"] == "arm":
            hear(left.pop(0)[0], message["outcome"], message["more"])

    with meeting_place(Member("", spec.rank, spec.size, (spec.host, spec.port))):
        while left and not context.stopped():
            try:
                run_apart(
                    MODULE,
                    replace(spec, arms=tuple(left)),
                    context,
                    records=(),
                    test="all-reduce",
                    silent="it did not end",
                    stall_s=LOAD_S,
                    environment={"CUDA_VISIBLE_DEVICES": ""},  # it has no use for GPUs
                    hear=heard,
                    torch=True,
                )
            except ApartError as error:
                if not left:
                    return  # it has told all
                came = "hung" if error.how == "silent" else "broken"
                heard({"what": "arm", "outcome": came, "more": {"message": str(error)}})
                if came == "broken":  # no finding: nor would the next arm be one
                    return


def _serve(spec: TrafficSpec, _context: WorkerContext) -> None:
    import torch.distributed as dist  # noqa: PLC0415 - the parent needs none of it

    if not dist.is_gloo_available():
        raise RuntimeError("this torch was built without gloo")
    parent.tell(what="meeting", limit_s=STORE_S + 5.0)
    try:
        store = dist.TCPStore(spec.host, spec.port, timeout=timedelta(seconds=STORE_S), is_master=False)
    except RuntimeError as error:
        parent.tell(what="arm", outcome="failed", more={"message": _first_line(error)})
        return

    def all_at(place: str, limit_s: float) -> None:
        store.set(f"{place} {spec.rank}", "")
        store.wait([f"{place} {rank}" for rank in range(spec.size)], timedelta(seconds=limit_s))

    for arm, interface in spec.arms:
        parent.tell(what="waiting", limit_s=LOAD_S + 5.0)
        all_at(f"{arm} begins", LOAD_S)
        parent.tell(what="reducing", limit_s=KILLED_S)
        if interface:
            os.environ[GLOO] = os.environ[NCCL] = interface
        before = counters()
        outcome, more = _reduced(spec, dist.PrefixStore(arm, store))
        parent.tell(what="reduced", limit_s=KILLED_S + 5.0)
        with suppress(RuntimeError):  # one that hangs never comes
            all_at(f"{arm} ends", KILLED_S)  # so that all of a group's traffic is counted
        after = counters()
        there = before.keys() & after.keys()
        more["sent_mb"] = {one: (after[one].sent_bytes - before[one].sent_bytes) / 1e6 for one in there}
        parent.tell(what="arm", outcome=outcome, more=more)
        if outcome == "failed":
            return
        dist.destroy_process_group()


def _reduced(spec: TrafficSpec, store: Any) -> tuple[Came, dict[str, Any]]:
    import torch.distributed as dist  # noqa: PLC0415 - as above
    from torch import arange, equal, float32  # noqa: PLC0415

    numbers = arange(max(1, int(spec.megabytes * 1e6) // 4), dtype=float32).remainder_(1000)
    right = numbers * spec.size + spec.size * (spec.size - 1) / 2
    own = numbers.add_(spec.rank)
    try:
        limit = timedelta(seconds=GLOO_S)
        dist.init_process_group("gloo", store=store, rank=spec.rank, world_size=spec.size, timeout=limit)
        begun_s = time.monotonic()
        dist.all_reduce(own)
        seconds = time.monotonic() - begun_s
    except RuntimeError as error:  # of gloo, or of its store: what it says is the finding
        return "failed", {"message": _first_line(error)}
    return "done" if equal(own, right) else "wrong", {"seconds": seconds}


def _first_line(error: RuntimeError) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


if __name__ == "__main__":
    serve_apart(_serve, TrafficSpec)
