"""A bench of a simulated recording, which is judged by other settings than the run's."""

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import fields, replace
from typing import Any

from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.measurements import Round
from rigproof.records.recording import Recording
from rigproof.records.samples import GpuSample
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from support.bench import Bench

FIELDS = frozenset(field.name for field in fields(Round))
Where = Mapping[str, Any]


def two_h200(level: Any) -> tuple[Recording, LoadedRig]:
    """A healthy run of two H200, and their rig."""
    loaded = load_rig("h200-x2", KINDS)
    return simulated_recording(loaded, level), loaded


class SimulatedBench(Bench):
    """A copy of a recording whose rig and plan stay; `stage` is the one whose rounds are changed."""

    def __init__(self, recording: Recording, loaded: LoadedRig, stage: str) -> None:
        self.recording = copy(recording)
        self.recording.events = list(recording.events)
        self.recording.gpus = dict(recording.gpus)
        self.recording.stages = dict(recording.stages)
        self.planned_by = self._loaded = loaded
        self.champions = None
        self.of = stage

    def limits(self, **changes: Any) -> None:
        self._rig(limits=self.loaded.rig.limits.model_copy(update=changes))

    def settings(self, stage: str, **changes: Any) -> None:
        own = getattr(self.loaded.rig.stages, stage).model_copy(update=changes)
        self._rig(stages=self.loaded.rig.stages.model_copy(update={stage: own}))

    def floors(self, **floors: float) -> None:
        """The rig's own floors of its first card."""
        node, *others = self.loaded.rig.nodes
        gpu = node.gpus[0]
        own = gpu.model_copy(update={"floors": gpu.floors.model_copy(update=floors)})
        node = node.model_copy(update={"gpus": (own, *node.gpus[1:])})
        self._rig(nodes=(node, *others))

    def unknown(self) -> None:
        """No SKU file describes the cards."""
        self._loaded = replace(self._loaded, skus={})

    def _rig(self, **changes: Any) -> None:
        self._loaded = replace(self._loaded, rig=self._loaded.rig.model_copy(update=changes))

    def change(self, change: Callable[[Round], Round | None], subject: str, **where: Any) -> None:
        """Make each round of the device with these labels what `change` makes of it; None drops it."""

        def other(one: Round) -> Round | None:
            own = (one.subject, one.stage) == (subject, self.of) and where.items() <= one.labels.items()
            return change(one) if own else one

        kept = [new for one in self.recording.rounds if (new := other(one)) is not None]
        self.recording.put(Round, kept)

    def give(self, subject: str, where: Where | None = None, **changes: Any) -> None:
        """Give such rounds other fields and labels; a callable gets the round."""

        def changed(one: Round) -> Round:
            new = {name: by(one) if callable(by) else by for name, by in changes.items()}
            labels = {name: new.pop(name) for name in list(new) if name not in FIELDS}
            return replace(one, labels={**one.labels, **labels}, **new)

        self.change(changed, subject, **where or {})

    def slower(self, subject: str, share: float, **where: Any) -> None:
        """This share of the work in the same time."""
        self.change(lambda one: replace(one, work=share * one.work), subject, **where)

    def without(self, subject: str, **where: Any) -> None:
        self.change(lambda _: None, subject, **where)

    def samples(self, subject: str, from_s: float = 0.0, to_s: float = math.inf, **fields: Any) -> None:
        def other(one: GpuSample) -> GpuSample:
            if one.subject != subject or not from_s <= one.t_s <= to_s:
                return one
            return replace(one, **{name: by(one) if callable(by) else by for name, by in fields.items()})

        self.recording.put(GpuSample, [other(one) for one in self.recording.gpu_samples])

    def happened(self, kind: str, subject: str, message: str = "", t_s: float = 40.0, **data: Any) -> None:
        """An event of the stage's worker."""
        self.event(kind, subject, message, t_s, f"{subject}#0", self.of, **data)
