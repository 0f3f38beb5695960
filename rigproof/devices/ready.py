"""A process that has loaded torch, and what stages' modules load, and waits for the module to be.

`python -m rigproof.devices.ready`.

Its one order has the `module` to run, its `arguments`, and an `environment`, which libraries read when the
module first uses them: this process touches no device.
"""

import json
import os
import runpy
import sys

from rigproof.host.garbage import without_collections
from rigproof.host.parent import die_with_parent


def main() -> int:
    """Load torch, then be the module. Ends at once if no order comes any more."""
    die_with_parent()
    with without_collections(lasting=True):
        import torch.distributed  # noqa: F401, PLC0415 - what takes seconds

        import rigproof.devices.process_group  # noqa: PLC0415 - a fifth of a second
        import rigproof.profiles.kinds.stages  # noqa: F401, PLC0415
    line = b""
    while not line.endswith(b"\n"):  # byte by byte: the rest of stdin is the module's
        byte = os.read(0, 1)
        if not byte:
            return 0
        line += byte
    order = json.loads(line)
    os.environ.update(order["environment"])
    sys.argv = [order["module"], *order["arguments"]]
    runpy.run_module(order["module"], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
