"""Which addresses simulated hosts have on their cable."""

import pytest

from rigproof.stages.route.simulated import CABLE, invented, stated


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (("192.168.1.10", "192.168.1.11"), ["192.168.1.10/24", "192.168.1.11/24"]),
        (("10.0.0.1", "10.0.3.1"), ["10.0.0.1/22", "10.0.3.1/22"]),
        (("fd00::1", "fd00::2"), ["fd00::1/64", "fd00::2/64"]),
    ],
)
def test_they_are_those_of_the_profile_in_the_network_that_has_them_all(addresses, expected):
    assert list(map(str, stated(addresses))) == expected


@pytest.mark.parametrize(
    "addresses",
    [
        (None, "10.0.0.2"),
        ("pc1.lan", "pc2.lan"),
        ("10.0.0.1", "fd00::2"),
        ("10.0.0.1", "192.168.1.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("127.0.0.1", "127.0.0.2"),
    ],
)
def test_what_names_no_network_of_all_is_left_aside(addresses):
    assert stated(addresses) == []
    assert list(map(str, invented(CABLE, 2))) == ["192.168.0.10/18", "192.168.0.11/18"]
