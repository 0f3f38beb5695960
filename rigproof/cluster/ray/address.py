"""Whether a cluster's address is valid, and whether anything listens there. Imports no Ray."""

import socket

from rigproof.cluster.ray.errors import ClusterUnreachable
from rigproof.host.addresses import host_and_port

AUTO = "auto"  # Ray's name for the cluster started on this machine
CONNECT_S = 3.0


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
