"""Free ports of this host."""

import socket
from contextlib import ExitStack


def free_ports(address: str, count: int) -> tuple[int, ...]:
    """`count` different ports that are free now at `address`. OSError if the address is not this host's."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with ExitStack() as held:
        sockets = [
            held.enter_context(socket.create_server((address, 0), family=family)) for _ in range(count)
        ]
        return tuple(one.getsockname()[1] for one in sockets)
