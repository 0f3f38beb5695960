import pytest

from rigproof.cluster.ray.matching import FoundNode, local_node, match_nodes, names_of
from rigproof.cluster.ray.nodes import with_numeric_address
from rigproof.profiles.loading.loaded import PromisedDevice
from rigproof.profiles.loading.matching import assign_gpus
from rigproof.profiles.tables.gpu import Gpu
from rigproof.profiles.tables.limits import Limits
from rigproof.profiles.tables.node import Node
from rigproof.records.identity import GpuIdentity


def found(node_id, name="", address="", hostname="", here=False):
    return FoundNode(node_id, name or address, address, hostname, cpus=8, gpus=1, here=here)


def ids(matched):
    return {name: node.node_id for name, node in matched.items()}


def test_the_given_node_name_comes_before_the_address():
    promised = (Node(name="pc1", address="10.0.0.1"), Node(name="pc2", address="10.0.0.2"))
    nodes = [found("a", "pc2", "10.0.0.1"), found("b", "pc1", "10.0.0.2")]
    assert ids(match_nodes(promised, nodes)) == {"pc1": "b", "pc2": "a"}


def test_nodes_are_found_by_address_and_by_hostname():
    promised = (Node(name="one", address="10.0.0.1"), Node(name="two"), Node(name="x", address="Three.lan"))
    nodes = [found("a", address="10.0.0.1"), found("b", hostname="two.lan"), found("c", hostname="three")]
    assert ids(match_nodes(promised, nodes)) == {"one": "a", "two": "b", "x": "c"}


def test_a_promised_address_is_looked_up_as_ray_spells_it():
    promised = Node(name="pc1", address="[FD00:0::1]")
    assert with_numeric_address(promised).address == "fd00::1"
    assert with_numeric_address(Node(name="pc1", address="localhost")).address in ("127.0.0.1", "::1")
    unknown = Node(name="pc1", address="no-such-host.invalid")
    assert with_numeric_address(unknown) == unknown
    assert with_numeric_address(Node(name="pc1")).address is None


def test_the_nodes_of_a_cluster_get_names_that_differ_in_more_than_capitals():
    nodes = [found("a", "box", "10.0.0.1"), found("b", "BOX", "10.0.0.2"), found("c", "box", "10.0.0.3")]
    assert {name: node.node_id for name, node in names_of(nodes).items()} == {
        "box": "a",
        "BOX-2": "b",
        "box-3": "c",
    }


def test_nodes_are_called_as_they_were_told_to_be():
    nodes = [
        found("a", "10.0.0.2", "10.0.0.2", "shop floor"),  # Ray's name for a node that was given none
        found("b", "pc1", "10.0.0.1"),
        found("c", "", "10.0.0.3", "pc1"),
    ]
    assert ids(names_of(nodes)) == {"pc1": "b", "shop-floor": "a", "pc1-2": "c"}


def test_no_ray_node_is_taken_twice():
    promised = (Node(name="pc1", address="10.0.0.1"), Node(name="pc2", address="10.0.0.1"))
    nodes = [found("a", "pc1", "10.0.0.1"), found("b", "pc2", "10.0.0.1")]
    assert ids(match_nodes(promised, nodes)) == {"pc1": "a", "pc2": "b"}
    assert ids(match_nodes(promised, nodes[:1])) == {"pc1": "a"}


def test_a_rig_of_one_node_without_address_is_this_machine():
    nodes = [found("a", address="10.0.0.1"), found("b", address="10.0.0.2", here=True)]
    assert ids(match_nodes((Node(name="host"),), nodes)) == {"host": "b"}
    assert match_nodes((Node(name="host", address="10.0.0.3"),), nodes) == {}
    assert match_nodes((Node(name="host"), Node(name="other")), nodes) == {}


@pytest.mark.parametrize(
    ("promised", "expected"),
    [
        ((Node(name="host"),), "host"),
        ((Node(name="pc1", address="10.0.0.1"), Node(name="pc2", address="10.0.0.2")), "pc2"),
        ((Node(name="pc1", address="10.0.0.1"),), None),
        ((Node(name="pc1", address="box.lan"), Node(name="pc2")), "pc1"),
        ((Node(name="pc1"), Node(name="BOX")), "BOX"),
        ((Node(name="pc1"), Node(name="pc2")), None),
        ((), None),
    ],
)
def test_which_promised_node_this_machine_is(promised, expected):
    assert local_node(promised, "box", frozenset({"127.0.0.1", "10.0.0.2"})) == expected


def device(index, sku="rtx-3090"):
    gpu = Gpu(sku=sku)
    return PromisedDevice(
        f"pc1/gpu{index}", "pc1", index, gpu, None, sku, Limits(), {}, f"nodes.pc1.gpus.{index}"
    )


def card(uuid, name, index):
    return GpuIdentity(f"host/gpu{index}", "cuda", uuid, name, index, 24576.0)


def find_sku(gpu):
    return {"GeForce 3090": "rtx-3090", "GeForce 3070": "rtx-3070"}.get(gpu.name)


CARDS = [
    card("GPU-a", "GeForce 3070", 0),
    card("GPU-b", "GeForce 3090", 1),
    card("GPU-c", "GeForce 3090", 2),
]


def test_another_model_stands_in_the_promised_place_under_its_own_name():
    assigned = assign_gpus([device(0), device(1), device(2)], CARDS, find_sku)
    uuids = {subject: gpu.uuid for subject, gpu in assigned.items()}
    assert uuids == {"pc1/gpu0": "GPU-b", "pc1/gpu1": "GPU-c", "pc1/gpu2": "GPU-a"}
    assert assigned["pc1/gpu2"].sku == "rtx-3070"
