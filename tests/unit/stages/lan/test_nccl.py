"""NCCL over sockets, between two processes on one GPU of this machine, as if they were in two nodes."""

import json
import os
import subprocess
import sys

import torch

from rigproof.host.addresses import free_ports
from rigproof.stages.lan.stage import NCCL
from support.acceptance import CHECKOUT
from support.network_hosts import PATIENCE_S
from support.two_devices import needs_gpus

HERE = "127.0.0.1"
ONE_WAY = {("send", "out"), ("send", "back"), ("broadcast", "out")}


def end(rank, place):
    told = {"pair": "pc1+pc2", "place": place, "tcp_s": 0.6, "library_s": 1.0, "cuda": True}
    told |= {"rank": rank, "node": f"pc{rank + 1}"}
    own = {
        "CUDA_VISIBLE_DEVICES": "0",
        "NCCL_HOSTID": told["node"],
        "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'tests'}",
    }
    command = [sys.executable, "-m", "support.lan_end", json.dumps(told)]
    return subprocess.Popen(command, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True)


@needs_gpus(1, torch.cuda.device_count())
def test_every_operation_between_two_nodes_is_verified():
    place = (HERE, free_ports(HERE, 1)[0])
    ends = [end(rank, place) for rank in (0, 1)]
    lines = [line for one in ends for line in one.communicate(timeout=PATIENCE_S)[0].splitlines()]
    records = [json.loads(line) for line in lines if line.startswith("[")]
    assert [fields["message"] for name, fields in records if name == "Event"] == []
    rounds = [fields for name, fields in records if name == "Round" and fields["labels"]["traffic"] == NCCL]
    done = {(one["labels"]["operation"], one["labels"]["direction"]) for one in rounds}
    assert done == ONE_WAY | {("all_reduce", "both"), ("all_gather", "both")}
    assert all(one["verified"] for one in rounds)
    sizes = [fields["size"] for name, fields in records if name == "LanLatency" and fields["traffic"] == NCCL]
    assert sizes == [4, 1024]
