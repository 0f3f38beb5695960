"""Whether the Ray that is installed may be started or joined with at all. Imports no Ray."""

import re
from importlib.metadata import PackageNotFoundError, version

OLDEST_RAY = (2, 52)  # the first with token authentication; CVE-2025-62593 is fixed in it
RELEASE = re.compile(r"(\d+)\.(\d+)")


def check_ray_version(kind: type[Exception]) -> None:
    """Return where the installed Ray can keep strangers out; else raise `kind` with the way out."""
    way_out = f"install ray>={'.'.join(map(str, OLDEST_RAY))} on every node"
    try:
        installed = version("ray")
    except PackageNotFoundError:
        raise kind(f"Ray is not installed here; {way_out}") from None
    found = RELEASE.match(installed)
    if found is None:
        raise kind(f"Ray {installed}: nothing is known about such a version; {way_out}")
    if (int(found[1]), int(found[2])) < OLDEST_RAY:
        raise kind(
            f"Ray {installed} knows no token and lets everybody who reaches it run code (CVE-2023-48022, "
            f"CVE-2025-62593); {way_out}"
        )
