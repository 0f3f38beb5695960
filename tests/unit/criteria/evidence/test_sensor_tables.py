"""The readings of several devices, one device after the other."""

import numpy as np

from rigproof.criteria.evidence.readings import Readings
from rigproof.criteria.evidence.sensor_tables import SensorTable


def table(**values):
    """Readings once a second, from a second of its own on for each device."""
    starts_s = range(0, 100 * len(values), 100)
    return SensorTable(
        {
            device: Readings.of_pairs(enumerate(own, start))
            for (device, own), start in zip(values.items(), starts_s, strict=True)
        }
    )


def test_a_value_read_three_times_in_a_row_is_found_by_device():
    found = table(a=[1, 2, 2, 2], b=[3, 3, 4, 4, 4, 4], c=[5, 6]).repeated(0.0)
    assert found == {"a": [(1, 3)], "b": [(2, 5)]}


def test_it_must_last_as_long():
    both = table(a=[2, 2, 2, 3, 3, 3, 3])
    assert both.repeated(3.0) == {"a": [(3, 6)]}
    assert both.repeated(2.0) == {"a": [(0, 2), (3, 6)]}


def test_the_same_value_of_two_devices_is_not_one():
    assert table(a=[1, 7, 7], b=[7, 7, 1]).repeated(0.0) == {}


def test_devices_without_readings_have_no_value():
    assert table(a=[], b=[]).repeated(0.0) == {}
    assert table(a=[], b=[1, 1, 1], c=[]).repeated(0.0) == {"b": [(0, 2)]}


def test_a_moment_is_searched_among_the_readings_of_its_device():
    three = table(a=[1, 1, 1], b=[], c=[1, 1])  # at 0, 1, 2 s and at 200, 201 s
    devices, moments_s = np.array([0, 0, 0, 1, 2, 2]), np.array([1.0, -5.0, 999.0, 100.0, 200.0, 202.0])
    assert three.places(devices, moments_s, "left").tolist() == [1, 0, 3, 3, 3, 5]
    assert three.places(devices, moments_s, "right").tolist() == [2, 0, 3, 3, 4, 5]


def test_a_value_may_be_still_from_the_reading_before_it_to_the_one_after_it():
    both = table(a=[1, 2, 3, 3, 4, 5], b=[7, 7, 8, 9, 9, 8])  # 3 s from 2 to 4; 2 s at each end of b
    assert both.still(3.0) == {"a", "b"}  # 8, 9, 9, 8
    assert both.still(3.1) == set()
    assert table(a=[1, 1, 1], b=[1, 1, 1]).still(2.0) == {"a", "b"}
    assert table(a=[1, 1, 1], b=[1, 1, 1]).still(2.1) == set()


def test_the_range_of_each_device_is_infinite_without_readings():
    lowest, highest = table(a=[], b=[3, -1, 2], c=[], d=[4], e=[]).ranges
    assert lowest.tolist() == [np.inf, -1, np.inf, 4, np.inf]
    assert highest.tolist() == [-np.inf, 3, -np.inf, 4, -np.inf]
    assert [one.tolist() for one in table(a=[]).ranges] == [[np.inf], [-np.inf]]


def test_a_device_is_found_by_any_of_its_readings():
    three = table(a=[1, 2, 2], b=[], c=[2, 1])
    assert three.with_any(three.values == 2) == {"a", "c"}
    assert three.with_any(np.array([4])) == {"c"}
    assert three.with_any(three.values == 3) == set()
