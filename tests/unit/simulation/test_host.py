"""A simulated host: its CPU, its memory, how late it wakes up."""

import pytest

from rigproof.records.samples import HostSample
from rigproof.simulation.host import SimulatedHost
from support.simulated import DUAL, STAGES, rig_named, simulated


def host(*faults: str, seed: int = 0) -> SimulatedHost:
    return simulated(rig_named(DUAL), *faults, seed=seed).node("pc1").host


def sample(one: SimulatedHost, t_s: float) -> HostSample:
    found = one.sample(t_s, 0.1, STAGES)
    assert found is not None
    return found


def test_it_is_as_large_as_the_profile_says() -> None:
    assert host().usable_cpus() == 80
    assert host().ram_gib() == 64  # the profile says nothing


def test_the_cpu_is_where_its_load_holds_it() -> None:
    one = host()
    assert sample(one, 30.0).cpu_percent < 15
    one.load_percent = 77.5
    assert sample(one, 30.0).cpu_percent == pytest.approx(77.5, abs=5)


def test_a_quiet_host_wakes_up_in_time_and_a_saturated_one_late() -> None:
    quiet, saturated = host(), host("cpu-saturated@pc1")
    assert max(sample(quiet, 30.0).wakeup_delays_ms) < 10
    late = sample(saturated, 30.0)
    assert min(late.wakeup_delays_ms) >= 60
    assert late.cpu_percent > 95


def test_a_quota_keeps_the_load_under_the_band() -> None:
    one = host("cpu-starved@pc1")
    one.load_percent = 77.5
    assert sample(one, 30.0).cpu_percent < 70


def test_a_frozen_host_is_not_read_and_wakes_up_as_late_as_it_stood() -> None:
    one = host("host-frozen@pc1:after=30,for=5")
    assert one.sample(53.0, 0.1, STAGES) is None
    assert max(sample(one, 57.05).wakeup_delays_ms) == pytest.approx(5000)
    assert max(sample(one, 58.0).wakeup_delays_ms) < 50


def test_memory_adds_up() -> None:
    found = sample(host(), 1.0)
    assert (found.ram_used_mib or 0) + (found.ram_available_mib or 0) == pytest.approx(64 * 1024)


def test_a_seed_gives_the_same_host_and_another_one_another() -> None:
    assert sample(host(seed=1), 5.0) == sample(host(seed=1), 5.0)
    assert sample(host(seed=1), 5.0) != sample(host(seed=2), 5.0)
