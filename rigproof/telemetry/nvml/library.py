"""The only importer of pynvml: calls by name, errors as codes, field values by their type."""

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pynvml

from rigproof.host.nvidia import KernelDriver, kernel_driver
from rigproof.telemetry.nvml.errors import NvmlError
from rigproof.telemetry.nvml.protocol import NOT_AVAILABLE, SUCCESS, VALUE_MEMBERS, Code

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
