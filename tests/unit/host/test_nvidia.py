"""What the kernel says of NVIDIA's driver and its cards, from folders as /proc and /sys have them."""

from pathlib import Path

import pytest

from rigproof.host.nvidia import KernelDriver, kernel_driver

GOOD, DEAD, OTHER = "0000:17:00.0", "0000:65:00.0", "0000:ca:00.0"


@pytest.fixture
def look(tmp_path: Path):
    """The look at a machine whose files are in a folder of this test."""
    for name in ("proc", "modules", "devices", "dev"):
        (tmp_path / name).mkdir()

    def found() -> KernelDriver:
        return kernel_driver(*(tmp_path / name for name in ("proc", "modules", "devices", "dev")))

    return found


UNKNOWN = ("Unknown",)


def card(
    root: Path,
    address: str,
    minor: int | None,
    *,
    excluded: bool = False,
    node: bool = True,
    model: str = "Unknown",
) -> None:
    """A card that the driver has taken, as /proc/driver/nvidia/gpus tells of it."""
    folder = root / "proc" / "driver" / "nvidia" / "gpus" / address
    folder.mkdir(parents=True)
    text = f"Model: \t\t {model}\nGPU UUID: \t GPU-????????-????-????-????-????????????\n"
    text += "" if minor is None else f"Device Minor: \t {minor}\n"
    text += f"GPU Excluded:\t {'Yes' if excluded else 'No'}\n"
    (folder / "information").write_text(text)
    (root / "proc" / "driver" / "nvidia" / "version").touch()
    if node and minor is not None:
        (root / "dev" / f"nvidia{minor}").touch()


def bound(
    root: Path, address: str, *, vendor="0x10de", kind="0x030200", driver: str | None = "nvidia"
) -> None:
    """A PCI device, as sysfs tells of it."""
    device = root / "devices" / address
    device.mkdir()
    (device / "vendor").write_text(f"{vendor}\n")
    (device / "class").write_text(f"{kind}\n")
    if driver is not None:
        (root / "drivers" / driver).mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(root / "drivers" / driver)


def test_a_machine_without_the_driver(look, tmp_path):
    assert look() == KernelDriver()
    bound(tmp_path, GOOD, vendor="0x1002", kind="0x030000", driver="amdgpu")  # another vendor's
    bound(tmp_path, DEAD, driver="nouveau")
    bound(tmp_path, OTHER, driver=None)
    assert look() == KernelDriver()


def test_the_models_of_all_cards_are_told_once_each(look, tmp_path):
    for number, (address, model) in enumerate(
        {GOOD: "RTX 3090", DEAD: "RTX 3070", OTHER: "RTX 3090"}.items()
    ):
        card(tmp_path, address, number, model=f"NVIDIA GeForce {model}")
    assert look().models == ("NVIDIA GeForce RTX 3070", "NVIDIA GeForce RTX 3090")


def test_every_card_of_the_driver_is_expected(look, tmp_path):
    card(tmp_path, GOOD, 0)
    card(tmp_path, DEAD, 1)
    bound(tmp_path, GOOD)
    bound(tmp_path, DEAD)
    assert look() == KernelDriver(True, (GOOD, DEAD), (GOOD, DEAD), models=UNKNOWN)


def test_a_container_is_told_of_cards_that_it_was_not_given(look, tmp_path):
    card(tmp_path, GOOD, 0)
    card(tmp_path, DEAD, 1, node=False)
    card(tmp_path, OTHER, None)
    assert look() == KernelDriver(True, (GOOD, DEAD, OTHER), (GOOD,), models=UNKNOWN)


def test_a_card_that_its_administrator_excluded_is_none(look, tmp_path):
    card(tmp_path, DEAD, 1, excluded=True)
    bound(tmp_path, DEAD)
    assert look() == KernelDriver(True, (), ())


def test_sysfs_alone_names_cards_but_cannot_say_whose_they_are(look, tmp_path):
    (tmp_path / "modules" / "nvidia").mkdir()
    bound(tmp_path, DEAD)
    bound(tmp_path, GOOD, kind="0x030000")
    bound(tmp_path, "0000:17:00.1", kind="0x040300")  # the card's sound
    assert look() == KernelDriver(True, (GOOD, DEAD), ())


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n"
            "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
            "535.183.01",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@pc)\n",
            "580.95.05",
        ),
        ("NVRM version: unknown\n", None),
    ],
)
def test_the_drivers_version_and_the_uuids_that_cards_have_told(look, tmp_path, text, version):
    card(tmp_path, GOOD, 0)
    card(tmp_path, OTHER, 1)
    proc = tmp_path / "proc" / "driver" / "nvidia"
    (proc / "version").write_text(text)
    uuid = "GPU-659e59c4-1eec-421e-e0ec-b32501f67576"
    (proc / "gpus" / OTHER / "information").write_text(f"Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\n")
    found = look()
    assert (found.version, found.uuids) == (version, ((OTHER, uuid),))
