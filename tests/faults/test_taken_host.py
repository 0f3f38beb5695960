"""A host has one run at a time: a second one is refused before any load. test_two_runs has one that waits."""

from pathlib import Path

from rigproof.host.run_lock import Claim, HostLock
from support.real_runs import LOCKS
from support.small_rigs import small_rig


def test_a_second_run_names_the_first_and_is_refused(start_run, tmp_path):
    here = {LOCKS: str(tmp_path)}
    lock, first = HostLock(here), Claim.of("first", Path("/srv/reports/runs/first"))
    assert lock.take(first) is None

    refused = start_run(small_rig(tmp_path), variables=here)
    assert refused.finish() == 4, refused.text()
    assert f"this host is under test by {first}" in refused.text()
    assert "--hw-wait" in refused.text()
    assert "starting Ray" not in refused.text()
    assert refused.folder is None  # nothing is written
    refused.check_nothing_is_left()
    lock.release()
