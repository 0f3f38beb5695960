"""What has to hold before Ray is started or joined, checked without importing Ray, and the errors of that.

Each message ends with the remedy.
"""

import re
import socket
from importlib.metadata import PackageNotFoundError, version

from rigproof.host.addresses import host_and_port

OLDEST_RAY = (2, 52)  # the first with token authentication; CVE-2025-62593 is fixed in it
# The versions that the whole suite ran with. Another one is started by its own means (`bare_head`).
TESTED_RAY = ((2, 60),)
RELEASE = re.compile(r"(\d+)\.(\d+)")
AUTO = "auto"  # Ray's name for the cluster started on this machine
CONNECT_S = 3.0


class ClusterError(Exception):
    """The cluster did not start; nothing was loaded."""


class ClusterUnreachable(ClusterError):  # noqa: N818 - named for the condition
    """The cluster of `--hw-ray-address` cannot be joined."""


class ClusterStartFailed(ClusterError):  # noqa: N818 - named for the condition
    """The local Ray did not start."""


def check_ray_version(kind: type[Exception]) -> None:
    """Return if the installed Ray supports token authentication; else raise `kind` with the remedy."""
    way_out = f"install ray>={'.'.join(map(str, OLDEST_RAY))} on every node"
    try:
        installed = version("ray")
    except PackageNotFoundError:
        raise kind(f"Ray is not installed here; {way_out}") from None
    found = RELEASE.match(installed)
    if found is None:
        raise kind(f"Ray {installed}: not a known release version; {way_out}")
    if (int(found[1]), int(found[2])) < OLDEST_RAY:
        raise kind(
            f"Ray {installed} has no token authentication and lets anyone who can reach it run code "
            f"(CVE-2023-48022, CVE-2025-62593); {way_out}"
        )


def is_tested() -> bool:
    """Whether the installed Ray is one of TESTED_RAY; it is a release that `check_ray_version` accepted."""
    found = RELEASE.match(version("ray"))
    return found is not None and (int(found[1]), int(found[2])) in TESTED_RAY


def check_listening(address: str) -> None:
    """Return if something listens at `address` ("HOST:PORT" of the head, or "auto").

    Raises:
        ClusterUnreachable: with the reason and the way out, before Ray would wait for it.
    """
    if address == AUTO:
        return
    place = host_and_port(address)
    if place is None or "/" in address:
        raise ClusterUnreachable(
            f"--hw-ray-address {address}: not an address; write HOST:PORT as `ray start --head` printed it, "
            "such as 192.168.1.10:6379 or [fd00::1]:6379 (ray:// is Ray's client port and does not work here)"
        )
    try:
        socket.create_connection(place, CONNECT_S).close()
    except OSError as error:
        raise ClusterUnreachable(
            f"--hw-ray-address {address}: no answer from there ({error}); start the cluster with "
            "`rigproof cluster up RIG`, or leave the option out to use this machine alone"
        ) from error
