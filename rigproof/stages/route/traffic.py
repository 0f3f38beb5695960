"""Real traffic of the training libraries: an all-reduce by gloo in a process of its own, which can be killed.

    python -m rigproof.stages.route.traffic

It says `ready` once torch is loaded, takes one order to meet and reduce, and says what came of it.
"""

import os
import queue
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Self

from rigproof.host import parent
from rigproof.host.child import Child, Message
from rigproof.host.parent import Orders
from rigproof.stages.route.stage import GLOO, NCCL

MODULE = "rigproof.stages.route.traffic"
LOAD_S = 60.0  # for torch to be imported on a busy host with a slow disk
STORE_S = 20.0  # to meet: torch looks the others' names up, and a resolver that is not there takes its time
GLOO_S = 5.0  # gloo's own limit on each wait
KILLED_S = (
    2 * GLOO_S + 2.0
)  # it connects, then reduces; it is killed then, since some of its waits have no end
LATEST_S = STORE_S + KILLED_S + 5.0  # for all of a group
LOOK_S = 0.1

Came = Literal["done", "wrong", "failed", "hung", "broken"]


@dataclass(frozen=True, slots=True)
class Order:
    """Who meets where, to reduce how much; over `interface`, or as it is."""

    host: str
    port: int
    rank: int
    size: int
    megabytes: float
    interface: str


@dataclass(frozen=True, slots=True)
class Reduced:
    """What came of it, what gloo says about a failure, and how long the all-reduce took."""

    came: Came
    message: str = ""
    seconds: float = 0.0


class Reducer:
    """The process for one all-reduce. A context manager: leaving it ends the process, whatever it does."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        # It has no use for GPUs; torch is loaded sooner without them.
        self._child = Child(
            MODULE,
            hear=self._inbox.put,
            ended=lambda status: self._inbox.put({"what": "gone", "status": status}),
            environment={"CUDA_VISIBLE_DEVICES": ""},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.stop(0)

    def ready(self, go_on: Callable[[], bool]) -> bool:
        """Wait until torch is loaded; False if that failed."""
        message = self._next(LOAD_S, go_on)
        return message is not None and message["what"] == "ready"

    def reduce(self, order: Order, go_on: Callable[[], bool]) -> Reduced:
        """Reduce once."""
        self._child.tell(**{name: getattr(order, name) for name in order.__slots__})
        message = self._next(STORE_S + 2.0, go_on)
        if message is not None and message["what"] == "met":
            message = self._next(KILLED_S, go_on)
        if message is None:
            return Reduced("hung", f"it did not end within {KILLED_S:g} s")
        match message["what"]:
            case "reduced":
                return Reduced("done" if message["right"] else "wrong", seconds=message["seconds"])
            case "failed":
                return Reduced("failed", message["message"])
            case "gone":
                return Reduced("broken", f"its process ended with status {message['status']}")
        return Reduced("broken", str(message.get("message", message["what"])))

    def _next(self, wait_s: float, go_on: Callable[[], bool]) -> Message | None:
        end_s = time.monotonic() + wait_s
        while go_on() and time.monotonic() < end_s:
            try:
                return self._inbox.get(timeout=LOOK_S)
            except queue.Empty:
                continue
        return None


def _serve(orders: Orders) -> None:
    import torch.distributed as dist  # noqa: PLC0415 - while the parent probes
    from torch import arange, float32, full  # noqa: PLC0415

    if not dist.is_gloo_available():
        raise RuntimeError("this torch was built without gloo")
    parent.tell(what="ready")
    told = orders.next()
    if told is None:
        return
    order = Order(**told)
    if order.interface:
        os.environ[GLOO] = os.environ[NCCL] = order.interface
    try:
        limit, first = timedelta(seconds=GLOO_S), order.rank == 0
        store = dist.TCPStore(
            order.host, order.port, order.size, is_master=first, timeout=timedelta(seconds=STORE_S)
        )
        parent.tell(what="met")
        dist.init_process_group("gloo", store=store, rank=order.rank, world_size=order.size, timeout=limit)
        count = max(1, int(order.megabytes * 1e6) // 4)
        own = arange(count, dtype=float32).remainder_(1000).add_(order.rank)
        begun_s = time.monotonic()
        dist.all_reduce(own)
        seconds = time.monotonic() - begun_s
        ranks = order.size * (order.size - 1) / 2
        right = arange(count, dtype=float32).remainder_(1000).mul_(order.size).add_(full((), ranks))
        parent.tell(what="reduced", right=bool((own == right).all()), seconds=seconds)
    except RuntimeError as error:  # of gloo, or of its store: what it says is the finding
        lines: list[Any] = str(error).strip().splitlines() or [type(error).__name__]
        parent.tell(what="failed", message=str(lines[0])[:300])
    orders.closed.wait()


if __name__ == "__main__":
    sys.exit(parent.serve(_serve))
