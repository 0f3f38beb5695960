import subprocess

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ray.autoscaler._private.util import prepare_config, validate_config

from rigproof.cluster.launch.file import Launch, launch_text
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.tables.gpu import Gpu
from rigproof.profiles.tables.node import Node
from rigproof.stages.registry import KINDS

SEEDS = Launch("dual-3090-3070", load_rig("dual-3090-3070", KINDS).rig.nodes, "anna")

GOLDEN = """\
# The cluster of the rig dual-3090-3070, written by `rigproof cluster`, for `ray up`. End it with
# `rigproof cluster down`: `ray down` and `ray stop` end other people's Ray too.
cluster_name: "rigproof-dual-3090-3070-6379"
max_workers: 1
provider:
  type: local
  head_ip: "192.168.1.10"
  worker_ips: ["192.168.1.11"]
auth:
  ssh_user: "anna"
head_start_ray_commands:
  - "RIGPROOF_CLUSTER=rigproof-dual-3090-3070-6379@192.168.1.10 RAY_enable_autoscaler_v2=0 \
RAY_AUTH_MODE=token ray start --head --port=6379 --include-dashboard=false --node-ip-address=192.168.1.10 \
--node-name=pc1 --num-cpus=80 --num-gpus=1 --disable-usage-stats \
--autoscaling-config=~/ray_bootstrap_config.yaml"
worker_start_ray_commands:
  - "case \\"$SSH_CONNECTION\\" in *' 192.168.1.11 '*) \
RIGPROOF_CLUSTER=rigproof-dual-3090-3070-6379@192.168.1.10 RAY_AUTH_MODE=token ray start \
--address=192.168.1.10:6379 --node-ip-address=192.168.1.11 --node-name=pc2 --num-cpus=16 --num-gpus=1 \
--disable-usage-stats;; *) echo not in this rig >&2; false;; esac"
"""


def rig(*gpus, **options):
    nodes = [
        Node(name=f"pc{i}", address=f"10.0.0.{i}", gpus=(Gpu(sku="rtx-3090"),) * count)
        for i, count in enumerate(gpus, 1)
    ]
    return Launch("lab", tuple(nodes), "root", **options)


def test_the_file_of_the_seeds_rig():
    assert launch_text(SEEDS) == GOLDEN


@pytest.mark.parametrize("launch", [SEEDS, rig(1), rig(2, 1, 8, ssh_key="/home/a b/id", port=7000)])
def test_ray_takes_the_file(launch):
    config = prepare_config(yaml.safe_load(launch_text(launch)))
    validate_config(config)
    assert config["provider"]["head_ip"] == launch.addresses[0]
    assert config["provider"]["worker_ips"] == list(launch.addresses[1:])
    assert config["available_node_types"]["local.cluster.node"]["min_workers"] == len(launch.nodes) - 1


def test_nothing_in_it_stops_a_ray_or_turns_tokens_off():
    text = "\n".join(line for line in launch_text(rig(1, 1)).splitlines() if not line.startswith("#"))
    assert "ray stop" not in text
    assert "ray down" not in text
    assert text.count("ray start") == text.count("RAY_AUTH_MODE=token") == 2


@pytest.mark.parametrize(("mine", "count"), [("10.0.0.2", 1), ("10.0.0.3", 8)])
def test_each_worker_starts_with_its_own_gpus(mine, count):
    """The line runs in a shell that believes to be reached by ssh, with a `ray` that only echoes."""
    launch = rig(2, 1, 8)
    (line,) = yaml.safe_load(launch_text(launch))["worker_start_ray_commands"]
    done = shell(f"SSH_CONNECTION='10.0.0.1 50000 {mine} 22'; ray() {{ echo \"$@\"; }}; {line}")
    assert done.returncode == 0, done.stderr
    assert f"--node-ip-address={mine}" in done.stdout.split()
    assert f"--num-gpus={count}" in done.stdout.split()


def test_a_machine_that_is_none_of_them_starts_nothing():
    (line,) = yaml.safe_load(launch_text(rig(1, 1)))["worker_start_ray_commands"]
    done = shell(f"SSH_CONNECTION='10.0.0.2 50000 110.0.0.22 22'; ray() {{ echo started; }}; {line}")
    assert done.returncode != 0
    assert "started" not in done.stdout


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"))))
def test_any_key_user_and_path_come_through_the_file(text):
    launch = rig(1, 1, ssh_key=text, ray=text)
    config = yaml.safe_load(launch_text(launch))
    assert config["auth"].get("ssh_private_key", "") == text
    assert config["head_start_ray_commands"] == [launch.start_line(launch.nodes[0])]


def shell(command):
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
