"""Disks that are none: overlays and block devices that keep what is written to them in RAM."""

import pytest

from rigproof.stages.disk.place import Place, place_of


def mounted(tmp_path, *mounts):
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_text("".join(f"{line}\n" for line in mounts))
    return place_of(str(tmp_path / "home"), tmp_path)


@pytest.fixture
def folders(tmp_path):
    for name in ("home", "rw/up per"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("tmpfs", "cowspace", ("overlay on tmpfs", "cowspace", "overlay on tmpfs")),
        ("ext4", "/dev/zram0", ("overlay on ext4", "/dev/zram0", "/dev/zram0")),
        ("ext4", "/dev/sda1", ("overlay", "overlay", None)),
        ("overlay", "overlay", ("overlay", "overlay", None)),
    ],
)
def test_an_overlay_is_where_its_upper_folder_is(folders, kind, source, expected):
    """As on live systems and nodes without a disk."""
    options = f"rw,lowerdir=/ro,upperdir={folders}/rw/up\\040per,workdir={folders}/rw/work"
    found = mounted(
        folders,
        f"1 0 0:9 / {folders} rw - overlay overlay {options}",
        f"2 1 0:8 / {folders}/rw rw - {kind} {source} rw",
    )
    assert (found.filesystem, found.device, found.memory) == expected


def test_where_a_containers_overlay_is_kept_is_not_seen(folders):
    """The host's path may lead to the container's own tmpfs."""
    found = mounted(
        folders,
        f"1 0 0:9 / {folders} rw - overlay overlay rw,upperdir={folders}/run/none/diff",
        f"2 1 0:8 / {folders}/run rw - tmpfs tmpfs rw",
    )
    assert (found.filesystem, found.memory) == ("overlay", None)


@pytest.mark.parametrize(
    ("device", "expected"), [("/dev/ram0", "/dev/ram0"), ("/dev/zram12", "/dev/zram12"), ("/dev/ramen", None)]
)
def test_a_ram_disk_is_no_disk(device, expected):
    assert Place("/data", "ext4", device, 0, 0, 0).memory == expected
