"""A reading is recorded if it is the first, if a count has changed, once a minute, and when asked for."""

from rigproof.records.samples import PcieErrors
from rigproof.telemetry.pcie_watch import PcieWatch

GPU = "pc1/gpu0"


def watch(counts):
    def read(t_s, subject):
        return PcieErrors(t_s, subject, 0, 0, counts[0], "0000:16:01.0", 0, 0, 0)

    return PcieWatch([GPU], read)


def test_only_what_changes_is_recorded_and_something_once_a_minute():
    counts = [4]
    watching, recorded = watch(counts), []
    for tenths in range(1300):
        t_s = tenths / 10
        counts[0] = 4 if t_s < 30 else 5
        recorded += watching.when_due(t_s)
    assert [one.correctable for one in recorded] == [4, 5, 5]
    first, changed, again = (one.t_s for one in recorded)
    assert (first, round(changed)) == (0, 30)
    assert 60 <= again - changed < 61
    assert {one.subject for one in recorded} == {GPU}
    assert recorded[0].port == "0000:16:01.0"


def test_it_reads_once_a_second_whatever_the_grid():
    reads = []

    def read(t_s, subject):
        reads.append(subject)
        return PcieErrors(t_s, subject)

    watching = PcieWatch([GPU], read)
    for tenths in range(100):
        watching.when_due(tenths / 10 + 0.001 * (tenths % 3))
    assert 10 <= len(reads) <= 12


def test_a_reading_that_is_asked_for_is_recorded_whatever_it_is():
    watching = watch([4])
    assert len(watching.when_due(0.0)) == 1
    assert [one.correctable for one in watching.now(5.0)] == [4]
    assert watching.when_due(7.0) == []
