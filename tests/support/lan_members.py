"""Members of a crew of nodes, each a process on a host of a network: the route stage between real hosts."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.measurements import Round
from rigproof.records.verdict import Verdict
from rigproof.stages.route.criteria import route
from rigproof.stages.route.stage import STAGE, LanArm, LanInterface, LanNode, LanProbe
from support.acceptance import CHECKOUT
from support.equal_hosts import HostRun, host_rig
from support.network_hosts import PATIENCE_S, Network
from support.printing import printed
from support.real_runs import INSIDE

KINDS = {one.__name__: one for one in (LanArm, LanInterface, LanNode, LanProbe, Round)}
PORT = 7007


def met(
    network: Network,
    *,
    gloo: bool = True,
    gpus: Sequence[str] = (),
    environment: Mapping[str, Mapping[str, str]] = {},
) -> list[Any]:
    """What the workload emits on the network's hosts together. `environment`: more variables, by host.

    `gpus`: the hosts that have a GPU, as their workers are told.
    """
    names = tuple(network.hosts)
    place = [network[names[0]].address, PORT]
    processes = []
    for rank, name in enumerate(names):
        host = network[name]
        has = [one in gpus for one in names]
        told = json.dumps({"rank": rank, "nodes": names, "rendezvous": place, "gloo": gloo, "gpus": has})
        own = {"PYTHONPATH": f"{INSIDE}:{CHECKOUT}:{CHECKOUT / 'tests'}"} | dict(environment.get(name, {}))
        process = subprocess.Popen(
            host.command(sys.executable, "-m", "support.lan_member", told),
            env=host.environment(own),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        host.started.append(process)
        processes.append(process)
    records: list[Any] = []
    for process in processes:
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, output
        records += printed(output.splitlines(), KINDS)
    return records


def judged(network: Network, records: Sequence[Any]) -> dict[str, Verdict]:
    """The verdicts on the hosts, by name, of what was emitted there."""
    run = HostRun(renamed(host_rig("route", len(network.hosts)), tuple(network.hosts)), route)
    for kind in KINDS.values():
        run.recording.put(kind, [one for one in records if isinstance(one, kind)])
    if not any(isinstance(one, LanArm) and one.library == "NCCL" for one in records):  # no host has a GPU
        stage = run.recording.stages[STAGE]
        specs = {worker: {**spec, "gpus": [False]} for worker, spec in stage.settings["specs"].items()}
        told = replace(stage, settings={**stage.settings, "specs": specs})
        run.recording.stages = {**run.recording.stages, STAGE: told}
    run.recording.run = replace(run.recording.run, simulated=False)
    for name, host in network.hosts.items():
        run.recording.nodes[name] = replace(run.recording.nodes[name], address=host.address)
    return {name: run.verdict(name) for name in network.hosts}


def renamed(loaded: LoadedRig, names: Sequence[str]) -> LoadedRig:
    """The rig with other names of its nodes."""
    nodes = [
        node.model_copy(update={"name": name}) for node, name in zip(loaded.rig.nodes, names, strict=True)
    ]
    return replace(loaded, rig=loaded.rig.model_copy(update={"nodes": tuple(nodes)}))
