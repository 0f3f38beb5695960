"""Environment variables and Ray settings of one session, restored when it ends."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray
from ray._private import ray_constants

from rigproof.cluster.ray.preconditions import joining_mode
from rigproof.host.addresses import host_and_port
from rigproof.host.package import ROOT

PACKAGE_ROOT = str(ROOT)

SET_BY_RAY = ("PYTHONBREAKPOINT",)
UV_ENVIRONMENT = "RAY_ENABLE_UV_RUN_RUNTIME_ENV"  # below `uv run`, Ray wants its workers below one, too
# What Ray's Python side read when it was imported, and the variable that it is read from.
OFF = {
    "ENABLE_RAY_CLUSTER": ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR,
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": UV_ENVIRONMENT,
}
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
CONNECT_S = 1.0

# Without this Ray ends the driver 60 s after the head has gone, and the report is lost.
KEEP_DRIVER = {"RAY_gcs_rpc_server_reconnect_timeout_s": str(7 * 86400)}
HEALTH_CHECKS = 5  # checks in a row that a node has to miss, as in Ray
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_DOCKER_CPU_WARNING": "1"}
# Ray's monitors end or refuse what fits as long as others fill the RAM or the disk. Ray's workers are at nice
# 15: on a busy host they would sample and feed last.
UNGUARDED = {
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_local_fs_capacity_threshold": "1",
    "RAY_worker_niceness": "0",
}


def local_environment(token: str, stall_s: float) -> dict[str, str | None]:
    """Variables for a Ray of our own: a token, loopback, no statistics, rigproof on its workers' path.

    None: unset. No setting of Ray's is inherited, whatever cluster it was made for, nor a job's runtime
    environment, which our head never sets up. Its head declares a node dead after about `stall_s` without an
    answer; Ray's defaults take 55 s.
    """
    path = os.environ.get("PYTHONPATH")
    check_ms = 1000 * stall_s / HEALTH_CHECKS
    return {
        **{name: None for name in os.environ if name.startswith("RAY_")},
        "RAY_health_check_failure_threshold": str(HEALTH_CHECKS),
        "RAY_health_check_timeout_ms": str(round(0.6 * check_ms)),
        "RAY_health_check_period_ms": str(round(0.4 * check_ms)),
        **KEEP_DRIVER,
        **QUIET,
        **UNGUARDED,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": token,
        # Ray replaces 127.0.0.1 by a reachable address unless this setting turns clusters off.
        ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0",
        UV_ENVIRONMENT: "0",
        "PYTHONPATH": PACKAGE_ROOT if not path else os.pathsep.join([path, PACKAGE_ROOT]),
    }


def joining_environment(address: str, *, open_cluster: bool) -> dict[str, str | None]:
    """Variables for joining a cluster.

    Token authentication is turned on, unless the cluster is open, there is no token, or RAY_AUTH_MODE is set.
    """
    mode = joining_mode(os.environ, open_cluster=open_cluster)
    loopback = {ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0"} if _loopback_only(address) else {}
    return {**KEEP_DRIVER, **QUIET, **mode, **loopback}


def _loopback_only(address: str) -> bool:
    """Whether a 127.0.0.1 address is intended: otherwise Ray replaces it by this host's outer address."""
    host, port = host_and_port(address) or ("", 0)
    if host not in LOOPBACK:
        return False
    try:
        socket.create_connection((ray.util.get_node_ip_address(), port), CONNECT_S).close()
    except OSError:
        return True
    return False


@contextmanager
def settings(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set `variables` (None: unset), let Ray read them again, and undo both at the end."""
    before = {key: os.environ.get(key) for key in (*variables, *SET_BY_RAY)}
    constants = {name: vars(ray_constants)[name] for name in OFF if name in vars(ray_constants)}
    _set(variables)
    for name in constants:
        if variables.get(OFF[name]) == "0":
            setattr(ray_constants, name, False)
    _read_again()
    try:
        yield
    finally:
        _set(before)
        vars(ray_constants).update(constants)
        _read_again()


def _set(variables: Mapping[str, str | None]) -> None:
    for key, value in variables.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value


def _read_again() -> None:
    """Have Ray read again what it caches when first read: its settings and the token."""
    if ray.is_initialized():
        return
    compiled: Any = ray._raylet  # noqa: SLF001 - there is no public way
    compiled.Config.initialize("")
    compiled.AuthenticationTokenLoader.instance().reset_cache()
