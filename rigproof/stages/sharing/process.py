"""One of the processes that share a device, as seen by the worker that started it."""

import json
import queue
import time
from typing import Any

from rigproof.host.child import Child, Message

MODULE = "rigproof.stages.sharing.child"

Inbox = queue.SimpleQueue[tuple["SharingProcess", dict[str, Any]]]


class SharingProcess(Child):
    """A child process with its own interpreter, until `stop`. Its messages go to `inbox`.

    So does a message about its end: `{"what": "gone", "status": …}`, with subprocess's status.
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
