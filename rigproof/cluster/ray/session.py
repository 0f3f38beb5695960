"""One connection to Ray: start a local one or join a cluster, and disconnect again.

Ray's processes die with the thread that started them (they ask the kernel for it: PR_SET_PDEATHSIG), so a
thread of its own starts Ray, lives as long as it, and ends it. That also gives every step a deadline.
"""

import atexit
import logging
import secrets
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import ray._private.worker as ray_worker
from ray._private.node import Node
from ray._private.parameter import RayParams

from rigproof.cluster.ray import leaving
from rigproof.cluster.ray.bare_head import bare_head, further_node
from rigproof.cluster.ray.environment import joining_environment, local_environment, settings
from rigproof.cluster.ray.folder import (
    OBJECT_STORE_BYTES,
    Warden,
    held,
    last_lines,
    make_folder,
    remove_stale_folders,
    temp_root,
)
from rigproof.cluster.ray.preconditions import ClusterStartFailed, ClusterUnreachable, check_ray_version
from rigproof.host import processes
from rigproof.host.processes import ProcessId
from rigproof.records.message_text import what_it_says

LOOK_S = 0.1  # between two looks at what is left of Ray
LEAST_S = 0.5  # for killed processes to go


@dataclass(frozen=True, slots=True)
class MoreNode:
    """A further node of a Ray of our own on this machine: a raylet with resources of its own."""

    name: str
    cpus: float
    gpus: int


class RaySession:
    """A running Ray, which is ours to end if `started`."""

    def __init__(
        self, started: bool, folder: Path | None, more: Sequence[MoreNode] = (), in_advance: int = 1
    ) -> None:
        self.started = started
        self.folder = folder
        self._more = more
        self._in_advance = in_advance
        self._warden = None if folder is None else Warden(folder)
        self._undo = ExitStack()
        self._begun = threading.Event()
        self._end = threading.Event()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._let_go = True  # whether Ray has disconnected from this process
        self._processes: frozenset[ProcessId] = frozenset()
        self._joined: list[Node] = []  # of `more`

    def open(self, arguments: dict[str, Any], variables: Mapping[str, str | None], limit_s: float) -> None:
        """Run `ray.init` with `arguments`. Raises what it raises, or TimeoutError."""
        if self.folder is not None:
            self._undo.enter_context(held(self.folder))
        self._undo.enter_context(settings(variables))
        self._undo.enter_context(_silent())
        self._let_go = False
        self._thread = threading.Thread(
            target=self._live, args=(arguments,), name="rigproof-ray", daemon=True
        )
        self._thread.start()
        try:
            if not self._begun.wait(limit_s):
                raise TimeoutError(f"Ray did not answer within {limit_s:g} s")
        finally:
            _take_back_sigterm()
        if self._error is not None:
            raise self._error
        self._processes = self._started_processes()

    def last_lines(self) -> str:
        """The last lines that a Ray of our own wrote about what went wrong; empty if none."""
        return "" if self.folder is None else last_lines(self.folder)

    def close(self, limit_s: float, ours: Iterable[ProcessId] = ()) -> tuple[ProcessId, ...]:
        """Disconnect; end Ray where it is ours. `ours` are further processes of this host that must be gone.

        Returns the processes that are still there after `limit_s`: none, unless the kernel holds them.
        """
        gentle_s, end_s = time.monotonic() + limit_s / 2, time.monotonic() + limit_s
        family = self._relatives(self._processes | frozenset(ours) | self._started_processes())
        self._end.set()
        while self._thread is not None and self._stuck() and time.monotonic() < gentle_s:
            self._wait_a_little()
            family = self._relatives(family)  # Ray's processes start others until they are gone
        if not self._stuck():
            processes.wait_gone(family, min(1.0, limit_s / 4))
        left = self._kill(family, max(end_s, time.monotonic() + LEAST_S))
        if self._thread is not None and self._stuck():
            self._thread.join(max(0.1, end_s - time.monotonic()))
        if not self._let_go:
            self._cut_off()
        _take_back_sigterm()
        self._reap()
        self._undo.close()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        if self._warden is not None:
            self._warden.stop()
        return left

    def _wait_a_little(self) -> None:
        """Wait LOOK_S for Ray's thread. Its shutdown resets SIGTERM to the default action: undo that."""
        end_s = time.monotonic() + LOOK_S
        while self._stuck() and time.monotonic() < end_s:
            assert self._thread is not None
            self._thread.join(LOOK_S / 10)
            _take_back_sigterm()

    def _reap(self) -> None:
        """Reap the processes of `more` nodes, which nothing else waits for."""
        for process in self._processes_of_more():
            process.poll()
        self._joined.clear()

    def _processes_of_more(self) -> list[Any]:
        return [
            info.process
            for node in self._joined
            for infos in list(node.all_processes.values())
            for info in infos
        ]

    def _relatives(self, family: frozenset[ProcessId]) -> frozenset[ProcessId]:
        """These processes and, if this Ray is ours, their descendants and all that name its folder."""
        if not self.started:
            return family
        roots = {process.pid for process in family if processes.alive(process)}
        return family | processes.descendants(roots) | processes.naming(str(self.folder))

    def _kill(self, family: frozenset[ProcessId], end_s: float) -> tuple[ProcessId, ...]:
        """Kill these processes and what they start in the meantime. Returns those left at `end_s`."""
        while True:
            family = self._relatives(family)
            left = tuple(process for process in family if processes.alive(process))
            if not left or time.monotonic() >= end_s:
                return left
            for process in left:
                processes.kill(process)
            processes.wait_gone(left, LOOK_S)

    @staticmethod
    def _cut_off() -> None:
        """Let nothing in this process call Ray from now on, since it did not disconnect."""
        atexit.unregister(ray.shutdown)  # it would wait for the same lock, for ever
        # An ObjectRef that is freed without a core worker does nothing; with one that is being taken down it
        # ends the process, with status 1 (CoreWorkerProcess::GetCoreWorker).
        vars(ray_worker.global_worker).pop("core_worker", None)
        leaving.expect_stuck_exit()

    def _stuck(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _live(self, arguments: dict[str, Any]) -> None:
        try:
            with bare_head(self._in_advance):
                ray.init(**arguments)
            for node in self._more:
                self._joined.append(_add_node(node, str(self.folder)))
        except BaseException as error:  # Ray raises SystemExit too; `open` raises it again
            self._error = error
        self._begun.set()
        self._end.wait()
        for process in self._processes_of_more():
            process.kill()  # their resources are simulated: nothing is lost; Ray would not reap them
        try:
            ray.shutdown()
        except Exception:
            return  # `close` kills what is left
        self._let_go = True

    def _started_processes(self) -> frozenset[ProcessId]:
        node = ray_worker._global_node  # noqa: SLF001 - Ray has the ids of its processes nowhere else
        if not self.started or node is None:
            return frozenset()
        pids = [info.process.pid for infos in list(node.all_processes.values()) for info in infos]
        found = (processes.process_id(pid) for pid in pids)
        return frozenset(process for process in found if process is not None)


def start_local(
    node_name: str,
    *,
    cpus: float,
    gpus: int,
    namespace: str,
    limit_s: float,
    stop_s: float,
    stall_s: float,
    more: Sequence[MoreNode] = (),
    in_advance: int = 1,
) -> RaySession:
    """A Ray of our own on 127.0.0.1, with a random token and without a dashboard; `more` nodes join it.

    It starts `in_advance` processes for actors right away.

    A node that does not answer for about `stall_s` is declared dead.

    Raises:
        ClusterStartFailed: it did not start within `limit_s`; nothing of it is left.
    """
    check_ray_version(ClusterStartFailed)
    remove_stale_folders(temp_root())
    folder = make_folder()
    session = RaySession(started=True, folder=folder, more=more, in_advance=in_advance)
    arguments = {
        "address": "local",
        "include_dashboard": False,
        "num_cpus": max(1, round(cpus)),
        "num_gpus": gpus,
        "object_store_memory": OBJECT_STORE_BYTES,
        "log_to_driver": False,
        "configure_logging": False,
        "namespace": namespace,
        "_node_ip_address": "127.0.0.1",
        "_node_name": node_name,
        "_temp_dir": str(folder),
    }
    try:
        session.open(arguments, local_environment(secrets.token_hex(32), stall_s), limit_s)
    except BaseException as error:
        said = "; ".join(filter(None, (what_it_says(error), session.last_lines())))
        session.close(stop_s)
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ClusterStartFailed(
            f"Ray did not start on this machine: {said}. Correct that and run again, or start Ray yourself "
            "with `ray start --head` and give --hw-ray-address"
        ) from error
    return session


def join(
    address: str, *, namespace: str, limit_s: float, stop_s: float, open_cluster: bool = False
) -> RaySession:
    """Connect to a running cluster; `close` disconnects and leaves it as it was.

    `open_cluster`: it has no token authentication (`join_probe` finds out).

    Raises:
        ClusterUnreachable: no answer, a wrong token, or different versions.
    """
    check_ray_version(ClusterUnreachable)
    session = RaySession(started=False, folder=None)
    arguments = {
        "address": address,
        "log_to_driver": False,
        "configure_logging": False,
        "namespace": namespace,
    }
    try:
        session.open(arguments, joining_environment(address, open_cluster=open_cluster), limit_s)
    except BaseException as error:
        session.close(stop_s)
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ClusterUnreachable(f"--hw-ray-address {address}: {what_it_says(error)}") from error
    return session


def _add_node(node: MoreNode, folder: str) -> Node:
    """Start one more raylet of the Ray that this process is connected to; `RaySession.close` ends it too."""
    parameters = RayParams(
        node_name=node.name,
        num_cpus=max(1, round(node.cpus)),
        num_gpus=node.gpus,
        object_store_memory=OBJECT_STORE_BYTES,
        node_ip_address="127.0.0.1",
        gcs_address=ray.get_runtime_context().gcs_address,
        temp_dir=folder,
        node_manager_port=0,
        min_worker_port=0,
        max_worker_port=0,
        include_log_monitor=False,
    )
    return further_node(parameters)


def _take_back_sigterm() -> None:
    """Restore Python's handling of SIGTERM.

    When it starts, Ray's C++ side replaces the handler (absl's failure signal handler): it passes the signal
    on, but also sets an alarm that aborts this process 3 s later, in the middle of taking everything down.
    When it is shut down, it leaves the signal's default action: the process ends at once, without its
    reports.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGTERM, handler)


@contextmanager
def _silent() -> Iterator[None]:
    """Keep Ray from printing between pytest's lines; what matters is recorded as events."""
    logger = logging.getLogger("ray")
    level, printing = logger.level, ray_worker._worker_logs_enabled  # noqa: SLF001 - no public switch
    logger.setLevel(logging.CRITICAL)
    ray_worker._worker_logs_enabled = False  # noqa: SLF001
    # Ray's hook reports an uncaught exception to the head, and waits for a head that has gone.
    if sys.excepthook is getattr(ray_worker, "custom_excepthook", None):
        sys.excepthook = ray_worker.normal_excepthook
    try:
        yield
    finally:
        logger.setLevel(level)
        ray_worker._worker_logs_enabled = printing  # noqa: SLF001
