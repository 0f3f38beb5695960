"""Which of several Xids is reported first, with its moment."""

import pytest

from rigproof.records.verdict import Outcome

GPU, XID = "pc1/gpu0", "health.xid"


@pytest.mark.parametrize(("first", "second"), [(79, 48), (48, 79)])
def test_of_two_fatal_xids_the_first_is_named_and_dated(bench, first, second):
    for t_s, code in ((40.0, 31), (45.0, first), (50.0, second), (55.0, first)):
        bench.event("xid", GPU, f"Xid {code}", t_s, xid=code)
    verdict = bench.verdict(XID, GPU)
    assert (verdict.outcome, verdict.from_s) == (Outcome.FAIL, 45.0)
    assert verdict.detail.startswith(f"Xid {first}")
    assert verdict.detail.index("31") < verdict.detail.index(f"Xid {second}")
