import pytest

from rigproof.cluster.driver.presence import skipped
from rigproof.profiles.planning.plan import Plan, WorkerPlan
from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import EVENT_KINDS, ForeignMemory

TOTAL_MIB = 24576.0
GPU = GpuIdentity("pc1/gpu0", "cuda", "GPU-a", "RTX 3090", 0, TOTAL_MIB)


def plan(*vram_mib):
    workers = tuple(
        WorkerPlan(f"pc1/gpu0#{n}", "pc1/gpu0", "pc1", "cuda", 0.5, 1.0, mib, 8192)
        for n, mib in enumerate(vram_mib)
    )
    return Plan("quick", workers, (), 0.0)


def skip(used_mib, *vram_mib, pids=()):
    reading = ForeignMemory(1.0, "pc1/gpu0", used_mib, pids, reserved_mib=300.0)
    return skipped({"pc1/gpu0": GPU}, {"pc1/gpu0": reading}, plan(*vram_mib), 2.0)


# 24576 less 300 of the driver, 20000 that are filled, and two contexts of 409.6 with 64 of workspaces.
@pytest.mark.parametrize(("used_mib", "left_alone"), [(0.0, False), (3328.0, False), (3329.0, True)])
def test_the_limit_is_what_the_workers_together_leave_free(used_mib, left_alone):
    assert set(skip(used_mib, 10000.0, 10000.0)) == ({"pc1/gpu0"} if left_alone else set())


def test_the_event_names_the_memory_and_its_holders():
    (event,) = skip(9000.4, 20000.0, pids=(17, 23)).values()
    assert event.kind in EVENT_KINDS
    assert (event.kind, event.subject, event.t_s) == ("gpu_skipped", "pc1/gpu0", 2.0)
    assert event.message == (
        "not loaded: processes with pids 17, 23 hold 9000 MiB of it, and beside the plan 3802 MiB are free; "
        "see inventory.foreign_memory"
    )
    assert event.data == {"used_mib": 9000.4, "free_mib": pytest.approx(3802.4), "pids": (17, 23)}


@pytest.mark.parametrize(
    ("pids", "expected"),
    [((17,), "the process with pid 17 holds"), ((), "others hold"), (None, "others hold")],
)
def test_holders_are_named_as_far_as_they_are_known(pids, expected):
    (event,) = skip(9000.0, 20000.0, pids=pids).values()
    assert expected in event.message


def test_a_card_whose_use_is_not_known_is_loaded():
    assert skip(None, 20000.0) == {}
    assert skipped({"pc1/gpu0": GPU}, {}, plan(20000.0), 2.0) == {}


def test_a_card_without_workers_is_none_to_skip():
    assert skip(TOTAL_MIB + 1) == {}
