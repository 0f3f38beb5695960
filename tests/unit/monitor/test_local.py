"""This machine's readings: the real agent and the real pynvml over a simulated driver, without Ray."""

import threading
import time
from contextlib import contextmanager

import pytest

from rigproof.monitor.following import Source
from rigproof.monitor.gathering import Gathering
from rigproof.monitor.local import this_machine
from rigproof.monitor.signs import warning_signs
from rigproof.monitor.snapshot import Snapshot
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.loading.load import load_rig, over_defaults
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import Fault, SimulatedDriver, SimulatedGpu
from rigproof.stages.registry import KINDS

A, B = "GPU-a", "GPU-b"
LIMIT_S = 30.0
RIG = {"name": "lab", "nodes": [{"name": "pc1", "gpus": [{"sku": "unknown"}, {"sku": "unknown"}]}]}


def two_gpus(**first):
    """A GeForce card, perhaps with other readings, and one that has every sensor."""
    full = SimulatedGpu(
        B,
        name="NVIDIA H200",
        memory_total_mib=143771.0,
        memory_used_mib=100000.0,
        utilization_percent=99,
        memory_temperature_c=82,
        temperature_memory_max_c=95,
        power_average_w=688.5,
        power_limit_w=700.0,
        clock_event_reasons=0x4,
        pcie_generation=5,
        pcie_width=8,
        ecc_uncorrected=3,
        ecc_corrected=9,
    )
    return SimulatedDriver([SimulatedGpu(A, **first), full])


class Watch:
    """What is seen of the rig, until it is closed."""

    def __init__(self, driver, loaded):
        begun_s = time.monotonic()
        self.driver = driver
        self.now_s = lambda: time.monotonic() - begun_s
        self.gathering = Gathering()
        nodes = this_machine(loaded, self.gathering, self.now_s)
        self.source = Source(nodes, self.gathering, self.now_s)
        self.source.open()

    def snapshot(self):
        nodes = self.gathering.nodes(self.now_s())
        return Snapshot("", "", "", nodes, None, self.gathering.errors)

    def until(self, what):
        """The first snapshot of which `what` holds."""
        end_s = time.monotonic() + LIMIT_S
        while not what(snapshot := self.snapshot()):
            assert time.monotonic() < end_s, snapshot
            time.sleep(0.02)
        return snapshot

    def signs(self):
        """Those that say nothing about how busy this machine is."""
        kinds = ("cpu", "unresponsive", "silent")
        return [sign for sign in warning_signs(self.snapshot()) if sign.kind not in kinds]


@contextmanager
def watch(driver, loaded=None):
    with installed(driver):
        watched = Watch(driver, loaded)
        try:
            yield watched
        finally:
            begun_s = time.monotonic()
            watched.source.close(0.8)
            took_s = time.monotonic() - begun_s
            for fault in driver.faults:
                if fault.hang is not None:
                    fault.hang.set()
            assert took_s < LIMIT_S / 2, "closing waited for the driver"
            for thread in ours():  # else it would shut down the driver of the next test
                thread.join(LIMIT_S)
                assert not thread.is_alive(), thread.name


def ours():
    """The monitor's threads, and what they start while they end."""
    while found := [
        one for one in threading.enumerate() if one.name.startswith(("rigproof-monitor-", "rigproof-nvml-"))
    ]:
        yield found[0]


def seen(snapshot):
    return bool(snapshot.gpus) and all(gpu.presence == "here" for gpu in snapshot.gpus)


def test_host_and_gpus_are_shown_next_to_their_limits():
    loaded = over_defaults(RIG, "lab.toml", KINDS)
    with watch(two_gpus(), loaded) as watched:
        snapshot = watched.until(lambda found: seen(found) and found.gpus[1].counters.ecc_corrected == 0)
        assert watched.signs() == []
        assert watched.source.settled
    (node,) = snapshot.nodes
    assert (node.name, node.presence, node.gpus_found) == ("pc1", "here", 2)
    assert node.facts.driver_version == "580.95.05"
    assert node.ram_total_mib > 0
    assert node.cpu.band_percent == (70, 85)
    first, second = node.gpus
    assert (first.subject, first.name, first.uuid) == ("pc1/gpu0", "NVIDIA GeForce RTX 3090", A)
    assert (first.sample.utilization_percent, first.sample.core_temperature_c) == (0.0, 35.0)
    assert (first.sample.power_average_w, first.power_limit_w) == (25.0, 350.0)
    assert (first.limits.core_temperature_c, first.headroom_mib) == (93, 512)
    assert (first.sample.sm_clock_mhz, first.identity.sm_clock_max_mhz) == (210, 2100)
    assert (first.sample.pcie_generation, first.identity.pcie_generation_max) == (1, 4)
    assert (first.sample.clock_event_reasons, first.sample.memory_temperature_c) == (0x1, None)
    assert (first.counters.ecc_uncorrected, first.counters.ecc_corrected) == (None, None)
    assert (second.sample.memory_temperature_c, second.limits.memory_temperature_c) == (82.0, 95.0)
    assert (second.counters.ecc_uncorrected, second.counters.ecc_corrected, second.xids) == (0, 0, ())


def test_what_a_card_suffers_lights_up():
    with watch(two_gpus()) as watched:
        subject = watched.until(seen).gpus[0].subject
        card = watched.driver.gpu(A)
        card.core_temperature_c, card.clock_event_reasons, card.memory_used_mib = 94, 0x80, 24300.0
        watched.driver.raise_xid(B, 63)
        watched.until(lambda found: found.gpus[0].sample.core_temperature_c == 94 and found.gpus[1].xids)
        signs = {sign.kind: (sign.subject, sign.measured) for sign in watched.signs()}
    assert signs == {
        "core_temperature": (subject, 94),
        "throttled": (subject, 1),
        "headroom": (subject, 276),
        "xid": (subject.replace("gpu0", "gpu1"), 1),
    }


def test_a_gpu_that_is_lost_is_missing_and_the_other_goes_on():
    with watch(two_gpus()) as watched:
        watched.until(seen)
        watched.driver.gpu(A).lost = True
        snapshot = watched.until(lambda found: found.gpus[0].presence == "missing")
        assert "does not answer" in snapshot.gpus[0].reason
        assert [sign.kind for sign in watched.signs()] == ["missing"]
        asked = watched.driver.calls["nvmlDeviceGetUtilizationRates"]
        watched.until(lambda _: watched.driver.calls["nvmlDeviceGetUtilizationRates"] > asked + 1)


def test_a_gpu_that_is_lost_from_the_beginning_is_reported():
    driver = two_gpus()
    driver.gpu(A).lost = True
    with watch(driver) as watched:
        snapshot = watched.until(lambda found: seen(found) and warning_signs(found))
        assert [gpu.uuid for gpu in snapshot.gpus] == [B]
        (sign,) = watched.signs()
    assert sign.kind == "error"
    assert "nvmlDeviceGetHandleByIndex" in sign.text


def test_a_promised_gpu_that_is_not_there_is_missing():
    driver = two_gpus()
    del driver.gpus[1]
    with watch(driver, over_defaults(RIG, "lab.toml", KINDS)) as watched:
        watched.until(lambda found: [gpu.presence for gpu in found.gpus] == ["here", "missing"])
        (sign,) = watched.signs()
    assert (sign.kind, sign.subject) == ("missing", "pc1/gpu1")
    assert "is not on pc1; found there: NVIDIA GeForce RTX 3090 (GPU-a)" in sign.text


def test_a_reading_that_hangs_keeps_nobody_waiting():
    driver = two_gpus()
    driver.inject(Fault("nvmlDeviceGetUtilizationRates", uuid=A, hang=threading.Event()))
    with watch(driver) as watched:
        snapshot = watched.until(lambda found: found.gpus and found.gpus[0].coverage_share == 0.0)
        assert snapshot.nodes[0].presence == "here"
        assert snapshot.gpus[1].sample.utilization_percent == 99.0
        assert [(sign.kind, sign.measured) for sign in watched.signs()] == [("driver_slow", 0.0)]


def test_a_driver_that_hangs_from_the_beginning_leaves_the_host(monkeypatch):
    monkeypatch.setattr("rigproof.monitor.local.FACTS_LIMIT_S", 0.2)
    driver = two_gpus()
    driver.inject(Fault("nvmlInitWithFlags", hang=threading.Event()))
    with watch(driver) as watched:
        watched.until(lambda found: found.nodes and found.nodes[0].presence == "here")
        (sign,) = watched.signs()
    assert sign.text == "NVML did not answer within 0.2 s: the driver hangs; see `sudo dmesg`, then reboot"


def test_a_closed_view_does_not_wait_for_a_driver_that_has_not_come_up():
    driver = two_gpus()
    driver.inject(Fault("nvmlInitWithFlags", hang=threading.Event()))
    with watch(driver) as watched:
        assert not watched.source.settled


def test_cards_that_are_hidden_are_not_of_the_rig(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with watch(two_gpus()) as watched:
        assert [gpu.uuid for gpu in watched.until(seen).gpus] == [B]


def test_the_other_nodes_of_a_rig_are_missing_with_what_to_type(monkeypatch):
    monkeypatch.setattr("rigproof.monitor.local.host_addresses", lambda: frozenset({"192.168.1.10"}))
    loaded = load_rig("dual-3090-3070", KINDS)
    driver = two_gpus()
    del driver.gpus[1]
    with watch(driver, loaded) as watched:
        snapshot = watched.until(lambda found: found.nodes[0].presence == "here")
        assert [node.presence for node in snapshot.nodes] == ["here", "missing"]
        (sign,) = [one for one in watched.signs() if one.subject == "pc2"]
    assert sign.text.startswith("pc2 is not there: the run was given no cluster, only this machine; ")
    assert "`rigproof cluster up dual-3090-3070`, then add --ray-address 192.168.1.10:6379" in sign.text


def test_a_rig_of_other_machines_is_refused(monkeypatch):
    monkeypatch.setattr("rigproof.monitor.local.host_addresses", frozenset)
    with pytest.raises(ProfileError, match=r"is not one of its nodes, pc1, pc2; give --ray-address"):
        this_machine(load_rig("dual-3090-3070", KINDS), Gathering(), time.monotonic)
