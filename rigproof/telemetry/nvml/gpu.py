"""One GPU as NVML knows it. A query that fails gives None, an event, or GpuLost."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rigproof.records.measurements import Event
from rigproof.telemetry.nvml.errors import GpuLost, NvmlError
from rigproof.telemetry.nvml.library import Handle, Library
from rigproof.telemetry.nvml.protocol import ABSENT, LOST, NOT_AVAILABLE, SUCCESS, Code

Answer = TypeVar("Answer")
OLDER = object()  # stands for the answer of a function that only has its older name here


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
class Known:
    """What stays known of a GPU between two looks at it.

    `unreachable`: why it no longer answers; once set, it stays set. `held`: PCIe generation and width and
    the thermal margin, which `sampling` last read at `held_since_s`.
    """

    unreachable: str | None = None
    held: tuple[int | None, int | None, int | None] = (None, None, None)
    held_since_s: float = float("-inf")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One look at a GPU, as `subject` at `t_s`: several threads may have one each.

    What the GPU does not support is None. So is an unexpected error, which is also noted as an event. Once it
    is unreachable, every query raises GpuLost.
    """

    uuid: str
    handle: Handle
    known: Known
    subject: str
    t_s: float
    _library: Library
    _problems: Problems

    def ask(self, query: str, *args: Any) -> Any | None:
        """The answer of `query(handle, *args)`."""
        return self._answered(self._library.call, query, self.handle, *args)

    def filled(self, query: str, struct: str) -> Any | None:
        """The pynvml struct of that name, filled by the function."""
        return self._answered(self._library.filled, query, self.handle, struct)

    def number(self, query: str, *args: Any, older: str = "") -> int | None:
        """The answer of a query for a number; None also for NVML's "not available" value.

        `older`: the name under which drivers have the function that do not know it by this one.
        """
        expected: Mapping[int, Any] = {Code.FUNCTION_NOT_FOUND: OLDER} if older else {}
        answer = self._answered(self._library.call, query, self.handle, *args, expected=expected)
        if answer is OLDER:
            return self.number(older, *args)
        return None if answer is None or answer in NOT_AVAILABLE else int(answer)

    def unsupported(self, query: str) -> bool:
        """Whether the driver reports explicitly that this GPU does not support the query."""
        expected: Mapping[int, Any] = {Code.NOT_SUPPORTED: False}
        return self._answered(self._library.call, query, self.handle, expected=expected) is False

    def valid(self, query: str, invalid: Code) -> bool | None:
        """The result of a check: False if its code is `invalid`; None if it could not be made."""

        def passes() -> bool:
            self._library.call(query, self.handle)
            return True

        return self._answered(passes, expected={invalid: False})

    def samples(self, query: str, *args: Any) -> Sequence[Any] | None:
        """The answer of a query for recent samples; an empty list if there are none."""
        none: Mapping[int, list[Any]] = {SUCCESS: [], Code.NOT_FOUND: []}  # of pynvml, and of the driver
        return self._answered(self._library.call, query, self.handle, *args, expected=none)

    def fields(self, ids: Sequence[int]) -> dict[int, int | float | None]:
        """Field values by id, all in one call; None for those not available."""
        return dict(zip(ids, self._values([(one, 0) for one in ids]), strict=True))

    def scoped(self, field_id: int, scopes: Sequence[int]) -> list[int | None]:
        """A counter for each of `scopes`, such as NVLinks, all in one call; None for those not available."""
        values = self._values([(field_id, scope) for scope in scopes])
        return [None if value is None else int(value) for value in values]

    def _values(self, asked: Sequence[tuple[int, int]]) -> list[int | float | None]:
        """The value of each field asked for by id and scope."""
        answers = self._answered(self._library.fields, self.handle, asked) or [(SUCCESS, None)] * len(asked)
        for (field_id, _), (code, _) in zip(asked, answers, strict=True):
            if code != SUCCESS:
                self._failed(NvmlError(f"field {field_id}", code, "field value not read"))
        return [value for _, value in answers]

    def _answered(
        self, call: Callable[..., Answer], *args: Any, expected: Mapping[int, Answer] | None = None
    ) -> Answer | None:
        """What the call returns; of an error, what is `expected` of its code, else None. Raises GpuLost."""
        if self.known.unreachable is not None:
            raise GpuLost(self.subject, self.uuid, self.known.unreachable)
        try:
            return call(*args)
        except NvmlError as error:
            if expected is not None and error.code in expected:
                return expected[error.code]
            self._failed(error)
            return None

    def _failed(self, error: NvmlError) -> None:
        if error.code in LOST:
            self.known.unreachable = str(error)
            raise GpuLost(self.subject, self.uuid, str(error))
        if error.code not in ABSENT:
            self._problems.note(self.t_s, self.subject, error)
