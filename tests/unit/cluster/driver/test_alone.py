"""A run has its hosts to itself: it is refused while another one has them, or waits for its end."""

import math

import pytest

from rigproof.cluster.driver import rig_cluster
from rigproof.cluster.driver.rig_cluster import ClusterError, take_alone
from rigproof.host.run_lock import UNKNOWN, Claim

CLAIM = Claim("run-a", "box", 4242, "ml", 1_764_000_000.0, "/srv/reports/runs/run-a")


class Hosts:
    """Hosts that others have until they were asked for so often, and a clock that only sleep moves."""

    def __init__(self, monkeypatch, held, times):
        self.held, self.times, self.now_s, self.said = held, times, 0.0, []
        monkeypatch.setattr(rig_cluster.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(rig_cluster.time, "sleep", self.sleep)

    def sleep(self, seconds):
        self.now_s += seconds

    def take(self):
        self.times -= 1
        return self.held if self.times >= 0 else {}


def test_free_hosts_are_taken_at_once(monkeypatch):
    hosts = Hosts(monkeypatch, {"pc2": CLAIM}, 0)
    take_alone(hosts.take, 0.0, hosts.said.append)
    assert (hosts.now_s, hosts.said) == (0.0, [])


def test_a_run_that_does_not_wait_is_refused_with_the_other_s_name_and_the_way_out(monkeypatch):
    hosts = Hosts(monkeypatch, {"pc2": CLAIM, "pc3": UNKNOWN}, 1)
    with pytest.raises(ClusterError) as refused:
        take_alone(hosts.take, 0.0, hosts.said.append)
    text = str(refused.value)
    assert text.startswith("pc2 is under test by pid 4242 of user ml on box, since 2025-11-24 ")
    assert "/srv/reports/runs/run-a; pc3 is under test by another run of rigproof, which does not say" in text
    assert "--hw-wait" in text
    assert hosts.now_s == 0.0


@pytest.mark.parametrize("wait_s", [100.0, math.inf])
def test_a_run_that_waits_says_for_whom_once_and_goes_on_after_it(monkeypatch, wait_s):
    hosts = Hosts(monkeypatch, {"pc2": CLAIM}, 5)
    take_alone(hosts.take, wait_s, hosts.said.append)
    assert 5 * 1.0 <= hosts.now_s <= 5 * 3.0
    (said,) = hosts.said
    assert said.startswith("waiting: pc2 is under test by pid 4242 of user ml")


def test_a_run_that_has_waited_long_enough_is_refused(monkeypatch):
    hosts = Hosts(monkeypatch, {"pc2": CLAIM}, 100)
    with pytest.raises(ClusterError, match=r"\(waited 10 s\)"):
        take_alone(hosts.take, 10.0, hosts.said.append)
    assert hosts.now_s == pytest.approx(10.0)
