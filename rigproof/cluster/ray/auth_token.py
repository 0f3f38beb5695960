"""Where this user's token for Ray clusters is, as Ray looks for it, and whether other users can read it.

Imports no Ray: its C++ reader ends the process if Ray is set to use a token and finds none.
"""

import errno
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rigproof.cluster.ray.preconditions import ClusterUnreachable

MODE, VALUE, PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
DEFAULT_FILE = Path(".ray") / "auth_token"  # under the home folder, where `ray get-auth-token` puts it
OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """The place of the token: a variable that holds it, or a file."""

    file: Path | None = None  # None: in the environment


def token_place(environ: Mapping[str, str]) -> TokenPlace | None:
    """The place of the token that Ray would use; None where there is none."""
    if environ.get(VALUE):
        return TokenPlace()
    try:
        file = token_file(environ)
        return TokenPlace(file) if file.stat().st_size > 0 else None
    except OSError:
        return None


def token_file(environ: Mapping[str, str]) -> Path:
    """The file that Ray would read. Raises OSError if that is in a home, and there is none."""
    if environ.get(PATH):
        return Path(environ[PATH])
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
        return {MODE: "disabled"}
    if MODE not in environ and token_place(environ) is not None:
        return {MODE: "token"}
    return {}


def token_used(environ: Mapping[str, str]) -> TokenPlace | None:
    """The token to send to a cluster with token authentication; None if Ray is set to send none."""
    mode = environ.get(MODE, "token")
    return token_place(environ) if mode == "token" else None


def tokenless(environ: Mapping[str, str]) -> bool:
    """Whether Ray is set to use a token and has none: it would end its process."""
    return environ.get(MODE) == "token" and token_place(environ) is None
