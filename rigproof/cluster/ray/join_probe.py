"""Whether a cluster can be joined, and which nodes it has, by `python -m …ray.join_probe ADDRESS MODE`.

`ray.init` blocks for long, or ends its process, if the other side is no compatible Ray: this happens to the
child and not to pytest. It first tries without a token, so that a cluster without token authentication never
sees it. Listing the nodes needs no Ray running on this machine, unlike joining.
"""

import os
import sys

from rigproof.cluster.ray.preconditions import (
    AUTO,
    ClusterUnreachable,
    check_listening,
    check_private,
    check_ray_version,
    joining_mode,
    token_used,
    tokenless,
)
from rigproof.host.addresses import one_spelling
from rigproof.host.child import ask
from rigproof.host.parent import die_with_parent, tell
from rigproof.records.message_text import what_it_says

MODULE = "rigproof.cluster.ray.join_probe"
ALLOWED, REFUSED, NAMES = "open-allowed", "open-refused", "names"
OPEN_CLUSTER = "OpenCluster"
UNAUTHENTICATED = "AuthenticationError"
READABLE = "ReadableByOthers"


def check_joinable(address: str, limit_s: float, *, allow_open: bool = False) -> bool:
    """Return if `address` can be joined from here within `limit_s`: whether it has no token authentication.

    Raises:
        ClusterUnreachable: with the reason and the remedy; also for a cluster without token authentication,
            unless `allow_open`.
    """
    check_ray_version(ClusterUnreachable)
    check_listening(address)
    answer = ask(MODULE, address, ALLOWED if allow_open else REFUSED, limit_s=limit_s)
    if answer.status is None:
        raise ClusterUnreachable(_sentence(address, "timeout", f"no answer within {limit_s:g} s"))
    if answer.message is None:
        raise ClusterUnreachable(_sentence(address, "ended", f"joining ended with status {answer.status}"))
    if answer.message["error"]:
        raise ClusterUnreachable(_sentence(address, answer.message["error"], answer.message["message"]))
    return bool(answer.message["open"])


def node_names(address: str, limit_s: float) -> frozenset[str]:
    """The names and addresses of the living nodes; empty where the head does not answer within `limit_s`."""
    answer = ask(MODULE, address, NAMES, limit_s=limit_s)
    return frozenset() if answer.message is None else frozenset(answer.message["names"])


def _sentence(address: str, kind: str, message: str) -> str:
    if kind == READABLE:
        return message  # its message already has the remedy
    ways_out = {
        UNAUTHENTICATED: "give this shell the cluster's token: RAY_AUTH_MODE=token, RAY_AUTH_TOKEN=…, "
        "or the same ~/.ray/auth_token as on the head",
        OPEN_CLUSTER: "start it again with a token, on every node: `ray get-auth-token --generate` on the "
        "head, the same ~/.ray/auth_token everywhere, RAY_AUTH_MODE=token before `ray start` "
        "(docs/cluster.md); or accept it as it is with --hw-allow-open-cluster",
        "VersionError": "install the same Python and ray on every node",
    }
    way_out = ways_out.get(
        kind,
        "type this on a machine of the cluster, or `ray start` on this one too; give the address of a Ray "
        "head, and keep its token in ~/.ray/auth_token here",
    )
    return f"--hw-ray-address {address}: {message.rstrip('.')}; {way_out}"


def main(address: str, mode: str) -> None:
    """Print the result as one line of JSON, and leave without waiting for anything."""
    if mode == NAMES:
        tell(names=_names(address))
    else:
        _tell_joinable(address, mode)
    os._exit(0)  # the connection ends with the process; Ray's own way of leaving can hang


def _names(address: str) -> list[str]:
    import ray  # noqa: PLC0415 - not needed where the driver only asks
    from ray.core.generated.gcs_pb2 import GcsNodeInfo  # noqa: PLC0415

    from rigproof.cluster.ray.environment import joining_environment, settings  # noqa: PLC0415 - imports ray

    with settings(joining_environment(address, open_cluster=False)):
        nodes = ray._raylet.GcsClient(address=address).get_all_node_info()  # noqa: SLF001 - no public way
    alive = [node for node in nodes.values() if node.state == GcsNodeInfo.GcsNodeState.ALIVE]
    return [name for node in alive for name in (node.node_name, one_spelling(node.node_manager_address))]


def _tell_joinable(address: str, open_clusters: str) -> None:
    """Join, and tell whether that worked, and whether the cluster is open."""
    kind = message = ""
    is_open = False
    try:
        is_open = _asks_nobody(address)
        if is_open and open_clusters != ALLOWED:
            kind, message = (
                OPEN_CLUSTER,
                "it has no token authentication: anyone who can reach it can run code there",
            )
        elif not is_open and tokenless({**os.environ, **joining_mode(os.environ, open_cluster=False)}):
            kind, message = UNAUTHENTICATED, "it requires a token, and there is none here"
        else:
            if not is_open:
                check_private(token_used(os.environ))
            _join(address, is_open)
    except ClusterUnreachable as error:
        kind, message = READABLE, str(error)
    except BaseException as error:  # Ray raises SystemExit too
        kind, message = _kind(error), what_it_says(error)
    tell(error=kind, message=message, open=is_open)


def _asks_nobody(address: str) -> bool:
    """Whether the head answers a client without a token."""
    import ray  # noqa: PLC0415 - not needed where the driver only asks
    from ray._private import services  # noqa: PLC0415

    from rigproof.cluster.ray.environment import joining_environment, settings  # noqa: PLC0415 - imports ray

    head = services.canonicalize_bootstrap_address(address) if address == AUTO else address
    with settings(joining_environment(address, open_cluster=True)):
        try:
            ray._raylet.GcsClient(address=head)  # noqa: SLF001 - there is no public way
        except Exception as error:
            if _kind(error) != UNAUTHENTICATED:
                raise
            return False
    return True


def _join(address: str, is_open: bool) -> None:
    import ray  # noqa: PLC0415

    from rigproof.cluster.ray.environment import joining_environment, settings  # noqa: PLC0415

    with settings(joining_environment(address, open_cluster=is_open)):
        if address != AUTO:
            # Refuses a wrong token at once; ray.init tries the same for 20 s and then hides the reason.
            ray._raylet.GcsClient(address=address)  # noqa: SLF001 - there is no public way
        ray.init(address=address, log_to_driver=False, configure_logging=False)


def _kind(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if "Authentication" in type(cause).__name__ or "Unauthenticated" in str(cause):
            return UNAUTHENTICATED
        cause = cause.__cause__ or cause.__context__
    return "VersionError" if "Version mismatch" in str(error) else type(error).__name__


if __name__ == "__main__":
    die_with_parent()
    main(sys.argv[1], sys.argv[2])
