"""A host that was lost and came back before the run: Ray lists it twice for a while."""

from support.network_hosts import kill_all
from support.ray_hosts import START_S, RayHosts, ended_after

LIST = """
import ray, sys
ray.init(address=sys.argv[1], log_to_driver=False)
print(sum(node["Alive"] for node in ray.nodes() if node["NodeName"] == "pc2"))
"""


def test_the_entry_that_answers_is_taken(own_hosts: RayHosts) -> None:
    own_hosts.up()
    pc1, pc2 = own_hosts.network["pc1"], own_hosts.network["pc2"]
    kill_all(pc2)
    assert own_hosts.ray_start(pc2).returncode == 0
    running = own_hosts.accept(own_hosts.profile(), "-k", "nodes_present or gpus_present")
    run = ended_after(running, "host came back before the run", START_S).run
    for criterion, subject in (("cluster.nodes_present", "pc2"), ("inventory.gpus_present", "pc2/cpu0")):
        assert run.outcome(criterion, subject) == "pass", run.output
    assert own_hosts.python(pc1, "-c", LIST, own_hosts.address).stdout.strip() in ("1", "2")
