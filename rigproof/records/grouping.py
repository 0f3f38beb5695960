"""Groups of what has something in common."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """The items by their key; keys and items in the order in which they came."""
    groups: dict[Key, list[Item]] = defaultdict(list)
    for one in items:
        groups[key(one)].append(one)
    return dict(groups)
