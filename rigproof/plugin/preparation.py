"""From the options to a checked profile and plan. All refusals happen here, before any load."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigproof.cluster.ray.inventories import cluster_hosts
from rigproof.cluster.ray.preconditions import (
    ClusterError,
    ClusterUnreachable,
    check_listening,
    check_ray_version,
)
from rigproof.history.champions import ChampionError, StoredChampions, champions_folder, read_champions
from rigproof.host.run_lock import VARIABLE, unusable
from rigproof.plugin.notice import unreadable
from rigproof.plugin.request import Request
from rigproof.profiles.auto import AUTO, completed, hidden_here, rig_of, rig_of_hosts, unknown_gpus
from rigproof.profiles.errors import ProfileError, problem
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.identity import HostInventory
from rigproof.records.message_text import one_line
from rigproof.run.simulated.making import NotSimulated, simulated_rig
from rigproof.run.surroundings import lacking
from rigproof.simulation.host import simulated_inventory
from rigproof.stages.registry import KINDS
from rigproof.telemetry.inventory import Detection, detect

if TYPE_CHECKING:
    from rigproof.simulation.rig import SimulatedRig

DETECTION_LIMIT_S = 20.0


class Refused(Exception):  # noqa: N818 - says what is the case
    """The run cannot begin; the message says what to change. Becomes exit status 4."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that was read and checked before a run."""

    request: Request
    loaded: LoadedRig
    level: LevelName
    plan: Plan
    inventory: HostInventory  # this machine, as found
    champions: StoredChampions  # this rig's, as kept before the run
    simulated: "SimulatedRig | None" = None  # instead of a real one


def prepare(request: Request, detection: Detection | None = None) -> Prepared:
    """Load the rig, complete it from this machine, lint and plan it, read its champions.

    `detection` looks at this machine already. Raises Refused.
    """
    if request.simulate != "inline":  # which does not need Ray
        check_ray_version(Refused)
    if request.notify is not None and (why := unreadable(request.notify)):
        raise Refused(f"--hw-notify {one_line(request.notify)}: {why}; correct the command")
    try:
        loaded, inventory = _rig(request, detection)
        promises_gpu = any(device.gpu.device == "cuda" for device in loaded.devices())
        if request.require_gpu and not promises_gpu:
            raise Refused(
                f"{loaded.file}: promises no GPU, but --hw-require-gpu requires one; leave out "
                "--hw-require-gpu, or name a rig with a GPU"
            )
        level: LevelName = request.level or ("standard" if promises_gpu else "quick")
        problems = lint_rig(loaded, level)
        if problems:
            raise Refused("\n".join(problems))
        plan = make_plan(loaded, level, request.duration_s)
        champions = read_champions(champions_folder(request.report_dir, loaded.rig.name))
    except (ProfileError, ChampionError, ClusterError) as error:
        raise Refused(str(error)) from error
    simulated = _simulated(request, loaded, plan)
    if request.ray_address is not None:
        _check_reachable(request.ray_address)
    return Prepared(request, loaded, level, plan, inventory, champions, simulated)


def require_surroundings(prepared: Prepared) -> None:
    """Refuse a run whose lock or Ray could not work on this host, whatever the rig is. Raises Refused."""
    request = prepared.request
    if prepared.simulated is None and (why := unusable()):
        raise Refused(
            f"{VARIABLE} = {os.environ[VARIABLE]}: {why}; no other run could be kept away; mount that "
            "folder, or unset the variable"
        )
    if request.ray_address is None and request.simulate != "inline":
        problems = lacking(prepared.loaded, prepared.plan, simulated=prepared.simulated is not None)
        if problems:
            raise Refused("\n".join(problems))


def _rig(request: Request, detection: Detection | None) -> tuple[LoadedRig, HostInventory]:
    """The promised rig and this machine. Raises ProfileError; Refused if NVML cannot show what is there."""
    stated = None if request.profile == AUTO else load_rig(request.profile, KINDS)
    if request.simulate is not None:
        if stated is None:
            raise Refused(
                "--hw-simulate: there is no rig to simulate; name one, such as --hwprofile dual-3090-3070"
            )
        inventory = simulated_inventory(stated)
        return completed(stated, inventory), inventory
    look = detect if detection is None else detection.result
    inventory = look(DETECTION_LIMIT_S)
    if stated is not None:
        if request.ray_address is None:  # else what counts is the environment of each node's Ray
            _refuse_hidden(stated, inventory)
        if inventory.nvml_error is not None:
            _refuse_unseen(stated, inventory.nvml_error)
        return completed(stated, inventory), inventory
    if request.ray_address is not None:
        hosts = cluster_hosts(request.ray_address, allow_open=request.allow_open)
        return rig_of_hosts(hosts, KINDS, require_gpu=request.require_gpu), inventory
    if inventory.setting_error is not None:
        raise Refused(f"{AUTO}: {inventory.setting_error}")
    if inventory.doubt is not None:
        raise Refused(
            f"{AUTO}: the GPUs of this machine cannot all be found: {inventory.doubt}; then run again, or "
            "name a profile that states the rig: --hwprofile NAME"
        )
    return rig_of(inventory, KINDS, require_gpu=request.require_gpu), inventory


def _simulated(request: Request, loaded: LoadedRig, plan: Plan) -> "SimulatedRig | None":
    """The rig to simulate, with its faults; None for a real rig. Raises Refused."""
    if request.simulate is None:
        if request.inject:
            raise Refused(
                f"--hw-inject {request.inject[0]}: real hardware has its own faults; add --hw-simulate"
            )
        if request.seed is not None:
            raise Refused(f"--hw-simulate-seed {request.seed}: nothing is simulated; add --hw-simulate")
        if request.keep_history:
            raise Refused("--hw-keep-history: the good rates of a real run are kept anyway; leave it out")
        return None
    if request.ray_address is not None:
        raise Refused(
            f"--hw-ray-address {request.ray_address}: a simulated rig is on this machine; leave out the "
            "option"
        )
    try:
        return simulated_rig(loaded, plan, request.inject, request.seed or 0)
    except NotSimulated as error:
        raise Refused(str(error)) from error


def _refuse_hidden(stated: LoadedRig, inventory: HostInventory) -> None:
    """Refuse a CUDA_VISIBLE_DEVICES that is wrong, or that hides a promised GPU of this machine.

    Loading the others would end with a verdict on the rig, of which nothing is amiss.
    """
    if not any(device.gpu.device == "cuda" for device in stated.devices()):
        return
    if inventory.setting_error is not None:
        raise Refused(f"{stated.file}: {inventory.setting_error}")
    if hidden := hidden_here(stated, inventory):
        raise Refused(
            f"{stated.file}: promises {', '.join(hidden)}, and {inventory.hidden_by} hides the card; unset "
            "it, or name a profile of the GPUs that it shows"
        )


def _refuse_unseen(stated: LoadedRig, nvml_error: str) -> None:
    """Refuse to rely on NVML's list of GPUs if NVML is broken or has lost a GPU.

    A rig that states its GPUs is not refused: its run looks for them, and its verdict names what is missing.
    """
    for device in unknown_gpus(stated):
        key = f"{device.key}.sku"
        wrong = f"which card this is cannot be found: {nvml_error}"
        way_out = "then run again, or write the SKU here"
        raise Refused(problem(stated.source_of(key), stated.written(key), device.gpu.sku, wrong, way_out))


def _check_reachable(address: str) -> None:
    """Refuse an address without a listener, before Ray would wait for it."""
    try:
        check_listening(address)
    except ClusterUnreachable as error:
        raise Refused(str(error)) from error
