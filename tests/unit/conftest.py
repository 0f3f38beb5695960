"""How hypothesis runs here, and a healthy rig's recording, to be broken."""

import ctypes
import os
import socket
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from support import alone  # noqa: F401 - sets the environment
from support.bench import Bench
from support.bytecode import pytest_sessionstart
from support.forked_children import ForkedPopen, forked_children, torch_server
from support.garbage import own_garbage_of_module, pytest_collection, pytest_unconfigure
from support.reruns import pytest_configure

__all__ = [
    "own_garbage_of_module",
    "pytest_collection",
    "pytest_configure",
    "pytest_sessionstart",
    "pytest_unconfigure",
]

settings.register_profile("any-host", deadline=None)  # a busy host must not decide about a test
# For bench/mutants.py: that a test fails is enough; the smallest example that does takes minutes to find.
settings.register_profile(
    "first-failure", deadline=None, database=None, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("any-host")


@pytest.fixture
def bench() -> Bench:
    """A healthy rig's Recording, to be broken."""
    return Bench()


@pytest.fixture(scope="session")
def new_bench() -> Callable[..., Bench]:
    """Makes benches; its argument replaces top-level keys of the profile."""
    return Bench


@pytest.fixture
def unwritable(tmp_path: Path) -> Iterator[Path]:
    """A folder into which nobody may write: root, who has a capability to do so, gives it up meanwhile."""
    tmp_path.chmod(0o500)
    libc = ctypes.CDLL(None)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the structure; this thread
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then the capabilities from 32 on
    assert libc.capget(header, sets) == 0
    effective = sets[0]
    sets[0] &= ~(1 << 1)  # CAP_DAC_OVERRIDE
    assert libc.capset(header, sets) == 0
    yield tmp_path
    sets[0] = effective
    assert libc.capset(header, sets) == 0


@pytest.fixture(scope="session")
def forks_with_torch() -> Iterator[socket.socket]:
    """A server of forks that have loaded torch."""
    with torch_server() as server:
        yield server


@pytest.fixture
def children(forks_with_torch: socket.socket) -> Iterator[list[ForkedPopen]]:
    """The child processes of this test, which are such forks."""
    with forked_children(forks_with_torch) as started:
        yield started


@pytest.fixture
def child_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Makes a module of this code, which a child process finds; returns its name."""
    folder = tmp_path / "modules"
    folder.mkdir()
    path = (str(folder), os.environ.get("PYTHONPATH"))  # an empty part would be the current folder
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))

    def write(code: str) -> str:
        name = f"child_{len(list(folder.glob('child_*.py')))}"
        begin = "import os, sys\nfrom rigproof.host.parent import Orders, die_with_parent, tell\n"
        (folder / f"{name}.py").write_text(begin + textwrap.dedent(code))
        return name

    return write
