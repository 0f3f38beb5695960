"""Caches and physical addresses, as the kernel's files have them."""

import pytest

from rigproof.host import ram
from rigproof.host.ram import cache_mib, give_way, physical_address


def test_caches_are_summed_once_each(tmp_path):
    for cpu, (level, size, shared) in enumerate(
        [(3, "32768K", "0-1"), (3, "32768K", "0-1"), (3, "16384K", "2")]
    ):
        for index, values in enumerate([(1, "32K", str(cpu)), (level, size, shared)]):
            folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            for name, value in zip(("level", "size", "shared_cpu_list"), values, strict=True):
                (folder / name).write_text(f"{value}\n")
    assert cache_mib(tmp_path) == 48.0
    assert cache_mib(tmp_path / "none") == 0.0


@pytest.mark.parametrize(
    ("entry", "found"),
    [((1 << 63) | 5, 5 * 4096 + 24), (1 << 63, None), (5, None)],
    ids=["known to root", "hidden from users", "not present"],
)
def test_a_physical_address_is_known_to_root_alone(tmp_path, entry, found):
    pagemap = tmp_path / "pagemap"
    pagemap.write_bytes(b"\0" * 16 + entry.to_bytes(8, "little"))
    assert physical_address(2 * 4096 + 24, pagemap) == found
    assert physical_address(0, tmp_path / "none") is None


def test_the_kernel_is_asked_to_end_this_process_first(tmp_path, monkeypatch):
    monkeypatch.setattr(ram, "OOM_SCORE", tmp_path / "oom_score_adj")
    give_way()
    assert (tmp_path / "oom_score_adj").read_text() == "1000"
