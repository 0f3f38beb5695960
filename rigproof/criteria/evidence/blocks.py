"""Devices that are judged together: what each of them needs is computed for all at once."""

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # a device has a block, and a block has devices
    from rigproof.criteria.evidence.devices import DeviceEvidence

Made = TypeVar("Made")


class Block:
    """Some devices, and what was computed for all of them."""

    def __init__(self, devices: Sequence["DeviceEvidence"]) -> None:
        self.devices = tuple(devices)
        self._kept: dict[Hashable, Any] = {}

    def kept(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The result of `make`, made once."""
        if key not in self._kept:
            self._kept[key] = make()
        found: Made = self._kept[key]
        return found
