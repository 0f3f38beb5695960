"""The folder in which a disk is tested: what it is on, what keeps its files in memory, and its room."""

import pytest

from rigproof.stages.disk.scratch import Place, place_of


def mounted(root, *mounts):
    (root / "self").mkdir()
    (root / "self/mounts").write_text("".join(f"{line} 0 0\n" for line in mounts))
    return place_of(str(root / "home"), root)


@pytest.fixture
def folders(tmp_path):
    for name in ("home", "rw/up per"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_the_mount_that_a_folder_is_on_is_the_nearest_and_the_last(tmp_path):
    root = tmp_path / "with blank"
    (root / "home").mkdir(parents=True)
    escaped = str(root).replace(" ", "\\040")
    found = mounted(
        root,
        "/dev/root / ext4 rw",
        f"/dev/old {escaped} xfs rw",
        f"/dev/mapper/a\\040b {escaped} btrfs rw",
        f"tmpfs {escaped}/home-other tmpfs rw",
        "/dev/root / xfs rw",
    )
    assert (found.path, found.filesystem, found.device) == (str(root / "home"), "btrfs", "/dev/mapper/a b")
    assert found.total > 0
    assert place_of(str(root), tmp_path / "none").filesystem == "unknown"


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
    found = mounted(folders, f"overlay {folders} overlay {options}", f"{source} {folders}/rw {kind} rw")
    assert (found.filesystem, found.device, found.memory) == expected


def test_where_a_containers_overlay_is_kept_is_not_seen(folders):
    """The host's path may lead to the container's own tmpfs."""
    found = mounted(
        folders,
        f"overlay {folders} overlay rw,upperdir={folders}/run/none/diff",
        f"tmpfs {folders}/run tmpfs rw",
    )
    assert (found.filesystem, found.memory) == ("overlay", None)


@pytest.mark.parametrize(
    ("device", "expected"), [("/dev/ram0", "/dev/ram0"), ("/dev/zram12", "/dev/zram12"), ("/dev/ramen", None)]
)
def test_a_ram_disk_is_no_disk(device, expected):
    assert Place("/data", "ext4", device).memory == expected


def test_what_is_in_use_is_of_what_users_may_use():
    """As `df` shows it: 5 % are the administrator's."""
    assert Place("/data", total=100, free=15, used=80).used_share == pytest.approx(80 / 95)
    assert Place("/data", total=100, free=0, used=95).used_share == 1.0
    assert Place("/data").used_share == 0.0


def test_a_home_is_looked_up_where_the_disk_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert place_of("~").path == str(tmp_path.resolve())
    with pytest.raises(FileNotFoundError):
        place_of("~nobody-of-this-name/x")
