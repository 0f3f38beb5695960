"""Python's search for reference cycles, where it costs more than it frees."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Pause garbage collection.

    Imports of large libraries make many objects that stay; records and verdicts have no cycles. The search
    among them would take up to a third of such work.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
