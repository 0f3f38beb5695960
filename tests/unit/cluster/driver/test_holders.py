"""An out-of-memory error that passes tells who else holds the memory."""

from rigproof.cluster.driver.holders import naming_holders
from rigproof.records.identity import WorkerIdentity
from rigproof.records.measurements import Event
from rigproof.records.processes import GpuProcess

GPU = "pc1/gpu0"
WORKER = WorkerIdentity("pc1/gpu0#0", GPU, "pc1", "cuda", "GPU-1", 100, 4.0, "2.13", "13", ("bf16",))
OWN = GpuProcess(4.0, GPU, 100, used_mib=90_000.0, user="me", name="ray::Worker")
CHILD = GpuProcess(4.0, GPU, 180, used_mib=4_000.0, user="me", name="python3", parents=(100, 1))
STRANGER = GpuProcess(31.0, GPU, 5263, used_mib=141_824.0, user="ml", name="python3")
OOM = Event(35.0, "oom", GPU, "wanted 128 MiB, 72 MiB free", data={"recovered": True})


def passed(*records):
    kept = []
    sink = naming_holders(kept.append)
    for record in records:
        sink(record)
    assert len(kept) == len(records)
    return kept[-1]


def test_who_holds_what_is_reported_and_ours_are_not():
    event = passed(WORKER, OWN, CHILD, STRANGER, OOM)
    assert event.message == "wanted 128 MiB, 72 MiB free; pid 5263 (python3, user ml) holds 138 GiB"
    assert event.data == {"recovered": True, "holders": "pid 5263 (python3, user ml) holds 138 GiB"}


def test_who_has_left_holds_nothing():
    gone = GpuProcess(33.0, GPU, 5263, gone=True)
    assert passed(WORKER, OWN, STRANGER, gone, OOM) == OOM


def test_where_ours_are_not_listed_nobody_is_named():
    """In a container the pid could be one of ours."""
    assert passed(WORKER, STRANGER, OOM) == OOM


def test_another_card_s_holders_are_not_this_one_s():
    elsewhere = GpuProcess(31.0, "pc1/gpu1", 5263, used_mib=141_824.0)
    assert passed(WORKER, OWN, elsewhere, OOM) == OOM
