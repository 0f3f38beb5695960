import pytest

from rigproof.cluster.foreign_memory import skipped
from rigproof.profiles.plan import Plan, WorkerPlan
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
    reading = ForeignMemory(1.0, "pc1/gpu0", used_mib, pids)
    return skipped({"pc1/gpu0": GPU}, {"pc1/gpu0": reading}, plan(*vram_mib), 2.0)


@pytest.mark.parametrize(("used_mib", "left_alone"), [(0.0, False), (4576.0, False), (4577.0, True)])
def test_the_limit_is_what_the_workers_together_leave_free(used_mib, left_alone):
    assert set(skip(used_mib, 10000.0, 10000.0)) == ({"pc1/gpu0"} if left_alone else set())


def test_the_event_names_the_memory_and_its_holders():
    (event,) = skip(9000.4, 20000.0, pids=(17, 23)).values()
    assert event.kind in EVENT_KINDS
    assert (event.kind, event.subject, event.t_s) == ("gpu_skipped", "pc1/gpu0", 2.0)
    assert "processes with pids 17, 23 hold 9000 MiB of its 24576 MiB" in event.message
    assert "the plan fills 20000 MiB" in event.message
    assert event.data == {"used_mib": 9000.4, "free_mib": 4576.0, "pids": (17, 23)}


@pytest.mark.parametrize(
    ("pids", "said"), [((17,), "the process with pid 17 holds"), ((), "others hold"), (None, "others hold")]
)
def test_holders_are_named_as_far_as_they_are_known(pids, said):
    (event,) = skip(9000.0, 20000.0, pids=pids).values()
    assert said in event.message


def test_a_card_whose_use_is_not_known_is_loaded():
    assert skip(None, 20000.0) == {}
    assert skipped({"pc1/gpu0": GPU}, {}, plan(20000.0), 2.0) == {}


def test_a_card_without_workers_is_none_to_skip():
    assert skip(TOTAL_MIB + 1) == {}
