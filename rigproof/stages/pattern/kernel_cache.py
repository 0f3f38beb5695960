"""Where Triton keeps its compiled kernels meanwhile: a folder of our own, removed at the end."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "TRITON_CACHE_DIR"
PREFIX = "rigproof-triton-"
LOCK = "lock"


@contextlib.contextmanager
def own_kernel_cache() -> Iterator[None]:
    """Have Triton write to a temporary folder, unless the user has chosen one.

    Folders that killed processes left are removed first: their lock is free.
    """
    if VARIABLE in os.environ:
        yield
        return
    remove_left()
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder,
        Path(folder, "new").open("w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        Path(folder, "new").rename(Path(folder, LOCK))  # so that nobody finds it unlocked
        os.environ[VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[VARIABLE]


def remove_left() -> None:
    """Remove the folders of processes that are gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # An OSError: it is in use, of another user, or somebody else removes it.
        with contextlib.suppress(OSError), Path(folder, LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
