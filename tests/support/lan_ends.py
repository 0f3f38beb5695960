"""The LAN stage really done between hosts of a network, and judged: each end is a process on its host."""

import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.judge import judge
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.measurements import Event, Round
from rigproof.records.recording import Recording
from rigproof.records.verdict import Verdict
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.lan.criteria import bandwidth
from rigproof.stages.lan.stage import STAGE, LanEnd, LanLatency, LanTraffic
from rigproof.stages.registry import KINDS
from support.acceptance import CHECKOUT
from support.equal_hosts import NONE
from support.lengths import lengths
from support.network_hosts import PATIENCE_S, Host, Network
from support.printing import printed

RECORDS = {one.__name__: one for one in (Round, Event, LanEnd, LanLatency, LanTraffic)}
TCP_S = 3.0  # 0.9 s each way: in 0.36 s a standstill of 0.25 s, as on a busy machine, leaves too few rounds
PORTS = itertools.count(24_000)


@dataclass
class Lan:
    """The LAN between hosts of a network. `records`: of all pairs that were measured so far."""

    network: Network
    records: list[Any] = field(default_factory=list)

    def begin(self, one: str, other: str, *, tcp_s: float = TCP_S, library_s: float = 0.0) -> "Running":
        """Let two hosts begin to exchange data."""
        place = (self.network[one].address, next(PORTS))
        told = {"pair": f"{one}+{other}", "place": place, "tcp_s": tcp_s, "library_s": library_s}
        ends = [
            self._start(self.network[node], told | {"rank": rank, "node": node})
            for rank, node in enumerate((one, other))
        ]
        return Running(self, ends)

    def measure(self, *pairs: tuple[str, str], **lengths_s: float) -> "Lan":
        """Let each of these pairs exchange data, one after the other."""
        for one, other in pairs:
            self.begin(one, other, **lengths_s).finish()
        return self

    def verdict(self, one: str, other: str, **settings: Any) -> Verdict:
        """How a run with these records is judged, whose links are stated to have 1 Gbit/s."""
        loaded, recording = simulated(tuple(self.network.hosts))
        recording = copy(recording)
        for kind in RECORDS.values():
            if kind is Event:
                recording.events = [
                    *recording.events,
                    *(one for one in self.records if isinstance(one, Event)),
                ]
                continue
            kept = [record for record in recording.of(kind) if record.stage != STAGE]
            recording.put(kind, kept + [record for record in self.records if isinstance(record, kind)])
        stage = recording.stages[STAGE]
        specs = {
            name: spec | {"cuda": False, "library_s": self._library_s, "ray_s": 0.0}
            for name, spec in stage.settings["specs"].items()
        }
        recording.stages = {
            **recording.stages,
            STAGE: replace(stage, settings={**stage.settings, "specs": specs}),
        }
        own = loaded.rig.stages
        own = own.model_copy(
            update={STAGE: getattr(own, STAGE).model_copy(update={"link_mbit": 1000.0} | settings)}
        )
        loaded = replace(loaded, rig=loaded.rig.model_copy(update={"stages": own}))
        return judge(bandwidth, f"{one}+{other}", Evidence(recording, loaded))

    @property
    def _library_s(self) -> float:
        return float(any(isinstance(one, Round) and one.label("traffic") != "tcp" for one in self.records))

    @staticmethod
    def _start(host: Host, told: dict[str, Any]) -> subprocess.Popen[str]:
        environment = host.environment({"PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'tests'}"})
        process = subprocess.Popen(
            host.command(sys.executable, "-m", "support.lan_end", json.dumps(told)),
            env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        host.started.append(process)
        return process


@dataclass
class Running:
    """Two ends at work."""

    lan: Lan
    ends: Sequence[subprocess.Popen[str]]

    def until_traffic(self, direction: str = "out") -> None:
        """Wait for the first round of a direction, which its receiver reports."""
        receiver = self.ends[1 if direction == "out" else 0]
        assert receiver.stdout is not None
        for line in receiver.stdout:
            self.lan.records += (found := printed([line], RECORDS))
            if any(isinstance(one, Round) for one in found):
                return

    def finish(self) -> None:
        """Wait for both to end, and keep their records."""
        for one in self.ends:
            output, _ = one.communicate(timeout=PATIENCE_S)
            self.lan.records += printed(output.splitlines(), RECORDS)
            assert one.returncode == 0

    def end(self) -> None:
        """Kill both."""
        for one in self.ends:
            one.kill()
            one.communicate(timeout=PATIENCE_S)


_SIMULATED: dict[tuple[str, ...], tuple[Any, Recording]] = {}


def simulated(nodes: tuple[str, ...]) -> tuple[Any, Recording]:
    """A rig of these nodes, and a run of it, whose LAN is exchanged."""
    if nodes not in _SIMULATED:
        tables = lengths("quick", settle_s=1, measure_s=1, **(NONE | {"sustained": 2, STAGE: 1}))
        found = [
            {
                "name": one,
                "cpus": 16,
                "ram_gib": 64,
                "gpus": [{"sku": "rtx-3090"}],
                "address": f"10.0.0.{number}",
            }
            for number, one in enumerate(nodes, 1)
        ]
        loaded = over_defaults({"name": "lab", **tables, "nodes": found}, "lab.toml", KINDS)
        _SIMULATED[nodes] = loaded, simulated_recording(loaded, "quick")
    return _SIMULATED[nodes]
