"""Builds the tables of rigs and SKUs, with the settings, floors and figures that the stages declare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args

from pydantic import BaseModel, Field, create_model

from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.kinds.stages import StageFacts, StageKinds
from rigproof.profiles.tables.base import Overlay, Positive, Table
from rigproof.profiles.tables.gpu import Gpu, MemoryPolicy
from rigproof.profiles.tables.limits import Floors, Limits
from rigproof.profiles.tables.node import CpuLoad, Node
from rigproof.profiles.tables.rig import Rig
from rigproof.profiles.tables.sku import Figure, Sku, SteadyFigures
from rigproof.profiles.tables.stages import StageTables


@dataclass(frozen=True, slots=True)
class Models:
    """The table classes that are built for one list of stages.

    `rig`: a merged rig, in which every required value is present. `rig_file`: a single file of a rig, which
    may leave values out. `sku`: the file of one GPU model. `all`: `rig`, `sku` and the tables built for them,
    by class name.
    """

    rig: type[Rig]
    rig_file: type[Table]
    sku: type[Sku]
    all: Mapping[str, type[Table]]


@cache
def models_of(kinds: StageKinds) -> Models:
    """The table classes for these stages, built once for each list of stages."""
    figures = kinds.figures.values()
    several: Any = tuple
    stages_of_gpu = _own_stages("Gpu", [kind for kind in kinds if not kind.by_node])
    stages_of_node = _own_stages("Node", [kind for kind in kinds if kind.by_node])
    stages = _extended(
        StageTables,
        {kind.name: (kind.settings, Field(description=_summary(kind.settings))) for kind in kinds},
    )
    floors = _extended(Floors, {one.name: _figure(one, Positive) for one in figures if one.floor})
    gpu = _extended(
        Gpu,
        {
            "memory": _optional(Gpu, "memory", partial(MemoryPolicy)),
            "stages": _optional(Gpu, "stages", stages_of_gpu),
            "floors": _optional(Gpu, "floors", floors),
            "limits": _optional(Gpu, "limits", partial(Limits, Limits.of_rig, "OfGpu")),
        },
    )
    cpu = _optional(Node, "cpu", partial(CpuLoad))
    own = _optional(Node, "stages", stages_of_node)
    node = _extended(
        Node, {"gpus": (several[gpu, ...], Node.model_fields["gpus"]), "cpu": cpu, "stages": own}
    )
    nodes = (several[node, ...], Rig.model_fields["nodes"])
    rig = _extended(Rig, {"nodes": nodes, "stages": (stages, Rig.model_fields["stages"])})
    steady = _extended(SteadyFigures, {one.name: _figure(one, Figure) for one in figures})
    steady.products = {one.precision: one.name for one in figures if one.products}
    sku = _extended(Sku, {"steady": _optional(Sku, "steady", steady)})
    built = (rig, sku, node, gpu, floors, stages, stages_of_gpu, stages_of_node, steady)
    return Models(rig, _file(rig), sku, {one.__name__: one for one in built})


def _own_stages(owner: str, kinds: Sequence[StageFacts[Any]]) -> type[Overlay]:
    """The settings of these stages that a single GPU or node can override."""
    own = {}
    for kind in kinds:
        settings: Any = kind.settings
        table = partial(settings, settings.of_rig, f"Of{owner}")
        own[kind.name] = (table | None, Field(default=None, description=_summary(kind.settings)))
    made: type[Overlay] = create_model(f"StagesOf{owner}", __base__=Overlay, **own)  # type: ignore[call-overload]
    return made


@cache
def partial(model: Any, without: frozenset[str] = frozenset(), suffix: str = "") -> type[Overlay]:
    """The table with every key optional (None: left out) and without the keys of `without`.

    `suffix` is added to its class name.
    """
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if name in without:
            continue
        kind: Any = field.annotation
        if _is_table(kind):
            kind = partial(kind)
            fields[name] = (kind, Field(default=kind(), description=field.description))
            continue
        for metadata in field.metadata:
            kind = Annotated[kind, metadata]
        own = Field(default=None, description=field.description, json_schema_extra=field.json_schema_extra)
        fields[name] = (kind | None, own)
    name = f"{model.__name__}{suffix}"
    made: type[Overlay] = create_model(name, __base__=Overlay, __doc__=model.__doc__, **fields)
    return made


def _file(rig: type[Rig]) -> type[Table]:
    """The table of one rig file: like a merged rig, but any table or any part of a table may be left out."""
    fields: dict[str, Any] = {}
    for name, field in rig.model_fields.items():
        kind: Any = field.annotation
        if _is_table(kind) and (field.is_required() or field.default is None):
            kind = partial(kind)
            fields[name] = (kind, Field(default=kind(), description=field.description))
        else:
            fields[name] = (kind, field)
    made: type[Table] = create_model(rig.__name__, __base__=Table, __doc__=rig.__doc__, **fields)
    return made


def _extended(model: Any, fields: dict[str, Any]) -> Any:
    """The table with these fields added, or replacing its own."""
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, **fields)


def _optional(model: type[Table], name: str, kind: type[Table]) -> tuple[type[Table], Any]:
    """A field of a table that may be left out."""
    return kind, Field(default=kind(), description=model.model_fields[name].description)


def _figure(kind: FigureKind, value: Any) -> tuple[Any, Any]:
    return value | None, Field(default=None, description=f"{kind.unit}: {kind.description}.")


def _is_table(annotation: Any) -> bool:
    return isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, BaseModel)


def _summary(model: type[Table]) -> str:
    return " ".join((model.__doc__ or "").split("\n\n")[0].split())
