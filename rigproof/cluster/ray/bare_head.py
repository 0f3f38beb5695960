"""A Ray of our own starts without its autoscaler, its dashboard and its reader of logs.

They are not used here. They are three Python processes beside the load that is judged, and Ray
waits for the dashboard's before it goes on, whatever `include_dashboard` says.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray._private.node as ray_node


class BareHead(ray_node.Node):  # type: ignore[misc]
    """A head of Ray's GCS and raylet alone. If a version lacks one of these methods, that process starts."""

    def start_monitor(self) -> None:
        """No autoscaler: nothing here grows."""

    def start_log_monitor(self) -> None:
        """No reader of logs: the driver asked for none (`log_to_driver`)."""

    def start_api_server(self, **_: Any) -> None:
        """No dashboard, and no address of one."""
        self._webui_url = ""


@contextmanager
def bare_head() -> Iterator[None]:
    """Within this, `ray.init` starts a BareHead when it starts a Ray."""
    whole = ray_node.Node
    ray_node.Node = BareHead
    try:
        yield
    finally:
        ray_node.Node = whole
