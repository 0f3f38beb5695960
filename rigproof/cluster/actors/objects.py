"""Ray's object store, by which workers hand data to each other: from the store of a node to another's."""

import time
from collections.abc import Callable
from typing import Any

import ray

from rigproof.host.bounded import Background

LOOK_S = 0.1


class RayObjects:
    """What a worker offers, and what it gets from others (`rigproof.devices.specs.Objects`)."""

    def __init__(self) -> None:
        self._offered: list[Any] = []  # at most one reference

    @property
    def address(self) -> str:
        return str(ray.get_runtime_context().get_actor_name())

    @property
    def room_mb(self) -> float:
        own = ray.get_runtime_context().get_node_id()
        resources = [node["Resources"] for node in ray.nodes() if node["NodeID"] == own]
        return sum(float(one.get("object_store_memory", 0.0)) for one in resources) / 1e6

    def offer(self, data: Any) -> None:
        self._offered = [ray.put(data)]

    def withdraw(self) -> None:
        self._offered = []

    def offered(self) -> list[Any]:
        return self._offered

    def get(self, address: str, limit_s: float, go_on: Callable[[], bool]) -> tuple[float, Any]:
        asking = Background(lambda: self._got(address, limit_s), "objects")
        while not asking.done(LOOK_S) and go_on():
            continue
        if isinstance(asking.error, ray.exceptions.GetTimeoutError):
            raise TimeoutError
        if asking.error is not None:
            raise RuntimeError(f"{type(asking.error).__name__}: {asking.error}") from asking.error
        for found in asking.results():
            return found
        raise TimeoutError  # it was told to end

    @staticmethod
    def _got(address: str, limit_s: float) -> tuple[float, Any]:
        (wanted,) = ray.get(ray.get_actor(address).offered.remote(), timeout=limit_s)
        begun_s = time.monotonic()
        data = ray.get(wanted, timeout=limit_s)
        return time.monotonic() - begun_s, data
