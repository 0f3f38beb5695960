"""`rigproof cluster` without any machine to reach."""

import sys
from pathlib import Path

from support.acceptance import rigproof


def test_lines_are_printed_for_a_rig():
    done = rigproof("cluster", "lines", "dual-3090-3070", "--port", "7000")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if " ray start " in line] == [
        "env RAY_AUTH_MODE=token ray start --head --port=7000 --include-dashboard=false "
        "--node-ip-address=192.168.1.10 --node-name=pc1 --num-cpus=80 --num-gpus=1",
        "env RAY_AUTH_MODE=token ray start --address=192.168.1.10:7000 --node-ip-address=192.168.1.11 "
        "--node-name=pc2 --num-cpus=16 --num-gpus=1",
    ]
    assert "chmod 600 ~/.ray/auth_token" in lines
    assert "rigproof accept --hwprofile dual-3090-3070 --ray-address 192.168.1.10:7000" in lines
    on = [line.split(":")[0] for line in lines if line.startswith("# ") and line[2].isdigit()]
    assert on == [
        "# 1. on pc1",
        "# 2. on pc1",
        "# 3. on pc2",
        "# 4. on pc1",
        "# 5. afterwards, on each of them",
    ]
    activates = [line for line in lines if line.startswith(". ")]
    in_venv = sys.prefix != sys.base_prefix and Path(sys.prefix, "bin", "activate").is_file()
    assert activates == [f". {sys.prefix}/bin/activate"] * (2 if in_venv else 0)
    named = rigproof("cluster", "lines", "dual-3090-3070", "--ray", "/opt/ray").stdout.splitlines()
    assert not [line for line in named if line.startswith(". ")]
    assert named[-1] == "/opt/ray stop"


def test_a_rig_of_one_machine_needs_no_cluster():
    done = rigproof("cluster", "up", "single-gpu")
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
        f"start it with: rigproof cluster up {rig} --port 9",
    ]


def test_an_ipv6_address_has_brackets_before_its_port(tmp_path):
    rig = tmp_path / "lab.toml"
    rig.write_text('name = "lab"\n[[nodes]]\nname = "pc1"\naddress = "[FD00::1]"\n')
    done = rigproof("cluster", "lines", rig)
    assert f"rigproof accept --hwprofile {rig} --ray-address '[fd00::1]:6379'" in done.stdout.splitlines()
    assert "--node-ip-address=fd00::1" in done.stdout
    status = rigproof("cluster", "status", rig, "--port", "9")
    assert status.stdout.splitlines()[0] == "[fd00::1]:9: nothing answers there: no cluster is running"
