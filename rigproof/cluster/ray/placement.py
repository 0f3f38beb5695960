"""Whole GPUs reserved with Ray: one placement group per promised GPU, on its node, known by UUID.

No other job gets a reserved GPU, and the workers that share it land on the same card. Which card that is,
the first process in the reservation finds out; it stays there, as the first worker of the card.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group

from rigproof.cluster.ray.calls import Gone, Poller, ask, created
from rigproof.cluster.ray.gpu_probe import Probed
from rigproof.cluster.ray.matching import FoundNode
from rigproof.host.bounded import Background
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.records.grouping import grouped

NODE_LABEL = "ray.io/node-id"
STEP_S = 0.5
LOOK_S = 0.02  # between two looks at whether a process has been requested
GRANT_S = 5  # for a group that was just requested; one that still waits for a GPU is removed without a grant
ATTEMPTS = 2  # to start the first process of a bundle

# Starts the first process in a placement group on this node, under this name: an actor with a method `gpu`
# that returns Probed. In the background: its head may never answer.
Occupy = Callable[[str, FoundNode, Any], Any]


@dataclass(frozen=True, slots=True)
class WantedGpu:
    """A GPU to reserve, with the `cpus` of all its workers together; `uuid` is empty while not known."""

    subject: str
    uuid: str
    node: FoundNode
    cpus: float


@dataclass(slots=True)
class _Bundle:
    """A placement group in progress: requested, then occupied, then asked, until `answer` is there."""

    number: int
    node: FoundNode
    cpus: float
    group: Any  # None where Ray refused it
    poller: Poller | None = None  # to its first process
    attempts: int = 0
    call: Any = None
    answer: Probed | None = None


class Reservations:
    """The placement groups of one run, with their first processes by subject (`first`)."""

    def __init__(self, prefix: str, occupy: Occupy, kill: Callable[[Any], None]) -> None:
        self._prefix = prefix
        self._occupy = occupy
        self._kill = kill
        self._bundles: list[_Bundle] = []
        self._made = 0
        self._granted: list[_Bundle] = []
        self.groups: dict[str, Any] = {}  # by subject
        self.cpus: dict[str, float] = {}
        self.first: dict[str, Any] = {}

    def begin(self, wanted: Iterable[WantedGpu], limit_s: float) -> None:
        """Request reservations on the nodes of these GPUs, and do not wait for them. `reserve` needs them."""
        wanted = list(wanted)
        refused = infeasible(wanted)
        expected = {gpu.subject: gpu for gpu in wanted if gpu.subject not in refused}
        self._ask_for(expected, time.monotonic() + limit_s)

    def reserve(self, wanted: Sequence[WantedGpu], limit_s: float) -> dict[str, str]:
        """Reserve these GPUs within `limit_s`. Returns the subjects that could not be, with the reason.

        Ends earlier if every GPU that the nodes offer is known, so that no other card can come.
        """
        refused = infeasible(wanted)
        left = {gpu.uuid: gpu for gpu in wanted if gpu.subject not in refused}
        end_s = time.monotonic() + limit_s
        self._ask_for(left, end_s)
        while left and self._waiting() and time.monotonic() < end_s:
            self._advance(min(STEP_S, max(0.05, end_s - time.monotonic())))
            self._grant(left)
            self._ask_for(left, end_s)
        refused |= {gpu.subject: self._reason(gpu, wanted, limit_s) for gpu in left.values()}
        self._give_up(self._bundles)
        self._bundles.clear()
        return refused

    def release(self, timeout_s: float) -> None:
        """Give everything back, without waiting longer than `timeout_s`. Its first processes end with it."""
        removals = self._give_up([*self._granted, *self._bundles])
        self.groups.clear()
        self.first.clear()
        self._granted.clear()
        self._bundles.clear()
        for removal in removals:
            removal.done(timeout_s / len(removals))

    def _give_up(self, bundles: Sequence[_Bundle]) -> list[Background[None]]:
        """End these bundles and their first processes, without waiting. Returns what to wait for."""
        pollers = [bundle.poller for bundle in bundles if bundle.poller is not None]
        kills = [Background(poller.kill, "kill") for poller in pollers]
        return [*kills, *(_remove(bundle.group) for bundle in bundles)]

    def _waiting(self) -> bool:
        return any(bundle.answer is None for bundle in self._bundles)

    def _grant(self, left: dict[str, WantedGpu]) -> None:
        """Keep the bundles whose cards are wanted, and remove those cards from `left`."""
        for bundle in list(self._bundles):
            uuid = bundle.answer.uuid if bundle.answer is not None else None
            gpu = left.pop(uuid or "", None)
            if gpu is not None:
                assert bundle.poller is not None
                self._bundles.remove(bundle)
                self._granted.append(bundle)
                self.groups[gpu.subject] = bundle.group
                self.cpus[gpu.subject] = bundle.cpus
                self.first[gpu.subject] = bundle.poller.actor

    def _reason(self, gpu: WantedGpu, wanted: Sequence[WantedGpu], limit_s: float) -> str:
        node_id = gpu.node.node_id
        answers = [bundle.answer for bundle in self._bundles if bundle.node.node_id == node_id]
        return refusal(gpu.node, _wanted_on(node_id, wanted), answers, limit_s)

    def _ask_for(self, left: Mapping[str, WantedGpu], end_s: float) -> None:
        """Request as many bundles on each node as GPUs are wanted there, less those not probed yet.

        A bundle that turned out to be on another GPU is kept for now, so that Ray assigns the next GPU. A
        node is asked for no more bundles than it has GPUs.
        """
        for node_id, gpus in grouped(left.values(), lambda gpu: gpu.node.node_id).items():
            bundles = [bundle for bundle in self._bundles if bundle.node.node_id == node_id]
            granted = [bundle for bundle in self._granted if bundle.node.node_id == node_id]
            held = len(granted) + len(bundles)
            pending = sum(bundle.answer is None for bundle in bundles)
            room = int(gpus[0].node.gpus) - held
            for _ in range(min(len(gpus) - pending, room)):
                self._bundles.append(self._bundle(gpus[0].node, bundle_cpus(gpus), end_s))

    def _bundle(self, node: FoundNode, cpus: float, end_s: float) -> _Bundle:
        self._made += 1
        number = self._made
        group = created(
            lambda: placement_group(
                [{"GPU": 1.0, **({"CPU": cpus} if cpus > 0 else {})}],
                strategy="STRICT_PACK",
                name=f"{self._prefix}-gpu-{number}",
                bundle_label_selector=[{NODE_LABEL: node.node_id}],
            ),
            max(0.0, end_s - time.monotonic()),
        )
        if isinstance(group, Gone):
            return _Bundle(number, node, cpus, None, answer=Probed(error=group.reason))
        bundle = _Bundle(number, node, cpus, group)
        self._start(bundle)
        return bundle

    def _start(self, bundle: _Bundle) -> None:
        """Request the bundle's first process. Ray starts it when it grants the bundle."""
        bundle.attempts += 1
        name = f"{self._prefix}-first-{bundle.number}-{bundle.attempts}"
        bundle.poller = Poller(self._occupy(name, bundle.node, bundle.group), 0.0, self._kill)
        bundle.call = None

    def _advance(self, timeout_s: float) -> None:
        """Wait a little for the first processes' answers, and take them."""
        waiting = {bundle.number: bundle for bundle in self._bundles if bundle.answer is None}
        for bundle in waiting.values():
            self._ask_first(bundle)
        calls = {number: bundle.call for number, bundle in waiting.items() if bundle.call is not None}
        if len(calls) < len(waiting):
            timeout_s = LOOK_S
        if not calls:
            time.sleep(timeout_s)
        for number, answer in ask(calls, timeout_s).items():
            bundle = waiting[number]
            if not isinstance(answer, Gone):
                bundle.answer = answer
            elif bundle.attempts < ATTEMPTS:
                self._start(bundle)
            else:
                bundle.answer = Probed(error=answer.reason)

    def _ask_first(self, bundle: _Bundle) -> None:
        """Ask the bundle's first process for its card as soon as it is requested; note a refusal."""
        assert bundle.poller is not None
        if bundle.call is None and (refused := bundle.poller.refused()) is not None:
            bundle.answer = Probed(error=refused.reason)
        elif bundle.call is None and bundle.poller.actor is not None:
            bundle.call = bundle.poller.actor.gpu.remote()


def wanted_gpus(
    workers: Iterable[WorkerPlan], found: Mapping[str, FoundNode], uuids: Mapping[str, str] | None = None
) -> list[WantedGpu]:
    """The GPUs to reserve for these workers. `uuids` are by subject; None: they are not known yet."""
    by_subject = grouped((one for one in workers if one.device == "cuda"), lambda one: one.subject)
    return [
        WantedGpu(subject, (uuids or {}).get(subject, ""), found[own[0].node], sum(one.cpus for one in own))
        for subject, own in by_subject.items()
    ]


def given_gpu() -> int:
    """The number of this actor's one GPU on its node, as Ray counts."""
    return int(ray.get_runtime_context().get_accelerator_ids()["GPU"][0])


def infeasible(wanted: Sequence[WantedGpu]) -> dict[str, str]:
    """Subjects that need not be requested since their node offers no GPU at all, with that reason."""
    return {
        gpu.subject: _offers_too_few(gpu.node, _wanted_on(gpu.node.node_id, wanted))
        for gpu in wanted
        if int(gpu.node.gpus) == 0
    }


def refusal(node: FoundNode, wanted: int, answers: Sequence[Probed | None], limit_s: float) -> str:
    """The reason why a card of `node` was not among those that Ray assigned.

    `wanted` counts the cards wanted there; `answers` are those of the bundles on other cards, None for a
    bundle that Ray did not grant, or that did not answer.
    """
    errors = list(dict.fromkeys(answer.error for answer in answers if answer is not None and answer.error))
    if errors:
        return f"CUDA does not report which card Ray assigned there: {'; '.join(errors)}"
    if None in answers:
        return f"another job of the cluster holds it, or it did not answer, for {limit_s:g} s"
    if int(node.gpus) < wanted:
        return _offers_too_few(node, wanted)
    others = ", ".join(answer.uuid for answer in answers if answer is not None and answer.uuid)
    return (
        f"Ray assigns {others or 'no card'} there and never this one; "
        "is MIG enabled, or was Ray started with CUDA_VISIBLE_DEVICES or with a --num-gpus that is too low?"
    )


def bundle_cpus(gpus: Sequence[WantedGpu]) -> float:
    """CPUs of each bundle for these GPUs, which are of one node: what the neediest of them wants.

    If that is more than the node has for all of them, each gets an equal part of the node's CPUs.
    """
    neediest = max(gpu.cpus for gpu in gpus)
    return min(neediest, gpus[0].node.cpus / len(gpus))


def _offers_too_few(node: FoundNode, wanted: int) -> str:
    offered = int(node.gpus) or "no"
    way_out = f"start Ray there with --num-gpus={wanted}"
    return f"its node offers Ray {offered} GPU of the {wanted} promised; {way_out}"


def _wanted_on(node_id: str, wanted: Sequence[WantedGpu]) -> int:
    return sum(gpu.node.node_id == node_id for gpu in wanted)


def _remove(group: Any) -> Background[None]:
    """Remove the group in the background, once Ray has granted it.

    If the removal comes between the two steps of a grant (prepare, commit), Ray 2.60 never frees the GPU.
    """

    def remove() -> None:
        if group is not None:
            group.wait(GRANT_S)
            remove_placement_group(group)

    return Background(remove, "release")
