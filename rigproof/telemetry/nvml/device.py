"""One GPU's handle, and queries to it whose failures give None, an event, or GpuLost."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rigproof.records.measurements import Event
from rigproof.telemetry.nvml.errors import GpuLost, NvmlError
from rigproof.telemetry.nvml.library import Handle, Library
from rigproof.telemetry.nvml.protocol import ABSENT, LOST, NOT_AVAILABLE, SUCCESS, Code


class Problems:
    """Unexpected errors: each is kept once for each GPU, query and code, until drained."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[tuple[str, str, int]] = set()
        self._events: list[Event] = []

    def note(self, t_s: float, subject: str, error: NvmlError) -> None:
        """Keep an error, unless the same one is kept already."""
        key = (subject, error.query, error.code)
        with self._lock:
            if key in self._seen:
                return
            self._seen.add(key)
            data = {"query": error.query, "code": error.code}
            self._events.append(Event(t_s, "nvml_error", subject, str(error), data=data))

    def drain(self) -> list[Event]:
        """Take the errors noted since the last drain."""
        with self._lock:
            events, self._events = self._events, []
        return events


@dataclass(slots=True)
class Held:
    """Readings that are taken once a second and kept in between (PCIe link, thermal margin), and when."""

    read_at_s: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    thermal_margin_c: int | None = None


@dataclass(slots=True)
class NvmlDevice:
    """A GPU that NVML knows. Once `unreachable` is set, it stays set."""

    uuid: str
    handle: Handle
    unreachable: str | None = None
    held: Held = field(default_factory=Held)


class GpuQueries:
    """Queries to one GPU at one moment.

    What the GPU does not support is None. So is an unexpected error, which is also noted as an event.
    """

    def __init__(
        self, library: Library, device: NvmlDevice, problems: Problems, subject: str, t_s: float
    ) -> None:
        self.library = library
        self.device = device
        self.subject = subject
        self.t_s = t_s
        self._problems = problems

    def ask(self, query: str, *args: Any) -> Any | None:
        """The answer of `query(handle, *args)`, else None.

        Raises:
            GpuLost: once the driver has reported it, in this and every later call.
        """
        self._check_reachable()
        try:
            return self.library.call(query, self.device.handle, *args)
        except NvmlError as error:
            self._failed(error)
            return None

    def filled(self, query: str, struct: str) -> Any | None:
        """The pynvml struct of that name, filled by the function; else None."""
        self._check_reachable()
        try:
            return self.library.filled(query, self.device.handle, struct)
        except NvmlError as error:
            self._failed(error)
            return None

    def number(self, query: str, *args: Any) -> int | None:
        """The answer of a query for a number; None also for NVML's "not available" value."""
        answer = self.ask(query, *args)
        return None if answer is None or answer in NOT_AVAILABLE else int(answer)

    def first_number(self, *queries: str) -> int | None:
        """The number that a function answers, by the first of its names that this driver knows."""
        self._check_reachable()
        for query in queries:
            try:
                answer = self.library.call(query, self.device.handle)
            except NvmlError as error:
                if error.code != Code.FUNCTION_NOT_FOUND:
                    self._failed(error)
                    return None
            else:
                return None if answer in NOT_AVAILABLE else int(answer)
        return None

    def unsupported(self, query: str, *args: Any) -> bool:
        """Whether the driver reports explicitly that this GPU does not support the query."""
        self._check_reachable()
        try:
            self.library.call(query, self.device.handle, *args)
        except NvmlError as error:
            return error.code == Code.NOT_SUPPORTED
        return False

    def valid(self, query: str, invalid: Code) -> bool | None:
        """The result of a check: False if its code is `invalid`; None if it could not be made."""
        self._check_reachable()
        try:
            self.library.call(query, self.device.handle)
        except NvmlError as error:
            if error.code == invalid:
                return False
            self._failed(error)
            return None
        return True

    def samples(self, query: str, *args: Any) -> Sequence[Any] | None:
        """The answer of a query for recent samples, else None; an empty list if there are none."""
        self._check_reachable()
        try:
            found: Sequence[Any] = self.library.call(query, self.device.handle, *args)
        except NvmlError as error:
            if error.code in (Code.SUCCESS, Code.NOT_FOUND):  # how pynvml, and how the driver, report "none"
                return []
            self._failed(error)
            return None
        return found

    def fields(self, ids: Sequence[int]) -> dict[int, int | float | None]:
        """Field values by id, all in one call; None for those not available."""
        self._check_reachable()
        try:
            answers = self.library.fields(self.device.handle, ids)
        except NvmlError as error:
            self._failed(error)
            return dict.fromkeys(ids)
        values: dict[int, int | float | None] = dict.fromkeys(ids)
        for field_id, (code, value) in answers.items():
            values[field_id] = self._field(field_id, code, value)
        return values

    def scoped(self, field_id: int, scopes: Sequence[int]) -> list[int | None]:
        """A counter for each of `scopes`, such as NVLinks, all in one call; None for those not available."""
        self._check_reachable()
        try:
            answers = self.library.scoped(self.device.handle, field_id, scopes)
        except NvmlError as error:
            self._failed(error)
            return [None] * len(scopes)
        values = (self._field(field_id, *answer) for answer in answers)
        return [None if value is None else int(value) for value in values]

    def _field(self, field_id: int, code: int, value: int | float | None) -> int | float | None:
        if code != SUCCESS:
            self._failed(NvmlError(f"field {field_id}", code, "field value not read"))
        return value

    def _check_reachable(self) -> None:
        if self.device.unreachable is not None:
            raise GpuLost(self.subject, self.device.uuid, self.device.unreachable)

    def _failed(self, error: NvmlError) -> None:
        if error.code in LOST:
            self.device.unreachable = str(error)
            raise GpuLost(self.subject, self.device.uuid, str(error))
        if error.code not in ABSENT:
            self._problems.note(self.t_s, self.subject, error)
