"""Both ends of a link, as sysfs lays them out."""

import pytest

from rigproof.host.pcie_errors import pcie_errors, sysfs_address
from rigproof.records.samples import PcieErrors

PORT, CARD = "0000:16:01.0", "0000:17:00.0"
GPU = "pc1/gpu0"


def counted(folder, **totals):
    folder.mkdir(parents=True, exist_ok=True)
    for kind, total in totals.items():
        name = {"fatal": "FATAL", "nonfatal": "NONFATAL", "correctable": "COR"}[kind]
        text = f"RxErr 3\nBadTLP {total}\nTOTAL_ERR_{name} {total}\n"
        (folder / f"aer_dev_{kind}").write_text(text)


@pytest.fixture
def sysfs(tmp_path):
    """A root port with a card behind it, and the list of devices by address."""
    counted(tmp_path / "pci0000:16" / PORT, fatal=0, nonfatal=2, correctable=5)
    counted(tmp_path / "pci0000:16" / PORT / CARD, fatal=1, nonfatal=0, correctable=7)
    devices = tmp_path / "devices"
    devices.mkdir()
    for address, path in ((PORT, PORT), (CARD, f"{PORT}/{CARD}")):
        (devices / address).symlink_to(tmp_path / "pci0000:16" / path)
    return devices


def test_the_card_and_its_upstream_port_are_counted_apart(sysfs):
    found = pcie_errors(8.0, GPU, "00000000:17:00.0", sysfs)
    assert found == PcieErrors(8.0, GPU, 1, 0, 7, PORT, 0, 2, 5)


def test_a_device_at_the_root_has_no_port(sysfs):
    assert pcie_errors(8.0, GPU, "00000000:16:01.0", sysfs) == PcieErrors(8.0, GPU, 0, 2, 5)


def test_a_kernel_that_counts_nothing_gives_none_not_zero(sysfs, tmp_path):
    for path in (tmp_path / "pci0000:16").rglob("aer_dev_*"):
        path.unlink()
    assert pcie_errors(8.0, GPU, "00000000:17:00.0", sysfs) == PcieErrors(8.0, GPU, port=PORT)


@pytest.mark.parametrize("bus_id", ["00000000:99:00.0", "", "no address"])
def test_a_device_that_is_not_there_has_no_counts(sysfs, bus_id):
    assert set(pcie_errors(8.0, GPU, bus_id, sysfs).counts) == {None}


@pytest.mark.parametrize("text", ["", "BadTLP 4\n", "TOTAL_ERR_COR many\n", "TOTAL_ERR_COR -1\n"])
def test_a_file_without_a_sum_gives_none(sysfs, tmp_path, text):
    (tmp_path / "pci0000:16" / PORT / CARD / "aer_dev_correctable").write_text(text)
    assert pcie_errors(8.0, GPU, "00000000:17:00.0", sysfs).counts[:3] == (1, 0, None)


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("00010000:1B:00.0", "10000:1b:00.0"),
        ("0000000A:01:00.0", "000a:01:00.0"),
    ],
)
def test_an_address_is_written_as_sysfs_has_it(bus_id, address):
    assert sysfs_address(bus_id) == address
