"""The facts that every report states before any verdict: rig, nodes, devices, promised and found."""

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rigproof.criteria.checks.cluster import losses_of
from rigproof.criteria.criterion import NotRead
from rigproof.criteria.evidence.counters import growth
from rigproof.criteria.evidence.devices import LOSSES
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.loading.loaded import LeftOut, LoadedRig, left_out_text
from rigproof.records.identity import GpuIdentity, NodeIdentity, RunInfo
from rigproof.records.recording import Recording
from rigproof.stages.registry import KINDS

# Events of every good run: not shown in charts or the live view.
QUIET_EVENTS = frozenset(
    [
        *("allocation", "champions", "earlier_rates", "host_load", "left_out", "memory_policy", "oom_kills"),
        *("reference", "start_up", "worker_up"),
        *(kind for stage in KINDS for kind in stage.quiet_events),
    ]
)
# Events that explain a run and are no trouble: charts mark them, but not in red.
NOTICES = frozenset(
    ["gpu_skipped", "measured_again", "open_cluster", "pairs_tested", "rejected_before", "size_left_out"]
)
REMARKS = ("open_cluster", "rejected_before")


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A promised or found device; `identity` is None if it was promised and did not answer."""

    subject: str
    sku: str | None  # as promised; None if the device was only found
    identity: GpuIdentity | None
    counted: Mapping[str, int] = field(default_factory=dict)  # what went wrong in the run: `_counted`

    @property
    def label(self) -> str:
        """For example `pc1/gpu0 NVIDIA GeForce RTX 3090`."""
        if self.identity is None:
            return f"{self.subject} {self.sku or ''} not found".replace("  ", " ")
        return f"{self.subject} {self.identity.name}"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node and its CPU's `band_percent`; `identity` is None if it was promised and did not answer."""

    name: str
    identity: NodeIdentity | None
    devices: tuple[DeviceFacts, ...]
    band_percent: tuple[float, float] | None = None
    boot_id: str | None = None  # the last one that was read; None if there is none that can be trusted


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The rig as it was promised and found in one run."""

    run: RunInfo
    rig: str
    nodes: tuple[NodeFacts, ...]

    @property
    def devices(self) -> tuple[DeviceFacts, ...]:
        """All devices, in the profile's order."""
        return tuple(device for node in self.nodes for device in node.devices)

    def as_json(self) -> dict[str, Any]:
        """The value of `rig` in verdict.json."""
        return {
            "name": self.rig,
            "profile": self.run.profile,
            "nodes": [_node_json(node) for node in self.nodes],
        }


def run_facts(recording: Recording, loaded: LoadedRig | None = None) -> RunFacts:
    """The facts of a recording, with what its own profile promises, or another one.

    Only what was found if its own profile cannot be restored.
    """
    run = recording.run
    loaded = loaded or restored(recording)
    promised: dict[str, dict[str, str | None]] = {}
    bands: dict[str, tuple[float, float] | None] = {}
    if loaded is not None:
        for node in loaded.rig.nodes:
            promised[node.name] = {}
            cpu = loaded.cpu_of(node.name)
            bands[node.name] = cpu.band_percent if cpu.enabled else None
        for device in loaded.devices():
            promised.setdefault(device.node, {})[device.subject] = device.sku_stem or device.gpu.sku
    for name in recording.nodes:
        promised.setdefault(name, {})
    for subject, gpu in recording.gpus.items():
        promised.setdefault(subject.partition("/")[0], {}).setdefault(subject, gpu.sku)
    boots = {one.subject: one.boot_id for one in recording.boots}
    counted = _counted(recording, loaded)
    nodes = tuple(
        NodeFacts(
            name,
            recording.nodes.get(name),
            tuple(
                DeviceFacts(subject, sku, recording.gpus.get(subject), counted.get(subject, {}))
                for subject, sku in devices.items()
            ),
            bands.get(name),
            boots.get(name),
        )
        for name, devices in promised.items()
    )
    return RunFacts(run, loaded.rig.name if loaded is not None else _plain_name(run.rig), nodes)


def _counted(recording: Recording, loaded: LoadedRig | None) -> dict[str, Counter[str]]:
    """New ECC errors, and workers lost through no fault of others, by device; only what there was."""
    found: dict[str, Counter[str]] = {}
    before, after = (
        {one.subject: one for one in readings if one.moment == moment}
        for moment, readings in (("before", reversed(recording.counters)), ("after", recording.counters))
    )
    for subject in before:
        for name in ("ecc_uncorrected", "ecc_corrected"):
            with suppress(NotRead):
                found.setdefault(subject, Counter())[name] += growth(
                    before[subject], after.get(subject), name, name
                )
    if loaded is not None and any(event.kind in LOSSES for event in recording.events):
        for event in losses_of(Evidence(recording, loaded)):
            if event.kind in LOSSES and "disturbed" not in event.data:
                found.setdefault(event.subject, Counter())["lost_workers"] += 1
    return {subject: +counts for subject, counts in found.items()}


def restored(recording: Recording) -> LoadedRig | None:
    """The recording's own profile; None if it cannot be restored."""
    with suppress(ProfileError, ValueError, KeyError, TypeError, AttributeError):
        return LoadedRig.restore(recording.run.rig, KINDS)
    return None


def _plain_name(rig: Mapping[str, Any]) -> str:
    inner = rig.get("rig")
    name = rig.get("name") or (inner.get("name") if isinstance(inner, Mapping) else None)
    return str(name) if name else "unknown"


def _node_json(node: NodeFacts) -> dict[str, Any]:
    content: dict[str, Any] = {"name": node.name, "found": node.identity is not None}
    if node.identity is not None:
        left_out = ("subject", "agent_pid", "clock_offset_s", "clock_error_s")
        content |= _fields(node.identity, left_out)
    content["boot_id"] = node.boot_id
    content["gpus"] = [_device_json(device) for device in node.devices]
    return content


def _device_json(device: DeviceFacts) -> dict[str, Any]:
    content: dict[str, Any] = {
        "subject": device.subject,
        "found": device.identity is not None,
        "sku": device.sku,
    }
    if device.identity is not None:
        content |= _fields(device.identity, left_out=("subject", "sku"))
    return {**content, **device.counted}


def _fields(identity: NodeIdentity | GpuIdentity, left_out: Collection[str]) -> dict[str, Any]:
    return {name: getattr(identity, name) for name in identity.__slots__ if name not in left_out}


def remarks(recording: Recording) -> tuple[str, ...]:
    """Sentences about how the run was done, or about its cards before it; usually none."""
    return tuple(event.message for event in recording.events if event.kind in REMARKS)


def left_out(recording: Recording) -> tuple[LeftOut, ...]:
    """Hardware that was found beside the rig and not tested, as recorded; what is damaged is skipped."""
    listed = recording.run.rig.get("left_out", ())
    return tuple(
        LeftOut(str(one.get("node")), str(one.get("what")))
        for one in (listed if isinstance(listed, list | tuple) else ())
        if isinstance(one, Mapping)
    )


def not_tested(recording: Recording) -> str:
    """The hardware of `left_out` in a line; empty if there is none."""
    return left_out_text(left_out(recording))
