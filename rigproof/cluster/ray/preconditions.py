"""What has to hold before Ray is started or joined: its version, an address, a token; and the errors of that.

Each message ends with the remedy. Nothing here imports Ray, whose C++ reader of the token ends the process if
Ray is set to use one and finds none.
"""

import errno
import re
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rigproof.host.addresses import host_and_port

OLDEST_RAY = (2, 52)  # the first with token authentication; CVE-2025-62593 is fixed in it
# The versions that the whole suite ran with. Another one is started by its own means (`bare_head`).
TESTED_RAY = ((2, 60),)
RELEASE = re.compile(r"(\d+)\.(\d+)")
AUTO = "auto"  # Ray's name for the cluster started on this machine
CONNECT_S = 3.0
AUTH_MODE, AUTH_TOKEN, AUTH_TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
DEFAULT_FILE = Path(".ray") / "auth_token"  # under the home folder, where `ray get-auth-token` puts it
OTHERS = stat.S_IRWXG | stat.S_IRWXO


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


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """The place of the token: a variable that holds it, or a file."""

    file: Path | None = None  # None: in the environment


def token_place(environ: Mapping[str, str]) -> TokenPlace | None:
    """The place of the token that Ray would use; None where there is none."""
    if environ.get(AUTH_TOKEN):
        return TokenPlace()
    try:
        file = token_file(environ)
        return TokenPlace(file) if file.stat().st_size > 0 else None
    except OSError:
        return None


def token_file(environ: Mapping[str, str]) -> Path:
    """The file that Ray would read. Raises OSError if that is in a home, and there is none."""
    if environ.get(AUTH_TOKEN_PATH):
        return Path(environ[AUTH_TOKEN_PATH])
    try:
        return Path(environ.get("HOME") or Path.home()) / DEFAULT_FILE
    except RuntimeError as error:
        raise FileNotFoundError(errno.ENOENT, "this user has no home", f"~/{DEFAULT_FILE}") from error


def check_private(place: TokenPlace | None) -> None:
    """Refuse a token file that others can read or change, and so have the token as well.

    Raises:
        ClusterUnreachable: with the remedy; chmod alone is not enough, since others may know the token.
    """
    if place is None or place.file is None:
        return
    mode = stat.S_IMODE(place.file.stat().st_mode)
    if mode & OTHERS:
        raise ClusterUnreachable(
            f"{place.file}: mode {mode:04o} lets other users of this machine read the cluster's token "
            f"and run code there with it; chmod 600 {place.file}, and make a new token unless you trust them"
        )


def joining_mode(environ: Mapping[str, str], *, open_cluster: bool) -> dict[str, str]:
    """The environment variables to join with. A cluster without token authentication gets no token.

    If the driver had one, it would refuse the head's calls, which carry none, and Ray would cancel every
    actor.
    """
    if open_cluster:
        return {AUTH_MODE: "disabled"}
    if AUTH_MODE not in environ and token_place(environ) is not None:
        return {AUTH_MODE: "token"}
    return {}


def token_used(environ: Mapping[str, str]) -> TokenPlace | None:
    """The token to send to a cluster with token authentication; None if Ray is set to send none."""
    mode = environ.get(AUTH_MODE, "token")
    return token_place(environ) if mode == "token" else None


def tokenless(environ: Mapping[str, str]) -> bool:
    """Whether Ray is set to use a token and has none: it would end its process."""
    return environ.get(AUTH_MODE) == "token" and token_place(environ) is None
