"""Environment variables and Ray settings of one session, restored when it ends."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray
from ray._private import ray_constants

from rigproof.cluster.ray.auth_token import joining_mode
from rigproof.host.package import ROOT

PACKAGE_ROOT = str(ROOT)

SET_BY_RAY = ("PYTHONBREAKPOINT",)
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
CONNECT_S = 1.0

# Without this Ray ends the driver 60 s after the head has gone, and the report is lost.
KEEP_DRIVER = {"RAY_gcs_rpc_server_reconnect_timeout_s": str(7 * 86400)}
HEALTH_CHECKS = 5  # checks in a row that a node has to miss, as in Ray
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_DOCKER_CPU_WARNING": "1"}


def local_environment(token: str, stall_s: float) -> dict[str, str]:
    """What a Ray of our own gets: a token, loopback, no statistics, and rigproof on its workers' path.

    Its head declares a node dead after about `stall_s` without an answer; Ray's defaults take 55 s.
    """
    path = os.environ.get("PYTHONPATH")
    check_ms = 1000 * stall_s / HEALTH_CHECKS
    return {
        "RAY_health_check_failure_threshold": str(HEALTH_CHECKS),
        "RAY_health_check_timeout_ms": str(round(0.6 * check_ms)),
        "RAY_health_check_period_ms": str(round(0.4 * check_ms)),
        **KEEP_DRIVER,
        **QUIET,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": token,
        # Ray replaces 127.0.0.1 by a reachable address unless this setting turns clusters off.
        ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0",
        "PYTHONPATH": PACKAGE_ROOT if not path else os.pathsep.join([path, PACKAGE_ROOT]),
    }


def joining_environment(address: str, *, open_cluster: bool) -> dict[str, str]:
    """What joining a cluster needs.

    Token authentication is turned on, unless the cluster is open, there is no token, or RAY_AUTH_MODE is set.
    """
    mode = joining_mode(os.environ, open_cluster=open_cluster)
    loopback = {ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0"} if _loopback_only(address) else {}
    return {**KEEP_DRIVER, **QUIET, **mode, **loopback}


def _loopback_only(address: str) -> bool:
    """Whether a 127.0.0.1 address is intended: otherwise Ray replaces it by this host's outer address."""
    host, _, port = address.rpartition(":")
    if host not in LOOPBACK:
        return False
    try:
        socket.create_connection((ray.util.get_node_ip_address(), int(port)), CONNECT_S).close()
    except OSError:
        return True
    return False


@contextmanager
def settings(variables: Mapping[str, str]) -> Iterator[None]:
    """Set `variables`, let Ray read them again, and undo both at the end."""
    before = {key: os.environ.get(key) for key in (*variables, *SET_BY_RAY)}
    clusters = ray_constants.ENABLE_RAY_CLUSTER
    os.environ.update(variables)
    if variables.get(ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR) == "0":
        ray_constants.ENABLE_RAY_CLUSTER = False
    _read_again()
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        _read_again()


def _read_again() -> None:
    """Ray caches its settings and the token when they are first read."""
    if ray.is_initialized():
        return
    compiled: Any = ray._raylet  # noqa: SLF001 - there is no public way
    compiled.Config.initialize("")
    compiled.AuthenticationTokenLoader.instance().reset_cache()
