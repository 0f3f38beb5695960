"""What every node of a cluster has, read by a short task on each: `python -m …ray.inventories ADDRESS MODE`.

In a child process: it joins the cluster and leaves it, and this process is none the wiser.
"""

import json
import os
import sys
from importlib import import_module
from typing import Any

import rigproof
from rigproof.cluster.ray.join_probe import check_joinable
from rigproof.cluster.ray.matching import FoundNode, names_of
from rigproof.cluster.ray.preconditions import ClusterUnreachable
from rigproof.host.child import ask
from rigproof.host.parent import die_with_parent, tell
from rigproof.host.visible import NAME, parents_setting
from rigproof.profiles.auto import FoundHost
from rigproof.records.message_text import one_line
from rigproof.telemetry.inventory import detect, inventory_from, inventory_to_json

MODULE = "rigproof.cluster.ray.inventories"
OPEN, WITH_TOKEN = "open", "with-token"
JOIN_S = 60.0
LOOK_S = 20.0  # for NVML to start on a node: seconds if several cards have to wake up first
ANSWER_S = JOIN_S + LOOK_S  # for all nodes together, which are asked at the same time


def cluster_hosts(address: str, *, allow_open: bool = False) -> tuple[FoundHost, ...]:
    """Every living node of the cluster, by the name and the address that Ray knows it by.

    Raises:
        ClusterUnreachable: it cannot be joined, or what a node has cannot be known.
    """
    mode = OPEN if check_joinable(address, JOIN_S, allow_open=allow_open) else WITH_TOKEN
    answer = ask(MODULE, address, mode, limit_s=JOIN_S + ANSWER_S)
    if answer.message is None:
        why = answer.complaint or ("no answer" if answer.status is None else f"status {answer.status}")
        raise ClusterUnreachable(f"--hw-ray-address {address}: its nodes cannot be listed: {why}; try again")
    hosts = tuple(_host(address, node) for node in answer.message["nodes"])
    _refuse_doubles(address, hosts)
    return hosts


def look() -> str:
    """The inventory of the node that this task runs on, as JSON, with this rigproof's version.

    Ray hides every GPU from a task that reserves none: what counts is its raylet's environment.
    """
    setting, own = parents_setting(), os.environ.get(NAME)
    try:
        _set(setting)
        return json.dumps({"version": rigproof.__version__, "found": inventory_to_json(detect(LOOK_S))})
    finally:
        _set(own)


def main(address: str, mode: str) -> None:
    """Print the nodes with their inventories as one line of JSON, and leave without waiting for anything."""
    import ray  # noqa: PLC0415 - not needed where the driver only asks
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    from rigproof.cluster.ray.environment import joining_environment, settings  # noqa: PLC0415 - imports ray
    from rigproof.cluster.ray.nodes import list_nodes  # noqa: PLC0415

    task = ray.remote(import_module(MODULE).look)  # not __main__'s: a node finds it by its module

    def begin(node: FoundNode) -> Any:
        strategy = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        return task.options(num_cpus=0, max_retries=0, scheduling_strategy=strategy).remote()

    def outcome(call: Any) -> dict[str, str]:
        try:
            return {"answer": ray.get(call, timeout=0)}
        except ray.exceptions.GetTimeoutError:
            return {"error": f"no answer within {ANSWER_S:g} s"}
        except Exception as error:  # whatever keeps a node from answering is said of it
            cause = getattr(error, "cause", None) or error
            return {"error": (str(cause).strip().splitlines() or [type(cause).__name__])[-1]}

    with settings(joining_environment(address, open_cluster=mode == OPEN)):
        ray.init(address=address, log_to_driver=False, configure_logging=False)
        nodes = names_of(list_nodes())
        calls = {name: begin(node) for name, node in nodes.items()}
        ray.wait(list(calls.values()), num_returns=len(calls), timeout=ANSWER_S)
        tell(
            nodes=[
                {"name": name, "address": nodes[name].address, **outcome(call)}
                for name, call in calls.items()
            ]
        )
    os._exit(0)  # the connection ends with the process; Ray's own way of leaving can hang


def _host(address: str, node: dict[str, Any]) -> FoundHost:
    where = f"{node['name']} ({node['address']})"
    if "error" in node:
        raise ClusterUnreachable(
            f"--hw-ray-address {address}: {where} cannot be looked at: {one_line(node['error'])}; "
            f"install rigproof {rigproof.__version__} in the Python that `ray start` ran in there, or "
            "name a profile without this node: --hwprofile NAME"
        )
    answer = json.loads(node["answer"])
    if answer["version"] != rigproof.__version__:
        raise ClusterUnreachable(
            f"--hw-ray-address {address}: {where} has rigproof {answer['version']}; install "
            f"rigproof=={rigproof.__version__} there"
        )
    found = inventory_from(json.loads(answer["found"]))
    if found.doubt is not None:
        raise ClusterUnreachable(
            f"--hw-ray-address {address}: the GPUs of {where} cannot all be found: {found.doubt}; then start "
            "Ray there anew, or name a profile that states the rig: --hwprofile NAME"
        )
    return FoundHost(node["name"], node["address"], found)


def _refuse_doubles(address: str, hosts: tuple[FoundHost, ...]) -> None:
    """Refuse two nodes of one machine, since each would run at half its speed."""
    owners: dict[str, str] = {}
    for host in hosts:
        for sign in (str(host.address), *(gpu.uuid for gpu in host.inventory.gpus)):
            owner = owners.setdefault(sign, host.name)
            if owner != host.name:
                raise ClusterUnreachable(
                    f"--hw-ray-address {address}: {owner} and {host.name} are Rays of one machine: both have "
                    f"{sign}; start one Ray on each machine, or name a profile: --hwprofile NAME"
                )


def _set(setting: str | None) -> None:
    if setting is None:
        os.environ.pop(NAME, None)
    else:
        os.environ[NAME] = setting


if __name__ == "__main__":
    die_with_parent()
    main(sys.argv[1], sys.argv[2])
