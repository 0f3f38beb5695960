"""A rig as it was loaded: merged, checked, with the file that every value came from."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from rigproof.profiles.errors import ProfileError
from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.loading.files import CPU_DEFAULTS, DEFAULTS
from rigproof.profiles.loading.merge import Layer
from rigproof.profiles.loading.xids import XidCatalogue, xid_catalogue
from rigproof.profiles.tables.base import LimitKey, Table
from rigproof.profiles.tables.gpu import Gpu, MemoryPolicy
from rigproof.profiles.tables.limits import Limits
from rigproof.profiles.tables.node import CpuLoad, Node
from rigproof.profiles.tables.rig import Rig
from rigproof.profiles.tables.sku import Sku
from rigproof.profiles.tables.stages import StageSettings
from rigproof.records.message_text import first_problem, one_line

_EXTRA_KEYS = ("skus", "sources", "file", "left_out")
NODES_SHOWN = 4  # that are left out for the same reason
_Table = TypeVar("_Table", bound=Table)
_Settings = TypeVar("_Settings", bound=StageSettings)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Hardware of a node that `auto` found and does not test: `no GPU`, `1 of 2 GPUs hidden by …`."""

    node: str
    what: str


_SOURCES = TypeAdapter(dict[str, str])
_LEFT_OUT = TypeAdapter(tuple[LeftOut, ...])


@dataclass(frozen=True)
class PromisedDevice:
    """A promised device with everything that the profile states about it.

    `limits` are the rig's limits with the GPU's own over them; `stages` are the settings of each stage in the
    same way, by the stage's name. `key` is what the device's keys in `LoadedRig.sources` begin with.
    """

    subject: str  # "pc1/gpu0", or "host/cpu0" for the CPU as the device
    node: str
    index: int  # among the node's devices of its kind
    gpu: Gpu
    sku: Sku | None
    sku_stem: str | None
    limits: Limits
    stages: Mapping[str, StageSettings] = field(hash=False)
    key: str  # "nodes.pc1.gpus.0"

    def settings(self, table: type[_Settings]) -> _Settings:
        """The settings of the stage whose table this is."""
        return _of_type(self.stages, table)


@dataclass(frozen=True)
class LoadedRig:
    """A rig merged over `extends` and the defaults, complete.

    `kinds` are the stages that it has settings for: all stages, or for a recorded rig those of its run.
    `skus` holds the SKUs that its GPUs name, by file stem. `sources` maps a dotted key, with nodes by name,
    to the file that the value came from: `"nodes.pc1.gpus.0.sku": "hwprofiles/rigs/lab.toml"`. `written_keys`
    maps the same keys to their spelling in that file (`nodes[0].gpus[0].sku`), for messages. `xids` is the
    shipped catalogue, also for a recorded rig. `left_out` is what was found beside the rig and is not of it.
    `layers` are the tables of its files as they were read: those that it extends, the farthest first, and
    last its own; none of a recorded rig.
    """

    rig: Rig
    skus: dict[str, Sku]
    sources: dict[str, str]
    file: str
    kinds: StageKinds = field(compare=False, repr=False)
    written_keys: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    xids: XidCatalogue = field(default_factory=xid_catalogue, compare=False, repr=False)
    left_out: tuple[LeftOut, ...] = ()
    layers: tuple[Layer, ...] = field(default=(), compare=False, repr=False)

    def source_of(self, *keys: str) -> str:
        """The file of the first of `keys` that has one; the rig's own file if none has."""
        return next((self.sources[key] for key in keys if key in self.sources), self.file)

    def stated(self, key: LimitKey[_Value], of: "PromisedDevice | Node | None" = None) -> tuple[_Value, str]:
        """The value of a limit and the file that states it: a device's or a node's own, else the rig's.

        KeyError for a stage that the run of a recorded rig did not know.
        """
        stage = key.table.removeprefix("stages.")
        if stage != key.table:
            stages = self._overlaid_stages(of.stages) if isinstance(of, Node) else (of or self).stages
            table: Table = stages[stage]
        elif isinstance(of, PromisedDevice) and key.table == "limits":
            table = of.limits
        elif isinstance(of, Node) and key.table == "cpu":
            table = self.cpu_of(of.name)
        else:
            table = getattr(self.rig, key.table)
        own = "" if of is None else of.key if isinstance(of, PromisedDevice) else f"nodes.{of.name}"
        return getattr(table, key.name), self.source_of(f"{own}.{key}", str(key))

    @property
    def named(self) -> str:
        """The rig's name in a command: the name of a shipped one, the file of another one."""
        file = Path(self.file)
        shipped = file.parent == Path("hwprofiles/rigs")
        return file.stem if shipped else self.file if "/" in self.file else f"./{self.file}"

    def states(self, key: str) -> bool:
        """Whether a key has a value of the rig's own, stated or found on this machine, not the default."""
        return self.sources.get(key, DEFAULTS) not in (DEFAULTS, CPU_DEFAULTS)

    def written(self, key: str) -> str:
        """A dotted key as it is written in its file."""
        return self.written_keys.get(key, key)

    def cpu_of(self, node: str) -> CpuLoad:
        """The CPU load of a node: its own values over those of the rig. KeyError for an unknown node."""
        return _overlaid(self.rig.cpu, self.node(node).cpu)

    def settings_of(self, node: str, table: type[_Settings]) -> _Settings:
        """The settings of a stage that measures hosts: a node's own values over those of the rig.

        KeyError for an unknown node.
        """
        return _of_type(self._overlaid_stages(self.node(node).stages), table)

    def memory_of(self, device: PromisedDevice) -> MemoryPolicy:
        """How a device's workers take VRAM: its own values over those of the rig."""
        return _overlaid(self.rig.memory, device.gpu.memory)

    @cached_property
    def stages(self) -> dict[str, StageSettings]:
        """The settings of each stage, by its name; a device can have others (`PromisedDevice.stages`)."""
        return {kind.name: getattr(self.rig.stages, kind.name) for kind in self.kinds}

    def settings(self, table: type[_Settings]) -> _Settings:
        """The settings of the stage whose table this is."""
        return _of_type(self.stages, table)

    def _overlaid_stages(self, overlay: Table) -> dict[str, StageSettings]:
        """The rig's stages with what a GPU or node states of them."""
        own = {
            name: stated
            for name in overlay.model_fields_set
            if (stated := getattr(overlay, name)) is not None
        }
        if not own:
            return self.stages
        return {
            name: _overlaid(below, own[name]) if name in own else below for name, below in self.stages.items()
        }

    def node(self, name: str) -> Node:
        """The promised node of that name. KeyError if there is none."""
        return self._nodes[name]

    @cached_property
    def _nodes(self) -> dict[str, Node]:
        return {node.name: node for node in reversed(self.rig.nodes)}  # the first node of a name wins

    def this_machine(self) -> Node | None:
        """The node that is the machine the suite runs on: a single one without an address; else None."""
        nodes = self.rig.nodes
        return nodes[0] if len(nodes) == 1 and nodes[0].address is None else None

    def devices(self) -> tuple[PromisedDevice, ...]:
        """Every promised device, node by node, in the order of the profile."""
        return self._devices

    @cached_property
    def _devices(self) -> tuple[PromisedDevice, ...]:
        return tuple(device for node in self.rig.nodes for device in self._devices_of(node))

    def _devices_of(self, node: Node) -> list[PromisedDevice]:
        devices = []
        seen = {"cuda": 0, "cpu": 0}
        for position, gpu in enumerate(node.gpus):
            index = seen[gpu.device]
            seen[gpu.device] += 1
            devices.append(
                PromisedDevice(
                    subject=f"{node.name}/{'gpu' if gpu.device == 'cuda' else 'cpu'}{index}",
                    node=node.name,
                    index=index,
                    gpu=gpu,
                    sku=self.skus.get(gpu.sku),
                    sku_stem=gpu.sku if gpu.sku in self.skus else None,
                    limits=_overlaid(self.rig.limits, gpu.limits),
                    stages=self._overlaid_stages(gpu.stages),
                    key=f"nodes.{node.name}.gpus.{position}",
                )
            )
        return devices

    def dump(self) -> dict[str, Any]:
        """Plain data that `restore` reads: the rig's own tables, beside them `skus`, `sources` and `file`.

        And `left_out`, if there is any.
        """
        return {
            **self.rig.model_dump(mode="json", exclude_none=True),
            "skus": {stem: sku.model_dump(mode="json", exclude_none=True) for stem, sku in self.skus.items()},
            "sources": dict(self.sources),
            "file": self.file,
            **({"left_out": [asdict(one) for one in self.left_out]} if self.left_out else {}),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, since tables that are made at run time have no name to be found by."""
        return _unpickled, (self.dump(), self.kinds, dict(self.written_keys), self.layers)

    @classmethod
    def restore(cls, dumped: Mapping[str, Any], kinds: StageKinds) -> "LoadedRig":
        """The rig that `dump` wrote, directly or through JSON. Raises ProfileError if it is damaged.

        The rig knows those stages of `kinds` that it has settings for; the others were added to rigproof
        after its run.
        """
        try:
            known = kinds.only(dumped["stages"])
            return cls(
                rig=models_of(known).rig.model_validate(
                    {key: value for key, value in dumped.items() if key not in _EXTRA_KEYS}
                ),
                skus=_skus_of(known).validate_python(dumped["skus"]),
                sources=_SOURCES.validate_python(dumped["sources"]),
                file=str(dumped["file"]),
                kinds=known,
                left_out=_LEFT_OUT.validate_python(dumped.get("left_out", ())),
            )
        except (ValidationError, KeyError, TypeError, AttributeError) as error:
            what = first_problem(error) if isinstance(error, ValidationError) else one_line(str(error))
            raise ProfileError(
                [f"recording: its rig is damaged at {what}; judge by a profile of your own with --hwprofile"]
            ) from None


def _unpickled(
    dumped: Mapping[str, Any], kinds: StageKinds, written: Mapping[str, str], layers: tuple[Layer, ...]
) -> LoadedRig:
    return replace(LoadedRig.restore(dumped, kinds), written_keys=written, layers=layers)


def left_out_text(left_out: Iterable[LeftOut]) -> str:
    """All hardware that is not tested, in a line: `pc2 and pc3 (no GPU), pc1 (1 of 2 GPUs hidden by …)`."""
    nodes: dict[str, list[str]] = {}
    for one in left_out:
        nodes.setdefault(one.what, []).append(one.node)
    return ", ".join(f"{_some(names)} ({what})" for what, names in nodes.items())


def _some(names: list[str]) -> str:
    if len(names) > NODES_SHOWN:
        names = [*names[: NODES_SHOWN - 1], f"{len(names) - NODES_SHOWN + 1} more"]
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _overlaid(below: _Table, own: Table) -> _Table:
    """`below` with every value that `own` states."""
    stated = {key: value for key in own.model_fields_set if (value := getattr(own, key)) is not None}
    return below.model_copy(update=stated) if stated else below


def _of_type(stages: Mapping[str, StageSettings], table: type[_Settings]) -> _Settings:
    return next(one for one in stages.values() if isinstance(one, table))


@cache
def _skus_of(kinds: StageKinds) -> TypeAdapter[dict[str, Sku]]:
    sku: Any = models_of(kinds).sku
    return TypeAdapter(dict[str, sku])
