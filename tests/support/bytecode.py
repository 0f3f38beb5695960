"""Code is compiled once, also where several processes run the tests of a fresh clone.

All of them import the same modules at the same time: each would compile all of it, and rewrite the assertions
of every file of tests, for seconds.
"""

import contextlib
import py_compile
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from rigproof.host.package import PACKAGE


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile a share of what has not been compiled yet, if this is one of pytest-xdist's processes."""
    config = session.config
    worker = getattr(config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    tests = [path for argument in config.args for path in Path(argument).resolve().rglob("test_*.py")]
    place, places = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    with contextlib.suppress(OSError, SyntaxError, py_compile.PyCompileError):  # the import will say so
        for path in sorted(PACKAGE.rglob("*.py"))[place::places]:
            if not Path(cache_from_source(path)).exists():
                py_compile.compile(str(path), doraise=True)
        for path in sorted(tests)[place::places]:
            _rewrite(path, config)


def _rewrite(path: Path, config: pytest.Config) -> None:
    """As pytest does it when it imports the file, which it has no function for."""
    folder = rewrite.get_cache_dir(path)
    written = folder / (path.stem + rewrite.PYC_TAIL)
    if not written.exists() and rewrite.try_makedirs(folder):
        source, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, written)
