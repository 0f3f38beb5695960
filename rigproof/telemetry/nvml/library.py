"""The only importer of pynvml: calls by name, errors as codes, field values by their type."""

import ctypes
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pynvml

from rigproof.telemetry.nvml.errors import NvmlError
from rigproof.telemetry.nvml.protocol import NOT_AVAILABLE, VALUE_MEMBERS, Code

Handle = Any  # pynvml's pointer to an opaque C struct
FieldValue = tuple[int, int | float | None]  # return code; value, or None


class Library:
    """NVML through pynvml. Safe to call from several threads, as NVML itself is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """Calls that have not returned yet, such as those in a hung driver."""
        return self._in_flight

    def call(self, query: str, *args: Any) -> Any:
        """The answer of pynvml's function of that name.

        Raises:
            NvmlError: for every code but success; a function that this pynvml lacks is
                FUNCTION_NOT_FOUND, like one that the driver lacks.
        """
        function = getattr(pynvml, query, None)
        if function is None:
            raise NvmlError(query, Code.FUNCTION_NOT_FOUND, "not in this nvidia-ml-py")
        with self._lock:
            self._in_flight += 1
        try:
            return function(*args)
        except pynvml.NVMLError as error:
            raise NvmlError(query, int(error.value), str(error)) from None
        finally:
            with self._lock:
                self._in_flight -= 1

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

    def scoped(self, handle: Handle, field_id: int, scopes: Sequence[int]) -> list[FieldValue]:
        """One field's values for each of `scopes`, such as NVLinks, in one call.

        Raises:
            NvmlError: the call as a whole failed.
        """
        answers = self.call("nvmlDeviceGetFieldValues", handle, [(field_id, scope) for scope in scopes])
        return [_answered(answer) for answer in answers]

    def fields(self, handle: Handle, ids: Sequence[int]) -> dict[int, FieldValue]:
        """Many field values in one call, each with its own return code.

        Raises:
            NvmlError: the call as a whole failed.
        """
        answers = self.call("nvmlDeviceGetFieldValues", handle, list(ids))
        return {int(answer.fieldId): _answered(answer) for answer in answers}


def _answered(answer: Any) -> FieldValue:
    code = int(answer.nvmlReturn)
    return code, _value(answer) if code == Code.SUCCESS else None


def _value(answer: Any) -> int | float | None:
    """The union's value, by the type that the driver stated; None for an unknown type.

    Driver 580 writes the recovery action as an integer and leaves the type at 0, which is a double: read so,
    a requested reset would be almost 0. No reading is that small, so the integer is meant.
    """
    member = VALUE_MEMBERS.get(int(answer.valueType))
    union = answer.value
    value: int | float | None = getattr(union, member, None) if member else None
    if member == "dVal" and value is not None and 0 < abs(value) < sys.float_info.min:
        value = int(union.ullVal)
    return None if value in NOT_AVAILABLE else value


def address(handle: Handle) -> int:
    """A number that is equal for equal handles."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
