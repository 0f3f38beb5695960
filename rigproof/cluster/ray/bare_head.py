"""A Ray of our own starts without its autoscaler, its dashboard, its reader of logs, and its nodes' agents.

They are not used here. They are five Python processes beside the load that is judged, and Ray waits for the
dashboard's and the agents' before it goes on, whatever `include_dashboard` says.

It also starts as many processes in advance as there are actors to come. By itself Ray starts one for each
CPU, on a large host a hundred, all of them at the same time.

All this changes private parts of Ray. A Ray that it was not tested with (`version.TESTED_RAY`) starts as
`ray.init` starts it: seconds later, and with those processes.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray._private.node as ray_node
import ray._raylet as compiled
from ray._private import services
from ray._private.parameter import RayParams

from rigproof.cluster.ray.preconditions import is_tested

# The ports that a raylet waits for, each in a file. -1: nobody listens, as where Ray is installed without its
# dashboard.
AGENT_PORTS = (
    "METRICS_AGENT_PORT_NAME",
    "METRICS_EXPORT_PORT_NAME",
    "DASHBOARD_AGENT_LISTEN_PORT_NAME",
    "RUNTIME_ENV_AGENT_PORT_NAME",
)
NOBODY = -1
AGENT_COMMANDS = ("--dashboard_agent_command=", "--runtime_env_agent_command=")
IN_ADVANCE = "--num_prestart_python_workers="


class BareNode(ray_node.Node):  # type: ignore[misc]
    """A node of Ray's raylet, on the head with its GCS, alone.

    If a version of Ray lacks one of these methods, that process starts. `in_advance`: how many processes for
    actors start together with the raylet.
    """

    in_advance = 1

    def start_monitor(self) -> None:
        """Start no autoscaler, since nothing here grows."""

    def start_log_monitor(self) -> None:
        """Start no reader of logs, since the driver asked for none (`log_to_driver`)."""

    def start_api_server(self, **_: Any) -> None:
        """Start no dashboard, and state no address of one."""
        self._webui_url = ""

    def start_raylet(self, *arguments: Any, **options: Any) -> None:
        """Start the raylet with agents that do nothing: no metrics to collect, no environments to install."""
        with _idle_agents(self._session_dir, self._node_id), _in_advance(self.in_advance):
            super().start_raylet(*arguments, **options)


@contextmanager
def _idle_agents(folder: str, node_id: str) -> Iterator[None]:
    """Within this, a raylet starts `cat` for each agent: it insists on a process, which ends with its pipe.

    A version of Ray that does not know these ports by name starts its own agents.
    """
    cat, persist = shutil.which("cat"), getattr(compiled, "persist_port", None)
    names = [getattr(compiled, name, None) for name in AGENT_PORTS]
    if cat is None or persist is None or None in names:
        yield
        return
    for name in names:
        persist(folder, node_id, name, NOBODY)
    with _changed(lambda argument: _idle(argument, cat)):
        yield


@contextmanager
def _in_advance(number: int) -> Iterator[None]:
    """Within this, a raylet starts so many processes in advance."""
    with _changed(lambda argument: f"{IN_ADVANCE}{number}" if argument.startswith(IN_ADVANCE) else argument):
        yield


@contextmanager
def _changed(change: Callable[[str], str]) -> Iterator[None]:
    """Within this, every argument of a process that Ray's Python side starts is changed so."""
    whole = services.start_ray_process

    def start(command: list[str], *arguments: Any, **options: Any) -> Any:
        return whole([change(argument) for argument in command], *arguments, **options)

    services.start_ray_process = start
    try:
        yield
    finally:
        services.start_ray_process = whole


def _idle(argument: str, program: str) -> str:
    """The argument, with `program` for the command if it is an agent's."""
    option = next((option for option in AGENT_COMMANDS if argument.startswith(option)), None)
    return argument if option is None else f"{option}{program}"


@contextmanager
def bare_head(in_advance: int) -> Iterator[None]:
    """Within this, `ray.init` starts a BareNode when it starts a Ray, with so many processes for actors."""
    if not is_tested():
        yield
        return
    whole = ray_node.Node
    ray_node.Node = type("BareHead", (BareNode,), {"in_advance": in_advance})
    try:
        yield
    finally:
        ray_node.Node = whole


def further_node(parameters: RayParams) -> Any:
    """One more raylet of a Ray of our own, as bare as its head. The caller ends it."""
    kind = BareNode if is_tested() else ray_node.Node
    return kind(parameters, head=False, shutdown_at_exit=False, spawn_reaper=False)
