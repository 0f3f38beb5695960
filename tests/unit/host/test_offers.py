"""What a host offers besides its GPUs, read from made-up files."""

import importlib.util
from types import SimpleNamespace

import pytest

from rigproof.host.offers import offers, torch_cuda


def test_what_cannot_be_read_is_none(tmp_path):
    found = offers(tmp_path, tmp_path / "shm", tmp_path / "module")
    assert (found.host_ram_gib, found.shm_gib, found.nouveau) == (None, None, None)
    assert found.host_cpus >= 1


def test_ram_shared_memory_and_modules_are_read(tmp_path):
    lines = "MemTotal: 67108864 kB\nMemAvailable: 1 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
    (tmp_path / "meminfo").write_text(lines)
    (tmp_path / "module").mkdir()
    found = offers(tmp_path, tmp_path, tmp_path / "module")
    assert (found.host_ram_gib, found.nouveau) == (64.0, False)
    assert found.shm_gib > 0
    (tmp_path / "module" / "nouveau").mkdir()
    assert offers(tmp_path, tmp_path, tmp_path / "module").nouveau is True


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("cuda: Optional[str] = '13.0'", "13.0"),
        ("cuda = '12.8'", "12.8"),
        ("cuda: str | None = None", None),
        ("debug = False", None),
    ],
)
def test_the_cuda_of_torch_is_read_from_its_version_file(tmp_path, monkeypatch, line, read):
    (tmp_path / "version.py").write_text(f"__version__ = '2.11.0'\n{line}\nhip = None\n")
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert torch_cuda() == read


@pytest.mark.parametrize(
    "spec", [None, SimpleNamespace(origin=None), SimpleNamespace(origin="/nowhere/x.py")]
)
def test_no_torch_has_no_cuda(monkeypatch, spec):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert torch_cuda() is None


def test_a_folder_s_size_is_told_in_gib(tmp_path, monkeypatch):
    monkeypatch.setattr("os.statvfs", lambda folder: SimpleNamespace(f_blocks=2**20, f_frsize=4096))
    assert offers(tmp_path, tmp_path / "shm", tmp_path / "module").shm_gib == 4.0
