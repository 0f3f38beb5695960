"""Xid errors as the driver reports them, collected in a thread of its own. No root needed."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from rigproof.records.measurements import Event
from rigproof.telemetry.nvml.errors import NvmlError
from rigproof.telemetry.nvml.library import Gpu, Library, Problems, address
from rigproof.telemetry.nvml.protocol import EVENT_XID_CRITICAL_ERROR, Code

WAIT_MS = 500
# After these the GPU or its firmware does not answer, and a call to it may never return (NVIDIA's Xid
# catalogue: 79 fallen off the bus, 119 GSP RPC timeout, 120 GSP error). ECC Xids are not here: the
# error counters must still be read after them.
UNREACHABLE_AFTER = frozenset({79, 119, 120})


class XidListener:
    """Listens from its creation until `stop`. `supported` names the subjects whose Xids it receives.

    Without `by_itself` it has no thread, and listens only during calls of `hear`. `now_s` gives an event its
    time, run time in seconds. `gpus` is by subject. After an Xid of UNREACHABLE_AFTER the GPU is not
    queried any more.
    """

    def __init__(
        self,
        library: Library,
        gpus: Mapping[str, Gpu],
        problems: Problems,
        now_s: Callable[[], float],
        *,
        by_itself: bool = True,
    ) -> None:
        from rigproof.profiles.loading.xids import xid_catalogue  # noqa: PLC0415 - detection does not need it

        self._meaning = xid_catalogue().meaning
        self._library = library
        self._problems = problems
        self._now_s = now_s
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._stopping = threading.Event()
        self._by_address: dict[int, tuple[str, Gpu]] = {}
        self._set = self._create_set(gpus)
        self.supported = frozenset(subject for subject, _ in self._by_address.values())
        self._thread = threading.Thread(target=self._listen, name="rigproof-xid", daemon=True)
        if self.supported and by_itself:
            self._thread.start()
        elif self._set is not None and not self.supported:
            self._free()

    def drain(self) -> list[Event]:
        """Events of kind "xid" since the last drain, each once."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def stop(self, timeout_s: float = 2.0) -> bool:
        """End the thread; False if it is still in the driver after `timeout_s`."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _create_set(self, gpus: Mapping[str, Gpu]) -> Any | None:
        """An event set with every supported GPU; None if the driver has no events."""
        try:
            event_set = self._library.call("nvmlEventSetCreate")
        except NvmlError:
            return None  # no subject is supported then, which the caller reads
        for subject, gpu in gpus.items():
            if gpu.known.unreachable is not None:
                continue
            try:
                types = self._library.call("nvmlDeviceGetSupportedEventTypes", gpu.handle)
                if types & EVENT_XID_CRITICAL_ERROR:
                    self._library.call(
                        "nvmlDeviceRegisterEvents", gpu.handle, EVENT_XID_CRITICAL_ERROR, event_set
                    )
                    self._by_address[address(gpu.handle)] = (subject, gpu)
            except NvmlError:
                continue  # not in `supported`
        return event_set

    def hear(self, wait_ms: int) -> bool:
        """Wait up to `wait_ms` for one event. Returns whether one came."""
        try:
            data = self._library.call("nvmlEventSetWait_v2", self._set, wait_ms)
        except NvmlError as error:
            if error.code != Code.TIMEOUT:
                self._problems.note(self._now_s(), "rig", error)
                self._stopping.wait(wait_ms / 1000)
            return False
        self._heard(data)
        return True

    def _listen(self) -> None:
        while not self._stopping.is_set():
            self.hear(WAIT_MS)
        self._free()

    def _heard(self, data: Any) -> None:
        found = self._by_address.get(address(data.device))
        if found is None or not int(data.eventType) & EVENT_XID_CRITICAL_ERROR:
            return
        subject, gpu = found
        xid = int(data.eventData)
        message = f"Xid {xid}: {self._meaning(xid)}"
        if xid in UNREACHABLE_AFTER:
            gpu.known.unreachable = message
        with self._lock:
            self._events.append(
                Event(self._now_s(), "xid", subject, message, data={"xid": xid, "uuid": gpu.uuid})
            )

    def _free(self) -> None:
        try:
            self._library.call("nvmlEventSetFree", self._set)
        except NvmlError as error:
            self._problems.note(self._now_s(), "rig", error)
