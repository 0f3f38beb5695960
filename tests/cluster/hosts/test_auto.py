"""`auto` and `detect` on a cluster mean every one of its hosts: what each has is looked up there.

pc1 is the head; pc2's Ray was started with CUDA_VISIBLE_DEVICES=0. What drivers they have is simulated, and
read by each look from the host's own file.
"""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig
from rigproof.stages.registry import KINDS
from support.acceptance import CHECKOUT
from support.network_hosts import Network
from support.ray_hosts import RayHosts
from support.real_runs import INSIDE

# Only the child that looks for GPUs gets the simulated library.
DRIVERS = """
import runpy, sys
from pathlib import Path
runpy.run_path({inside!r})
if "rigproof.telemetry.inventory" in sys.orig_argv:
    sys.path.append({checkout!r})
    from rigproof.host.nvidia import KernelDriver
    from rigproof.simulation.nvml.library import installed
    from rigproof.simulation.nvml.model import Fault, SimulatedDriver, SimulatedGpu
    driver = SimulatedDriver([])
    exec((Path({folder!r}) / "driver.txt").read_text())
    keep = installed(driver)
    keep.__enter__()
"""
NONE = "driver.inject(Fault('nvmlInitWithFlags', 12))"
BROKEN = "driver.kernel = KernelDriver(True, ('0000:65:00.0',))"
CARDS = {
    "pc1": "driver.gpus = [SimulatedGpu('GPU-pc1')]",
    "pc2": "driver.gpus = [SimulatedGpu('GPU-pc2-a'), SimulatedGpu('GPU-pc2-b', name='NVIDIA H200')]",
}


@pytest.fixture(scope="module")
def hosts() -> Iterator[RayHosts]:
    with Network("pc1", "pc2") as network:
        cluster = RayHosts.of(network)
        for host, more in zip(network.hosts.values(), ({}, {"CUDA_VISIBLE_DEVICES": "0"}), strict=True):
            text = DRIVERS.format(
                inside=str(Path(INSIDE) / "sitecustomize.py"), checkout=str(CHECKOUT), folder=str(host.folder)
            )
            (host.folder / "sitecustomize.py").write_text(text)
            path = {"PYTHONPATH": f"{host.folder}:{CHECKOUT}:{CHECKOUT / 'tests'}"}
            assert cluster.ray_start(host, environment=path | more).returncode == 0
        yield cluster


@pytest.fixture
def have(hosts: RayHosts) -> Callable[..., None]:
    def drivers(**of_host: str) -> None:
        for name, code in of_host.items():
            (hosts.network[name].folder / "driver.txt").write_text(code)

    return drivers


def rigproof(hosts: RayHosts, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line on the head; its own shell says nothing about the cluster's GPUs."""
    return hosts.python(
        hosts.head,
        *("-m", "rigproof", *arguments, f"--ray-address={hosts.address}"),
        environment={"CUDA_VISIBLE_DEVICES": "-1"},
    )


def test_detect_writes_one_profile_of_every_host_with_its_address(
    hosts: RayHosts, have: Callable[..., None], tmp_path: Path
) -> None:
    have(**CARDS)
    done = rigproof(hosts, "detect")
    assert (done.returncode, done.stderr) == (0, "")
    saved = tmp_path / "found.toml"
    saved.write_text(done.stdout)
    loaded = load_rig(str(saved), KINDS)
    assert lint_rig(loaded, "quick") == []
    assert [(node.name, node.address) for node in loaded.rig.nodes] == [
        (name, hosts.network[name].address) for name in ("pc1", "pc2")
    ]
    assert [(one.subject, one.sku_stem) for one in loaded.devices()] == [
        ("pc1/gpu0", "rtx-3090"),
        ("pc2/gpu0", "rtx-3090"),
    ]
    assert "# Not in this rig: pc2 (1 of 2 GPUs hidden by CUDA_VISIBLE_DEVICES=0).\n" in done.stdout


def test_a_host_without_a_gpu_beside_one_with_a_gpu_is_said_to_be_left_out(
    hosts: RayHosts, have: Callable[..., None]
) -> None:
    have(pc1=NONE, pc2=CARDS["pc2"])
    left_out = "pc1 (no GPU), pc2 (1 of 2 GPUs hidden by CUDA_VISIBLE_DEVICES=0)"
    running = hosts.accept(Path("auto"), "--hw-level=quick", "-k", "nodes_present")  # no stage is needed
    run = running.end()
    assert [node["name"] for node in run.result["rig"]["nodes"]] == ["pc2"]
    assert [(one["node"], one["what"]) for one in run.result["not_tested"]] == [
        ("pc1", "no GPU"),
        ("pc2", "1 of 2 GPUs hidden by CUDA_VISIBLE_DEVICES=0"),
    ]
    assert run.output.count(f"not tested: {left_out}") == 2  # at the top, and in the verdict line
    assert f"; not tested: {left_out}\n" in run.output


def test_a_host_whose_gpus_cannot_be_seen_is_refused_by_name(
    hosts: RayHosts, have: Callable[..., None]
) -> None:
    have(pc1=CARDS["pc1"], pc2=BROKEN)
    done = rigproof(hosts, "accept", "--plan")
    assert done.returncode == 4
    complaint = done.stdout + done.stderr
    where = f"--ray-address {hosts.address}: the GPUs of pc2 ({hosts.network['pc2'].address})"
    assert f"{where} cannot" in complaint
    assert "0000:65:00.0" in complaint
    assert "NVRM" in complaint
    assert "Traceback" not in complaint
