"""NVML as it is asked: the only importer of pynvml, and one GPU, whose failed queries are None or an event.

Calls go by name, errors are codes, field values have their type.
"""

import ctypes
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import pynvml

from rigproof.host.nvidia import KernelDriver, kernel_driver
from rigproof.records.measurements import Event
from rigproof.telemetry.nvml.errors import GpuLost, NvmlError
from rigproof.telemetry.nvml.protocol import ABSENT, LOST, NOT_AVAILABLE, SUCCESS, VALUE_MEMBERS, Code

Handle = Any  # pynvml's pointer to an opaque C struct
FieldValue = tuple[int, int | float | None]  # return code; value, or None


class Library:
    """NVML through pynvml. Safe to call from several threads, as NVML itself is."""

    def __init__(self) -> None:
        self._calls: list[str] = []  # grows and shrinks without a lock: each of the two is one step

    @property
    def in_flight(self) -> int:
        """Calls that have not returned yet, such as those in a hung driver."""
        return len(self._calls)

    def call(self, query: str, *args: Any) -> Any:
        """The answer of pynvml's function of that name.

        Raises:
            NvmlError: for every code but success; a function that this pynvml lacks is
                FUNCTION_NOT_FOUND, like one that the driver lacks.
        """
        function = getattr(pynvml, query, None)
        if function is None:
            raise NvmlError(query, Code.FUNCTION_NOT_FOUND, "not in this nvidia-ml-py")
        self._calls.append(query)
        try:
            return function(*args)
        except pynvml.NVMLError as error:
            raise NvmlError(query, int(error.value), str(error)) from None
        finally:
            self._calls.pop()

    def filled(self, query: str, handle: Handle, struct: str) -> Any:
        """The struct of pynvml of that name, as a function fills it.

        Raises:
            NvmlError: as `call`; a struct that this pynvml lacks is FUNCTION_NOT_FOUND.
        """
        kind = getattr(pynvml, struct, None)
        if kind is None:
            raise NvmlError(query, Code.FUNCTION_NOT_FOUND, f"{struct} is not in this nvidia-ml-py")
        answer = kind()
        self.call(query, handle, ctypes.byref(answer))
        return answer

    def fields(self, handle: Handle, asked: Sequence[tuple[int, int]]) -> list[FieldValue]:
        """Field values in one call, each by the field's id and its scope, such as an NVLink; 0: it has none.

        Raises:
            NvmlError: the call as a whole failed.
        """
        answers = self.call("nvmlDeviceGetFieldValues", handle, list(asked))
        found = (plain(answers._type_) * len(asked)).from_buffer(answers)
        codes = [answer.nvmlReturn for answer in found]
        values = [_value(one) if code == SUCCESS else None for one, code in zip(found, codes, strict=True)]
        return list(zip(codes, values, strict=True))


def kernel_under_nvml() -> KernelDriver:
    """The kernel's driver, for the NVML library that belongs to it."""
    # A simulated library answers for the machine that it simulates.
    look: Callable[[], KernelDriver] = getattr(pynvml.nvmlLib, "kernel_driver", kernel_driver)
    return look()


@cache
def plain(kind: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """The struct without what pynvml adds in Python to every access to a field."""
    return type(kind.__name__, (ctypes.Structure,), {"_fields_": kind._fields_})


def _value(answer: Any) -> int | float | None:
    """The union's value, by the type that the driver stated; None for an unknown type.

    Driver 580 writes the recovery action as an integer and leaves the type at 0, which is a double: read so,
    a requested reset would be almost 0. No reading is that small, so the integer is meant.
    """
    member = VALUE_MEMBERS.get(answer.valueType)
    union = answer.value
    value: int | float | None = getattr(union, member, None) if member else None
    if member == "dVal" and value is not None and 0 < abs(value) < sys.float_info.min:
        value = int(union.ullVal)
    return None if value in NOT_AVAILABLE else value


def address(handle: Handle) -> int:
    """A number that is equal for equal handles."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


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
