"""A real Ray of two logical nodes on this machine, as two `ray start` commands make it on two PCs."""

import secrets
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rigproof.cluster.driver.rig_cluster import RigCluster
from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.identity import RunInfo
from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.stages.registry import KINDS
from rigproof.stages.sustained.stage import SustainedSpec
from support.alone import NONE_IN_ADVANCE
from support.ray_start import Nodes, ray_nodes
from support.real_runs import INSIDE

ROOT = Path(__file__).resolve().parents[2]
SIZE = 256
STALL_S = 8
START_S = 240  # a busy machine takes long to start a Ray; nothing here waits for its end

NODE = """
[[nodes]]
name = "{name}"
cpus = 2
ram_gib = 8
[[nodes.gpus]]
sku = "unknown"
device = "cpu"
gemm_size = {size}
vram_gib_per_worker = 0.02
cpus_per_worker = 1
"""


# The rest is short, so that no file runs alone in the end. Those that only compute come behind the others.
LONGEST_FIRST = (
    *("test_joined", "test_lan", "test_processes", "test_two_nodes", "test_refused", "test_killed_driver"),
    *("test_simulated_ray", "test_two_runs", "test_hurt_workers", "test_surroundings", "test_signals"),
    *("test_small_card", "test_lan_rates", "test_cluster_command", "test_local", "test_slurm"),
    *(
        "test_reservations",
        "test_open_cluster",
        "test_full_disk",
        "test_no_green_without_verdict",
        "test_expected_outcomes",
    ),
    *("test_documented_commands", "test_browser", "test_samples", "test_laps", "test_pictures"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of these files, in whatever folder; the others keep theirs, behind them."""
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[Nodes]:
    """Nodes pc1 (head) and pc2 of one cluster on loopback, with a token."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    variables = {**token, "PYTHONPATH": f"{INSIDE}:{ROOT}", **NONE_IN_ADVANCE}
    with ray_nodes(variables, "rpt-", "pc1", "pc2") as nodes:
        yield nodes


@dataclass
class Rig:
    """A rig of CPU devices, and everything recorded about it."""

    loaded: LoadedRig
    plan: Plan
    recording: Recording = field(
        default_factory=lambda: Recording(RunInfo("r", "2026-01-01T00:00:00Z", "quick", "0", "3", {}, ()))
    )
    begun_s: float = field(default_factory=time.monotonic)

    def now_s(self) -> float:
        return time.monotonic() - self.begun_s

    def cluster(self, address: str | None, **options: Any) -> RigCluster:
        sink = self.recording.add
        return RigCluster(self.loaded, self.plan, ray_address=address, sink=sink, now_s=self.now_s, **options)

    def sustained(self, name: str, duration_s: float) -> tuple[StagePlan, dict[str, Spec]]:
        """A stage in which every worker multiplies for `duration_s`."""
        plan = StagePlan(name, expected_s=duration_s + 1, settle_s=0.5, measure_s=duration_s, round_s=0.05)
        spec = SustainedSpec(name, SIZE, 8, duration_s, 0.5, 0.05)
        return plan, {worker.worker: spec for worker in self.plan.workers}

    def events(self, *kinds: str, stage: str | None = None) -> list[Event]:
        found = [event for event in self.recording.events if event.kind in kinds]
        return [event for event in found if stage is None or event.stage == stage]

    def rounds(self, stage: str, subject: str) -> int:
        return sum(found.stage == stage and found.subject == subject for found in self.recording.rounds)

    def pid_of(self, subject: str) -> int:
        return [worker.pid for worker in self.recording.workers if worker.subject == subject][-1]


def make_rig(folder: Path, *names: str, **timeouts: float) -> Rig:
    """A rig of these nodes with one CPU device each."""
    limits = {"start_s": START_S, "stall_s": STALL_S, "task_s": 30, "stop_s": 12, **timeouts}
    text = 'name = "test"\n[timeouts]\n' + "".join(f"{key} = {value}\n" for key, value in limits.items())
    text += "[sampling]\nrate_hz = 5\n" + "".join(NODE.format(name=name, size=SIZE) for name in names)
    return rig_from(folder, text)


def rig_from(folder: Path, text: str) -> Rig:
    path = folder / "test.toml"
    path.write_text(textwrap.dedent(text))
    loaded = load_rig(str(path), KINDS)
    return Rig(loaded, make_plan(loaded, "quick"))


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Rig]:
    """A rig by the text of its profile."""
    return lambda text: rig_from(tmp_path, text)


@pytest.fixture
def script() -> Callable[[Path], str]:
    """Code of a driver that brings up a local rig, prints its folder, and waits; SIGUSR1: its stacks."""

    def code(folder: Path) -> str:
        make_rig(folder, "host", stop_s=5)  # leaves the profile there
        return f"""
import faulthandler, signal, sys, time
faulthandler.register(signal.SIGUSR1)
sys.path.append({str(ROOT)!r})
for number in (signal.SIGINT, signal.SIGTERM):  # a shell may have started all of this with SIGINT ignored
    signal.signal(number, signal.default_int_handler)
from rigproof.cluster.driver.rig_cluster import RigCluster
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.planning.planning import make_plan
from rigproof.stages.registry import KINDS
loaded = load_rig({str(folder / "test.toml")!r}, KINDS)
plan = make_plan(loaded, "quick")
now_s = time.monotonic
with RigCluster(loaded, plan, ray_address=None, sink=lambda record: None, now_s=now_s) as cluster:
    print(cluster._ground._session.folder, flush=True)
    while True:
        time.sleep(0.1)  # a signal that comes just before a sleep does not cut it short
"""

    return code


@pytest.fixture
def rig_of(tmp_path: Path) -> Callable[..., Rig]:
    return lambda *names, **timeouts: make_rig(tmp_path, *names, **timeouts)


@pytest.fixture(scope="module")
def two_node_rig(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    return make_rig(tmp_path_factory.mktemp("rig"), "pc1", "pc2")
