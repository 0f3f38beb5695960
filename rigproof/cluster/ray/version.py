"""Whether the installed Ray version is safe to start or to join with. Imports no Ray."""

import re
from importlib.metadata import PackageNotFoundError, version

OLDEST_RAY = (2, 52)  # the first with token authentication; CVE-2025-62593 is fixed in it
# The versions that the whole suite ran with. Another one is started by its own means (`bare_head`).
TESTED_RAY = ((2, 60),)
RELEASE = re.compile(r"(\d+)\.(\d+)")


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
