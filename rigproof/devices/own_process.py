"""A worker's task in a process of its own: what hangs there, or takes the host's memory, ends with it."""

import json
import queue
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager

from rigproof.devices.context import WorkerContext
from rigproof.host.child import Child, Message

WAIT_S = 0.1


@contextmanager
def messages_of(
    module: str,
    settings: object,
    context: WorkerContext,
    *,
    test: str,
    silent: str,
    stall_s: float,
    endings: Mapping[int, str] | None = None,
    isolated: bool = False,
) -> Iterator[Iterator[Message]]:
    """The messages of `module`, run with `settings` as JSON, until it is done or the task is stopped.

    Each message is a sign of life. The module ends its work with `parent.serve`. RuntimeError if the process
    fails, dies (`endings`: why, by exit status), or says nothing for `stall_s` (`silent` says so); `test` is
    its name in errors. It is not left running, unless the kernel holds it.
    """
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    child = Child(
        module,
        json.dumps(settings),
        hear=inbox.put,
        ended=lambda status: inbox.put({"what": "gone", "status": status}),
        isolated=isolated,
    )

    def heard() -> Generator[Message, None, None]:
        heard_s = time.monotonic()
        while not context.stopped():
            try:
                message = inbox.get(timeout=WAIT_S)
            except queue.Empty:
                if time.monotonic() - heard_s > stall_s:
                    raise RuntimeError(f"{silent} for {stall_s:g} s") from None
                continue
            heard_s = time.monotonic()
            context.alive()
            match message.get("what"):
                case "done":
                    return
                case "error":
                    raise RuntimeError(f"the {test} failed: {message['message']}")
                case "gone":
                    status = message["status"]
                    why = (endings or {}).get(status, "")
                    raise RuntimeError(f"the {test} ended with status {status}{why}")
                case _:
                    yield message

    try:
        with closing(heard()) as messages:
            yield messages
    finally:
        child.stop()
