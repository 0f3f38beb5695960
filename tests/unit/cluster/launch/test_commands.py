from rigproof.cluster.launch.commands import cuda_gpus, head_of, lines_to_type, ray_start_line
from rigproof.profiles.tables.gpu import Gpu
from rigproof.profiles.tables.node import Node

PC1 = Node(name="pc1", address="192.168.1.10", cpus=80, gpus=(Gpu(sku="rtx-3090"),))
PC2 = Node(name="pc2", address="192.168.1.11", cpus=16, gpus=(Gpu(sku="rtx-3070"),))


def test_the_line_of_a_further_node():
    assert ray_start_line(PC2, "192.168.1.10:6379", token=False) == (
        "ray start --address=192.168.1.10:6379 --node-ip-address=192.168.1.11 --node-name=pc2 "
        "--num-cpus=16 --num-gpus=1"
    )


def test_the_line_of_the_head():
    assert ray_start_line(PC1, None) == (
        "env RAY_AUTH_MODE=token ray start --head --port=6379 --include-dashboard=false "
        "--node-ip-address=192.168.1.10 --node-name=pc1 --num-cpus=80 --num-gpus=1"
    )


def test_what_the_profile_does_not_say_is_left_to_ray():
    assert ray_start_line(Node(name="x"), "h:1", token=False) == (
        "ray start --address=h:1 --node-name=x --num-gpus=0"
    )


def test_the_first_node_is_the_head():
    assert head_of((PC1, PC2)) == "192.168.1.10:6379"
    assert head_of((Node(name="box"),)) == "box:6379"
    assert head_of((Node(name="box", address="FD00::1"),)) == "[fd00::1]:6379"


def test_the_cpu_as_a_device_is_no_gpu_to_ray():
    assert cuda_gpus(Node(name="x", gpus=(Gpu(sku="unknown", device="cpu"), Gpu(sku="rtx-3070")))) == 1


def test_the_lines_to_type_by_hand():
    activate = [
        "# the environment with rigproof; in csh: source '/my env/activate'.csh",
        ". '/my env/activate'",
    ]
    lines = lines_to_type((PC1, PC2), rig="./my lab.toml", activate="/my env/activate")
    assert lines == [
        "# 1. on pc1: a token, once; machines without it cannot join",
        *activate,
        "test -s ~/.ray/auth_token || ray get-auth-token --generate",
        "chmod 600 ~/.ray/auth_token",
        "# the token for pc2; without ssh, carry the file there and type there: chmod 600 ~/.ray/auth_token",
        "ssh 192.168.1.11 'umask 077 && mkdir -p ~/.ray && cat > ~/.ray/auth_token' < ~/.ray/auth_token",
        "",
        "# 2. on pc1: the head",
        ray_start_line(PC1, None),
        "",
        "# 3. on pc2",
        *activate,
        ray_start_line(PC2, "192.168.1.10:6379"),
        "",
        "# 4. on pc1: the test",
        "rigproof accept --hwprofile './my lab.toml' --ray-address 192.168.1.10:6379",
        "",
        "# 5. afterwards, on each of them: this ends every Ray of yours there",
        "ray stop",
    ]


def test_another_port_and_another_ray_are_in_all_lines():
    lines = "\n".join(lines_to_type((PC1, PC2), rig="lab", port=7000, ray="/opt/my env/ray"))
    assert "6379" not in lines
    assert lines.count("'/opt/my env/ray' start") == 2
