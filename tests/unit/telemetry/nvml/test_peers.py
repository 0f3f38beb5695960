"""How GPUs are connected, through the real pynvml over a simulated driver."""

import pynvml
import pytest

from rigproof.simulation.nvml.model import SimulatedGpu, SimulatedLink
from rigproof.telemetry.nvml import protocol
from rigproof.telemetry.nvml.peers import Connection, connections
from support.loaded_gpu import opened

BUSES = ("00000000:01:00.0", "00000000:02:00.0", "00000000:41:00.0", "00000001:01:00.0")


def gpus(links=(), **changes):
    """As many GPUs as lists of links."""
    made = []
    for number, own in enumerate(links):
        gpu = SimulatedGpu(f"GPU-{number}", pci_bus_id=BUSES[number], nvlinks=own)
        for name, value in changes.items():
            setattr(gpu, name, value)
        made.append(gpu)
    return made


def found(*own):
    with opened(*own) as (_, nvml):
        read = connections([nvml.gpu(one.uuid, one.uuid, 0.0) for one in own])
        assert nvml.problems() == []
    return read


def to(bus, number, *, active=True):
    return [SimulatedLink(active=active, leads_to=bus) for _ in range(number)]


def test_links_to_a_switch_lead_to_every_other_gpu():
    read = found(*gpus([to("", 18), to("", 18), to("", 18)]))
    assert set(read) == {(0, 1), (0, 2), (1, 2)}
    assert set(read.values()) == {Connection(18, switched=True, path="one NUMA node")}


def test_a_switch_is_reached_by_as_many_as_the_lesser_of_the_two_has():
    read = found(*gpus([to("", 18), [*to("", 12), *to("", 6, active=False)]]))
    assert (read[0, 1].nvlinks, read[0, 1].switched) == (12, True)
    read = found(*gpus([to("", 18), to("", 18, active=False)]))
    assert (read[0, 1].nvlinks, read[0, 1].switched) == (0, True)


def test_without_a_switch_only_the_links_to_each_other_count():
    first, second, third, other_domain = BUSES
    read = found(
        *gpus(
            [
                [*to(second, 4), *to(third, 2)],
                [*to(first, 4), *to(third, 1)],
                [*to(first, 2), *to(second, 1)],
                to(other_domain, 0),
            ]
        )
    )
    assert {pair: one.nvlinks for pair, one in read.items()} == {
        (0, 1): 4,
        (0, 2): 2,
        (1, 2): 1,
        (0, 3): 0,
        (1, 3): 0,
        (2, 3): 0,
    }
    assert not any(one.switched for one in read.values())


def test_a_bus_id_counts_with_its_domain():
    first, _, _, other_domain = BUSES
    pair = gpus([to(other_domain, 4), to(first, 4)])
    pair[1].pci_bus_id = other_domain
    assert found(*pair)[0, 1].nvlinks == 4


@pytest.mark.parametrize("leads_to", [None, "00000000:99:00.0"])
def test_links_that_lead_to_something_unknown_are_no_number(leads_to):
    assert found(*gpus([to(leads_to, 4), to(leads_to, 4)]))[0, 1].nvlinks is None


@pytest.mark.parametrize("links", [None, [], [SimulatedLink(active=None)]])
def test_cards_without_nvlinks_have_none(links):
    assert found(*gpus([links, links]))[0, 1].nvlinks == 0


@pytest.mark.parametrize(
    ("nearest", "path"),
    [(10, "one PCIe switch"), (30, "one host bridge"), (50, "the link between CPUs"), (7, ""), (None, "")],
)
def test_what_the_pcie_links_have_in_common_is_named(nearest, path):
    assert found(*gpus([None, None], nearest=nearest))[0, 1].path == path


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (0, ""),
        (1, "its chipset is not supported; maybe IOMMU, ACS, a small BAR1"),
        (2, "its driver does not offer it for these GPUs"),
        (3, "no way between their slots supports it; maybe IOMMU, ACS, a small BAR1"),
        (4, "switched off in the driver's registry; maybe IOMMU, ACS, a small BAR1"),
        (5, "it is not supported; maybe IOMMU, ACS, a small BAR1"),
        (6, ""),
        (None, ""),
    ],
)
def test_why_there_is_no_direct_access_is_said_in_words(status, why):
    assert found(*gpus([None, None], p2p_status=status))[0, 1].why == why


def test_each_card_is_asked_for_its_links_once_however_many_others_there_are():
    own = gpus([to("", 3)] * 4)
    with opened(*own) as (driver, nvml):
        connections([nvml.gpu(one.uuid, one.uuid, 0.0) for one in own])
        assert driver.calls["nvmlDeviceGetNvLinkState"] == 4 * (3 + 1)


def test_a_driver_that_knows_none_of_this_says_nothing():
    pair = gpus([to("", 4), to("", 4)])
    with opened(*pair) as (driver, nvml):
        driver.missing_functions |= {
            "nvmlDeviceGetTopologyCommonAncestor",
            "nvmlDeviceGetP2PStatus",
            "nvmlDeviceGetNvLinkRemoteDeviceType",
        }
        read = connections([nvml.gpu(one.uuid, one.uuid, 0.0) for one in pair])
        assert nvml.problems() == []
    assert read[0, 1] == Connection(nvlinks=None)


def test_the_numbers_are_those_of_pynvml():
    assert protocol.LinkEnd.GPU == pynvml.NVML_NVLINK_DEVICE_TYPE_GPU
    assert protocol.LinkEnd.SWITCH == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
    for level in protocol.Ancestor:
        assert getattr(pynvml, f"NVML_TOPOLOGY_{level.name}") == level
    assert pynvml.NVML_P2P_CAPS_INDEX_READ in (protocol.P2p.READ, (protocol.P2p.READ,))  # a slip of pynvml
    assert protocol.P2pStatus.OK == pynvml.NVML_P2P_STATUS_OK
    assert protocol.P2pStatus.CHIPSET == pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED
    assert protocol.P2pStatus.GPU == pynvml.NVML_P2P_STATUS_GPU_NOT_SUPPORTED
    assert protocol.P2pStatus.TOPOLOGY == pynvml.NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED
    assert protocol.P2pStatus.DISABLED == pynvml.NVML_P2P_STATUS_DISABLED_BY_REGKEY
    assert protocol.P2pStatus.NOT_SUPPORTED == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED
