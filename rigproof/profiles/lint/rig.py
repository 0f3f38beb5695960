"""Check profiles: reject plans that do not fit and limits that nothing could violate, before any load."""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from rigproof.host.addresses import same_host
from rigproof.profiles.errors import ProfileError, problem
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.lint.inherited import inherited_warnings
from rigproof.profiles.lint.limits import card_limit_problems, length_problems, level_problems, limit_problems
from rigproof.profiles.lint.memory import policy_problems
from rigproof.profiles.lint.sku import floor_problems, lint_sku
from rigproof.profiles.lint.stated import rig_problem
from rigproof.profiles.loading.files import stems
from rigproof.profiles.loading.load import load_rig, load_sku
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.loading.xids import xid_catalogue
from rigproof.profiles.planning.operands import context_gib, fitting_size, gemm_mib
from rigproof.profiles.planning.planning import (
    MIB_PER_GIB,
    DevicePlan,
    device_plan,
    make_plan,
    unknown_memory,
)
from rigproof.profiles.tables.levels import LEVELS, LevelName
from rigproof.records.grouping import grouped
from rigproof.records.verdict import count_of

ROUNDING = 1e-6  # sums of shares in binary


def lint_all(kinds: StageKinds, profiles: list[str] | None = None) -> list[str]:
    """Problems of the named rigs and their SKUs; of everything shipped if none is named."""
    found: list[str] = []
    for name in profiles or stems("rigs"):
        try:
            found += lint_rig(load_rig(name, kinds))
        except ProfileError as error:
            found += error.problems
    if not profiles:
        for stem in stems("gpus"):
            try:
                found += lint_sku(f"hwprofiles/gpus/{stem}.toml", load_sku(stem, kinds), kinds)
            except ProfileError as error:
                found += error.problems
        try:
            xid_catalogue()
        except ProfileError as error:
            found += error.problems
    return list(dict.fromkeys(found))


def lint_rig(loaded: LoadedRig, level: LevelName | None = None) -> list[str]:
    """Reasons why this rig's plan at a level cannot fit, or its limits cannot fail; empty if there are none.

    `level`: that of a run; None: every level. Values that a run on this machine fills in before its plan is
    made (`auto.completed`) may be missing.
    """
    devices = loaded.devices()
    found_later = _found_later(loaded)
    found: list[str] = []
    if not devices:
        found.append(
            problem(
                loaded.file, "nodes", [], "no node has a GPU", "write a [[nodes.gpus]] table with its sku"
            )
        )
    for device in devices:
        missing = unknown_memory(loaded, device)
        found += missing
        if found_later.issuperset(missing):
            found += _plan_problems(loaded, device)
        found += floor_problems(loaded, device)
        found += card_limit_problems(loaded, device)
    found += _node_problems(loaded)
    found += limit_problems(loaded)
    found += level_problems(loaded)
    for one in LEVELS if level is None else (level,):
        found += length_problems(loaded, one)
        for kind in loaded.kinds:
            found += kind.lint(loaded, one)
    for stem, sku in loaded.skus.items():
        found += lint_sku(f"hwprofiles/gpus/{stem}.toml", sku, loaded.kinds)
    try:
        make_plan(loaded, level or "standard")
    except ProfileError as error:
        found += error.problems
    return [line for line in dict.fromkeys(found) if line not in found_later]


def lint_doubts(loaded: LoadedRig) -> list[str]:
    """Remarks about this rig that refuse no run; empty if nothing may be wrong."""
    found = [*_name_doubts(loaded), *inherited_warnings(loaded), *_node_doubts(loaded)]
    for kind in loaded.kinds:
        found += kind.doubts(loaded)
    return found


def _name_doubts(loaded: LoadedRig) -> list[str]:
    """A remark on a copy of a shipped rig that still has its name: both would be kept in one folder."""
    name = loaded.rig.name
    shipped = f"hwprofiles/rigs/{name}.toml"
    if name not in stems("rigs") or loaded.file == shipped:
        return []
    kept = f"{shipped} has it too, and the histories and champions of both are kept as one rig's"
    return [problem(loaded.file, "name", name, kept, "write a name of your own")]


def _found_later(loaded: LoadedRig) -> set[str]:
    """Problems that the run solves by itself: memory sizes of this machine's cards that are not known yet.

    Empty for a rig of other machines.
    """
    if loaded.this_machine() is None:
        return set()
    return {line for device in loaded.devices() for line in unknown_memory(loaded, device)}


def _device_problem(loaded: LoadedRig, device: PromisedDevice, name: str, default: str, *rest: Any) -> str:
    """A problem of a planned value: where the GPU states it, where `gpu_defaults` does, or where it could."""
    own, shared = f"{device.key}.{name}", f"gpu_defaults.{default}"
    if own in loaded.sources or loaded.states(shared):
        return rig_problem(loaded, own if own in loaded.sources else shared, *rest)
    value, wrong, way_out = rest
    sku = f"{device.key}.sku"
    key = f"{loaded.written(sku).removesuffix('sku')}{name}"
    return problem(loaded.source_of(sku), key, value, f"(the default) {wrong}", way_out)


def _plan_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    plan = device_plan(loaded, device)
    yield from _memory_problem(loaded, device, plan)
    yield from _operand_problem(loaded, device, plan)
    yield from policy_problems(loaded, device, plan)
    if plan.gpu_share * plan.workers > 1 + ROUNDING:
        wrong = f"{plan.workers} workers × {plan.gpu_share:g} of {device.subject} are more than the whole"
        way_out = f"write {int(100 / plan.workers) / 100:g} or less, or fewer workers"
        yield rig_problem(loaded, f"{device.key}.gpu_share", plan.gpu_share, wrong, way_out)


def _memory_problem(loaded: LoadedRig, device: PromisedDevice, plan: DevicePlan) -> Iterator[str]:
    """A problem if the workers' VRAM does not fit the card less their contexts and the judged headroom."""
    headroom_gib = device.limits.headroom_gib or 0.0
    if plan.vram_mib is None or plan.memory_gib is None:
        return
    vram_gib = plan.vram_mib / MIB_PER_GIB
    each_gib = context_gib(_compute_capability(device))
    contexts_gib = plan.workers * each_gib if device.gpu.device == "cuda" else 0.0
    most_gib = plan.memory_gib - headroom_gib - contexts_gib
    if vram_gib * plan.workers <= most_gib + ROUNDING:
        return
    name = "vram_share" if device.gpu.vram_gib_per_worker is None else "vram_gib_per_worker"
    default = "cpu_vram_share" if device.gpu.device == "cpu" else "vram_share"
    most = most_gib / (plan.memory_gib if name == "vram_share" else plan.workers)
    contexts = f" and {plan.workers} × {each_gib:g} GiB for CUDA contexts" if contexts_gib else ""
    yield _device_problem(
        loaded,
        device,
        name,
        default,
        getattr(device.gpu, name) or getattr(loaded.rig.gpu_defaults, default),
        f"{plan.workers} × {vram_gib:.2f} GiB do not fit {device.subject}: {plan.memory_gib:g} GiB less "
        f"{headroom_gib:g} GiB headroom{contexts}",
        f"write {name} = {int(100 * most) / 100:g} or less" if most >= 0.01 else "this device is too small",
    )


def _compute_capability(device: PromisedDevice) -> tuple[int, int] | None:
    """The SKU's compute capability as (major, minor); None if its file states none, or not as "9.0"."""
    written = device.sku.compute_capability if device.sku is not None else None
    major, dot, minor = (written or "").partition(".")
    return (int(major), int(minor)) if dot and major.isdecimal() and minor.isdecimal() else None


def _operand_problem(loaded: LoadedRig, device: PromisedDevice, plan: DevicePlan) -> Iterator[str]:
    """A problem if the gemm stage's fp32 matrices do not fit one worker's memory."""
    if plan.vram_mib is None:
        return
    needed_mib = gemm_mib(plan.gemm_size)
    if needed_mib <= plan.vram_mib:
        return
    size = fitting_size(plan.gemm_size, plan.vram_mib)
    default = "cpu_gemm_size" if device.gpu.device == "cpu" else "gemm_size"
    yield _device_problem(
        loaded,
        device,
        "gemm_size",
        default,
        plan.gemm_size,
        f"five fp32 matrices take {needed_mib:.0f} MiB, "
        f"a worker of {device.subject} has {plan.vram_mib:.0f} MiB",
        f"write gemm_size = {size}, or give it more memory"
        if gemm_mib(size) <= plan.vram_mib
        else "give it more memory",
    )


def _node_problems(loaded: LoadedRig) -> Iterator[str]:
    """More CPUs reserved than a node has, and names, addresses or cards that two of the rig have."""
    uuids: dict[str, str] = {}
    addresses: dict[str, str] = {}
    names: dict[str, str] = {}
    by_node = grouped(loaded.devices(), lambda device: device.node)
    for node in loaded.rig.nodes:
        devices, key = by_node.get(node.name, []), f"nodes.{node.name}"
        plans = [device_plan(loaded, one) for one in devices]
        planned = sum(plan.workers * plan.cpus for plan in plans)
        if node.cpus is not None and planned > node.cpus + ROUNDING:
            wrong = f"the workers of {node.name} reserve {count_of(planned, 'CPUs')}"
            yield rig_problem(loaded, f"{key}.cpus", node.cpus, wrong, "lower cpus_per_worker or workers")
        yield from _thread_problem(loaded, node.name)
        if other := _taken(names, _folded(node.name), node.name):
            where = loaded.source_of(f"nodes.{other}.address", f"nodes.{other}.name")
            wrong = f'"{other}" of {where} differs from it in capitals alone, and both would be promised'
            way_out = f'write "{other}" if the same machine is meant, else a name of its own'
            yield rig_problem(loaded, f"{key}.name", node.name, wrong, way_out)
        if node.address and (other := _taken(addresses, _folded(node.address), node.name)):
            wrong = f"{other} also has this address"
            yield rig_problem(loaded, f"{key}.address", node.address, wrong, "give each node its own")
        for device in devices:
            uuid = device.gpu.uuid
            if uuid is not None and (other := _taken(uuids, uuid, device.subject)):
                wrong = f"{other} is also pinned to this card"
                way_out = "pin each subject to its own card, or leave uuid out"
                yield rig_problem(loaded, f"{device.key}.uuid", uuid, wrong, way_out)


def _taken(owners: dict[str, str], value: str, owner: str) -> str:
    """Who had this value before; empty if nobody, and then it is `owner`'s."""
    first = owners.setdefault(value, owner)
    return "" if first == owner else first


def _folded(host: str) -> str:
    """A host's name as DNS compares it."""
    return host.lower().rstrip(".")


def _node_doubts(loaded: LoadedRig) -> Iterator[str]:
    """Hosts that may be one machine, and addresses at which no other machine of the rig could reach one."""
    nodes = loaded.rig.nodes
    for number, node in enumerate(nodes):
        called = node.address or node.name
        for other in nodes[:number]:
            theirs = other.address or other.name
            if same_host(called, theirs) and node.address != other.address:
                yield (
                    f"{loaded.file}: {other.name} and {node.name} may be one machine, as {theirs} and "
                    f"{called} may be one host's name; write the IP address of each"
                )
        if len(nodes) > 1 and node.address is not None and _of_itself(node.address):
            wrong = "every machine calls itself that, so the others cannot reach it there"
            way_out = "write the address as `ip address` shows it on that machine, such as 192.168.1.10"
            yield rig_problem(loaded, f"nodes.{node.name}.address", node.address, wrong, way_out)


def _of_itself(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return _folded(address) == "localhost"


def _thread_problem(loaded: LoadedRig, node: str) -> Iterator[str]:
    """Threads of a node's CPU load that are more than its CPUs, at the key that states one of the shares."""
    cpu = loaded.cpu_of(node)
    first, second = cpu.primary_thread_share, cpu.secondary_thread_share
    if first + second <= 1 + ROUNDING:
        return
    keys = [
        f"{table}.{key}"
        for table in (f"nodes.{node}.cpu", "cpu")
        for key in ("secondary_thread_share", "primary_thread_share")
    ]
    key = next((key for key in keys if key in loaded.sources), keys[-1])
    value = first if key.endswith("primary_thread_share") else second
    wrong = f"primary {first:g} and secondary {second:g} together are more than all CPUs"
    way_out = "let both together be 1 at most, such as 0.70 and 0.15"
    yield rig_problem(loaded, key, value, wrong, way_out)
