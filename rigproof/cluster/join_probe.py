"""Whether a cluster can be joined, tried in a child process: `python -m rigproof.cluster.join_probe ADDRESS`.

`ray.init` blocks long, and ends its process, where it meets something that is no Ray of ours: the child takes
that in place of pytest.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from rigproof.cluster.address import AUTO, check_listening
from rigproof.cluster.errors import ClusterUnreachable

MODULE = "rigproof.cluster.join_probe"
BOOT = f"import sys, runpy; sys.path.append(sys.argv[2]); runpy.run_module({MODULE!r}, run_name='__main__')"


def check_joinable(address: str, limit_s: float) -> None:
    """Return where `address` can be joined from here within `limit_s`.

    Raises:
        ClusterUnreachable: with the reason and the way out.
    """
    check_listening(address)
    command = [sys.executable, "-P", "-c", BOOT, address, str(Path(__file__).resolve().parents[2])]
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        printed, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise ClusterUnreachable(_sentence(address, "timeout", f"no answer within {limit_s:g} s")) from None
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate()
    answer = _answer(printed)
    if answer is None:
        raise ClusterUnreachable(_sentence(address, "ended", f"joining ended with status {child.returncode}"))
    if answer["error"]:
        raise ClusterUnreachable(_sentence(address, answer["error"], answer["message"]))


def _answer(printed: str) -> dict[str, str] | None:
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    try:
        answer: dict[str, str] = json.loads(lines[-1])
    except (IndexError, ValueError):
        return None
    return answer


def _sentence(address: str, kind: str, message: str) -> str:
    ways_out = {
        "AuthenticationError": "give this shell the cluster's token: RAY_AUTH_MODE=token, RAY_AUTH_TOKEN=…, "
        "or the same ~/.ray/auth_token as on the head",
        "VersionError": "install the same Python and ray on every node",
    }
    way_out = ways_out.get(
        kind,
        "is it a Ray head, is its token known here, and was `ray start` run on this machine too? "
        "rigproof joins from one of the cluster's nodes",
    )
    return f"--ray-address {address}: {message.rstrip('.')}; {way_out}"


def main(address: str) -> None:
    """Join, say in one line of JSON how that went, and leave without waiting for anything."""
    import ray  # noqa: PLC0415 - not needed where the driver only asks

    from rigproof.cluster.environment import joining_environment, settings  # noqa: PLC0415 - imports ray

    kind = message = ""
    try:
        with settings(joining_environment(address)):
            if address != AUTO:
                # Refuses a wrong token at once; ray.init tries the same for 20 s and then hides the reason.
                ray._raylet.GcsClient(address=address)  # noqa: SLF001 - there is no public way
            ray.init(address=address, log_to_driver=False, configure_logging=False)
    except BaseException as error:  # Ray raises SystemExit too
        kind, message = _kind(error), (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
    sys.stdout.write(json.dumps({"error": kind, "message": message}) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the connection ends with the process; Ray's own way of leaving can hang


def _kind(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if "Authentication" in type(cause).__name__ or "Unauthenticated" in str(cause):
            return "AuthenticationError"
        cause = cause.__cause__ or cause.__context__
    return "VersionError" if "Version mismatch" in str(error) else type(error).__name__


if __name__ == "__main__":
    main(sys.argv[1])
