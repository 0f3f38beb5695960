"""`rigproof cluster` without any machine to reach."""

from pathlib import Path

import pytest
import yaml

from rigproof.cluster.launch import launching
from rigproof.cluster.ray.errors import ClusterStartFailed
from support.acceptance import rigproof


def test_lines_are_printed_for_a_rig():
    done = rigproof("cluster", "lines", "dual-3090-3070", "--port", "7000")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("RAY_AUTH_MODE=token ray start ")] == [
        "RAY_AUTH_MODE=token ray start --head --port=7000 --include-dashboard=false "
        "--node-ip-address=192.168.1.10 --node-name=pc1 --num-cpus=80 --num-gpus=1",
        "RAY_AUTH_MODE=token ray start --address=192.168.1.10:7000 --node-ip-address=192.168.1.11 "
        "--node-name=pc2 --num-cpus=16 --num-gpus=1",
    ]
    assert "chmod 600 ~/.ray/auth_token" in lines
    assert lines[-1].endswith("rigproof accept --ray-address 192.168.1.10:7000 --hwprofile dual-3090-3070")


def test_the_file_for_ray_up_is_written_alone(tmp_path):
    done = rigproof("cluster", "up", "dual-3090-3070", "--write-only", "--ssh-user", "anna", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    config = yaml.safe_load(path.read_text())
    assert config["auth"] == {"ssh_user": "anna"}
    assert config["provider"]["head_ip"] == "192.168.1.10"


@pytest.mark.parametrize("place", ["read-only", "missing", "a folder"])
def test_a_file_that_cannot_be_written_is_refused_with_the_way_out(tmp_path, place):
    file = tmp_path / "place" / "up.yaml"
    if place == "read-only":
        file = Path("/sys/up.yaml")  # where root cannot make a file either
    elif place == "a folder":
        file.mkdir(parents=True)
    done = rigproof("cluster", "up", "dual-3090-3070", "--write-only", "--file", file)
    assert done.returncode == 4, done.stdout
    assert f"{file}: not written: " in done.stderr
    assert "give --file FILE in a folder where you may write" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_rig_of_one_machine_needs_no_cluster():
    done = rigproof("cluster", "up", "single-gpu", "--write-only")
    assert done.returncode == 4
    assert "a rig of one machine needs no cluster; run `rigproof accept` on it" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_status_of_a_cluster_that_is_not_up_says_how_to_start_it(tmp_path):
    rig = tmp_path / "lab.toml"
    rig.write_text('name = "lab"\n[[nodes]]\nname = "pc1"\naddress = "127.0.0.1"\n')
    done = rigproof("cluster", "status", rig, "--port", "9")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "127.0.0.1:9: nothing answers there: no cluster is running",
        "pc1  127.0.0.1  MISSING",
        f"start it with: rigproof cluster up {rig}",
    ]


def test_a_log_that_cannot_be_written_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "up.log").mkdir()
    with pytest.raises(ClusterStartFailed, match=r"up\.log: not written: .*; give --file FILE in a folder"):
        launching._ray_up(tmp_path / "up.yaml", 1.0)
