"""Whole GPUs reserved with a real Ray that counts three; the cards behind them are named by Ray's own ids."""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rigproof.cluster.driver.ground import FIRST_SHARE, Place, RayActors, worker_options
from rigproof.cluster.ray.gpu_probe import Probed
from rigproof.cluster.ray.matching import FoundNode
from rigproof.cluster.ray.nodes import list_nodes
from rigproof.cluster.ray.placement import Reservations, WantedGpu
from rigproof.cluster.ray.session import start_local

LIMIT_S = 240  # what comes, comes long before, on a machine that is busy with much else too
HELD_S = 3  # for what never comes
# Ray's head takes 30 ms to record each step of a grant: a removal that comes between two of them is lost.
SLOW_GRANTS = "GcsInMemoryStore.Put=30000:30000"


@pytest.fixture(scope="module")
def node() -> Iterator[FoundNode]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_testing_asio_delay_us", SLOW_GRANTS)  # until the end, which puts it back into place
        session = start_local(
            "three", cpus=4, gpus=3, namespace="test", limit_s=LIMIT_S, stop_s=10, stall_s=30
        )
        try:
            (node,) = list_nodes()
            yield node
        finally:
            session.close(10)


def kind_of_actor(deadly: tuple[str, ...] = ()) -> type:
    """A worker's process whose card has Ray's own number; one with a `deadly` name ends when asked for it."""

    class First:  # nested, so that Ray sends its code and not its module
        def gpu(self) -> Probed:
            import os  # noqa: PLC0415

            import ray  # noqa: PLC0415

            context = ray.get_runtime_context()
            if deadly and context.get_actor_name().endswith(deadly):
                os._exit(1)
            (given,) = context.get_accelerator_ids()["GPU"]
            # As cuInit: a process that has been asked once sees that card for ever.
            seen = "GPU-" + os.environ.setdefault("SEEN_BY_THIS_PROCESS", given)
            return Probed(seen)

    return First


def reservations_of(name: str, kind: type) -> Reservations:
    actors = RayActors()

    def occupy(actor: str, node: FoundNode, group: Any) -> Any:
        return actors.start(kind, worker_options(actor, Place(node, group, FIRST_SHARE, 0.0)))

    return Reservations(f"{name}-{secrets.token_hex(4)}", occupy, actors.kill)  # as each run has another one


@pytest.fixture
def job() -> Iterator[Callable[[str], Reservations]]:
    """Reservations of a job of that name, given back whatever becomes of the test."""
    made: list[Reservations] = []

    def of(name: str, kind: type | None = None) -> Reservations:
        made.append(reservations_of(name, kind or kind_of_actor()))
        return made[-1]

    yield of
    for reserved in made:
        reserved.release(30)
    assert free_gpus(3) == 3


@pytest.fixture
def reservations(job: Callable[[str], Reservations]) -> Reservations:
    return job("test")


def wanted(node: FoundNode, index: int) -> WantedGpu:
    return WantedGpu(f"three/gpu{index}", f"GPU-{index}", node, cpus=1)


class Card:
    def ids(self) -> Any:
        return ray.get_runtime_context().get_accelerator_ids()["GPU"]


def test_the_wanted_card_is_reserved_though_ray_gives_out_others_first_and_to_no_other_job(
    node: FoundNode, reservations: Reservations, job: Callable[[str], Reservations]
) -> None:
    """Workers that share a reservation get the same card."""
    other = job("other")
    assert other.reserve([wanted(node, 2)], LIMIT_S) == {}
    assert set(other.groups) == {"three/gpu2"}
    assert free_gpus() == 2  # those that were held meanwhile are given back

    assert reservations.reserve([wanted(node, 0), wanted(node, 1)], LIMIT_S) == {}

    def worker(subject: str) -> Any:
        strategy = PlacementGroupSchedulingStrategy(reservations.groups[subject], 0)
        options = {"num_gpus": 0.5, "num_cpus": 0.5, "scheduling_strategy": strategy}

        class Here(Card):
            pass

        return ray.remote(Here).options(**options).remote()

    first = [reservations.first[subject] for subject in ("three/gpu0", "three/gpu1")]
    second = [worker(subject) for subject in ("three/gpu0", "three/gpu1")]
    found = ray.get([each.gpu.remote() for each in first], timeout=LIMIT_S)
    assert found == [Probed("GPU-0"), Probed("GPU-1")]
    assert ray.get([each.ids.remote() for each in second], timeout=LIMIT_S) == [["0"], ["1"]]
    for each in second:
        ray.kill(each)

    refused = reservations.reserve([wanted(node, 2)], HELD_S)
    assert set(refused) == {"three/gpu2"}
    assert refused["three/gpu2"].startswith("another job of the cluster holds it")
    assert set(reservations.groups) == {"three/gpu0", "three/gpu1"}


def test_a_card_that_ray_does_not_have_is_refused_once_all_are_known_though_first_processes_ended(
    node: FoundNode, job: Callable[..., Reservations]
) -> None:
    """Each is started once more; names end in the number of the attempt."""
    reservations = job("hurt", kind_of_actor(deadly=("-1",)))
    refused = reservations.reserve([wanted(node, 0), wanted(node, 9)], LIMIT_S)
    assert set(refused) == {"three/gpu9"}
    assert refused["three/gpu9"].startswith("Ray assigns GPU-")
    assert set(reservations.groups) == {"three/gpu0"}
    assert free_gpus() == 2


def test_what_was_requested_before_the_cards_were_known_is_used_and_the_rest_given_back(
    node: FoundNode, reservations: Reservations
) -> None:
    reservations.begin([replace(wanted(node, index), uuid="") for index in range(3)], LIMIT_S)
    assert reservations.reserve([wanted(node, 1)], LIMIT_S) == {}
    first = reservations.first["three/gpu1"]
    assert ray.get(first.gpu.remote(), timeout=LIMIT_S) == Probed("GPU-1")
    assert free_gpus() == 2


def test_what_was_requested_in_vain_is_given_back(node: FoundNode, job: Callable[..., Reservations]) -> None:
    vain = job("vain")
    vain.begin([replace(wanted(node, 0), uuid="")], LIMIT_S)
    assert vain.reserve([], LIMIT_S) == {}
    assert free_gpus(3) == 3


def test_a_card_whose_first_process_ends_twice_is_refused(
    node: FoundNode, job: Callable[..., Reservations]
) -> None:
    hurt = job("hurt", kind_of_actor(deadly=("-1", "-2")))
    assert set(hurt.reserve([wanted(node, 0)], LIMIT_S)) == {"three/gpu0"}


def free_gpus(expected: int = 2) -> float:
    for _ in range(600):
        free = ray.available_resources().get("GPU", 0.0)
        if free == expected:
            break
        ray.wait([ray.put(None)], timeout=0.1)
    return free
