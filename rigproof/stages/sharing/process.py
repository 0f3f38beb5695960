"""One of the processes that share a device, as the worker that started it sees it."""

import json
import queue
import time
from typing import Any

from rigproof.host.child import Child, Message

MODULE = "rigproof.stages.sharing.child"

Inbox = queue.SimpleQueue[tuple["SharingProcess", dict[str, Any]]]


class SharingProcess(Child):
    """A child with its own interpreter, from its making until `stop`. What it says goes to `inbox`.

    Its end is said too: `{"what": "gone", "status": …}`, where the status is subprocess's.
    """

    def __init__(self, number: int, settings: dict[str, Any], inbox: Inbox) -> None:
        self.number = number
        self.state = "starting"
        self.heard_s = time.monotonic()
        self.mib = 0.0
        self._inbox = inbox
        super().__init__(MODULE, json.dumps(settings), hear=self._take, ended=self._gone)

    def _take(self, message: Message) -> None:
        if "what" in message:
            self._inbox.put((self, message))

    def _gone(self, status: int | None) -> None:
        self._inbox.put((self, {"what": "gone", "status": status}))
