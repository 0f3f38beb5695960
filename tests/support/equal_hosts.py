"""Rigs of equal hosts of which one stage measures each, and their simulated recordings, to be changed."""

from copy import copy
from dataclasses import replace
from typing import Any

from rigproof.criteria.criterion import Criterion
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.judge import judge
from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.measurements import Round
from rigproof.records.recording import Recording
from rigproof.records.verdict import Verdict
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.kind import StageWork
from rigproof.stages.registry import KINDS
from support.lengths import lengths

NONE = dict.fromkeys((kind.name for kind in KINDS if "length_s" in kind.settings.model_fields), 0)


def host_rig(stage: str, nodes: int = 3, settings: Any = None, **of_first: Any) -> LoadedRig:
    """Nodes n1, n2, … in `lab.toml`, for a run of this stage. `of_first`: keys of n1 alone."""
    node = {"cpus": 16, "ram_gib": 64, "gpus": [{"sku": "rtx-3090"}]}
    named: list[Any] = [node | {"name": f"n{one}", "address": f"10.0.0.{one}"} for one in range(1, nodes + 1)]
    named[0] |= of_first
    tables = lengths("standard", settle_s=1, measure_s=1, **(NONE | {"sustained": 2, stage: 3}))
    tables["stages"][stage] |= settings or {}
    return over_defaults({"name": "lab", **tables, "nodes": named}, "lab.toml", KINDS)


def asked(loaded: LoadedRig, stage: str, cpus: float) -> dict[str, Any]:
    """What each worker is asked to do in the stage, on nodes of so many CPUs."""
    plan = make_plan(loaded, "standard")
    nodes = {node.name: cpus for node in loaded.rig.nodes}
    return KINDS[stage].specs(StageWork(loaded, plan, plan.stage(stage), nodes))


class HostRun:
    """A run of the stage on such a rig; what is changed in one does not show in others."""

    def __init__(self, loaded: LoadedRig, criterion: Criterion, recording: Recording | None = None) -> None:
        self.loaded = loaded
        self.criterion = criterion
        self.recording = copy(recording or simulated_recording(loaded, "standard"))
        self.recording.nodes = dict(self.recording.nodes)

    def verdict(self, node: str = "n1") -> Verdict:
        return judge(self.criterion, node, Evidence(self.recording, self.loaded))

    def change(self, kind: type, node: str = "n1", **changes: Any) -> None:
        """Change the node's own records of that type."""
        made = [replace(one, **changes) if one.subject == node else one for one in self.recording.of(kind)]
        self.recording.put(kind, made)

    def slow(self, by: float, node: str = "n1", operation: str | None = None) -> None:
        """Multiply the work of the node's rounds, of one operation if that is given."""
        self.recording.put(
            Round,
            [
                replace(one, work=one.work * by)
                if one.subject == node and operation in (None, one.label("operation"))
                else one
                for one in self.recording.rounds
            ],
        )

    def rounds(self, operation: str, phase: str = "measure") -> list[Round]:
        """The rounds of n1 that did this."""
        found = (one for one in self.recording.rounds if one.subject == "n1")
        return [one for one in found if (one.label("operation"), one.phase) == (operation, phase)]

    def exchange(self, old: list[Round], *new: Round) -> None:
        """Exchange rounds for others."""
        self.recording.put(Round, [one for one in self.recording.rounds if one not in old] + list(new))
