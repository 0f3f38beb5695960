"""What the kernel says of NVIDIA's driver and the cards that it drives, whether or not NVML lists them."""

import re
from dataclasses import dataclass
from pathlib import Path

from rigproof.host.offers import MODULES
from rigproof.host.pcie_errors import SYSFS
from rigproof.host.proc import PROC

DEV = Path("/dev")
DRIVER = "nvidia"
VENDOR = "0x10de"
DISPLAY = ("0x0300", "0x0302")  # PCI classes: VGA and 3D controllers
VERSION = re.compile(r"^NVRM version:.*?\s(\d{3,}(?:\.\d+)+)\s", re.MULTILINE)
UUID = re.compile(
    r"^GPU UUID:\s*(GPU-[0-9a-f-]{36})\s*$", re.MULTILINE
)  # question marks before its first use
MODEL = re.compile(r"^Model:\s*(.+?)\s*$", re.MULTILINE)
MINOR = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)
EXCLUDED = re.compile(r"^GPU Excluded:\s*Yes", re.MULTILINE)  # by its administrator: NVreg_ExcludedGpus


@dataclass(frozen=True, slots=True)
class KernelDriver:
    """NVIDIA's driver in the kernel. Cards are PCI addresses as in sysfs, `0000:65:00.0`, sorted.

    `expected`: those that this process, in its container, was given too (their /dev/nvidiaN is there), so
    that NVML should list them. `uuids` are as NVML has them, of the cards that have told theirs. `models`:
    how all driven cards are called, each name once.
    """

    loaded: bool = False
    cards: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    version: str | None = None
    uuids: tuple[tuple[str, str], ...] = ()  # card and UUID
    models: tuple[str, ...] = ()


def kernel_driver(
    proc_root: Path = PROC, modules: Path = MODULES, devices: Path = SYSFS, dev: Path = DEV
) -> KernelDriver:
    """Look for the driver in the kernel. A container that was given no GPU may see its host's driver."""
    loaded = (proc_root / "driver" / DRIVER / "version").exists() or (modules / DRIVER).is_dir()
    told = {folder.name.lower(): _told(folder) for folder in _entries(proc_root / "driver" / DRIVER / "gpus")}
    driven = {address: text for address, text in told.items() if not EXCLUDED.search(text)}
    bound = {device.name for device in _entries(devices) if device.name not in told and _is_bound(device)}
    expected = (
        address
        for address, text in driven.items()
        if (minor := MINOR.search(text)) is not None and (dev / f"{DRIVER}{minor[1]}").exists()
    )
    return KernelDriver(
        loaded,
        tuple(sorted({*driven, *bound})),
        tuple(sorted(expected)),
        _version(proc_root),
        tuple(
            (address, found[1]) for address, text in sorted(driven.items()) if (found := UUID.search(text))
        ),
        tuple(sorted({found[1] for text in driven.values() if (found := MODEL.search(text))})),
    )


def _version(proc_root: Path) -> str | None:
    try:
        text = (proc_root / "driver" / DRIVER / "version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = VERSION.search(text)
    return None if found is None else found[1]


def _told(folder: Path) -> str:
    try:
        return (folder / "information").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _is_bound(device: Path) -> bool:
    """Whether a PCI device is a card of NVIDIA's that its driver has taken."""
    try:
        vendor, kind = ((device / name).read_text(encoding="ascii").strip() for name in ("vendor", "class"))
        return vendor == VENDOR and kind[:6] in DISPLAY and (device / "driver").resolve().name == DRIVER
    except (OSError, UnicodeDecodeError):
        return False


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
