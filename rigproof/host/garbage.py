"""Python's search for reference cycles, where it costs more than it frees."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collections(*, lasting: bool = False) -> Iterator[None]:
    """Pause Python's search for reference cycles.

    Records and verdicts have no cycles, and imports of large libraries make many objects that stay: the
    search among them would take up to a third of such work. `lasting`: what is there by the end is not
    searched later either.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if lasting:
            gc.freeze()
        if enabled:
            gc.enable()
