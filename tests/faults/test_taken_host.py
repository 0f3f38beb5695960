"""A host has one run at a time: a second one is refused before any load, or waits for the first one's end."""

from pathlib import Path

from rigproof.host.run_lock import Claim, HostLock
from support.real_runs import LOCKS
from support.small_rigs import small_rig


def test_a_second_run_names_the_first_and_is_refused_or_waits_for_its_end(start_run, tmp_path):
    profile = small_rig(tmp_path, sustained_s=5, gemm_s=1)
    lock, first = HostLock({LOCKS: str(tmp_path)}), Claim.of("first", Path("/srv/reports/runs/first"))
    assert lock.take(first) is None
    here = {LOCKS: str(tmp_path)}

    refused = start_run(profile, variables=here)
    assert refused.finish() == 4, refused.text()
    assert f"this host is under test by {first}" in refused.text()
    assert "--hw-wait" in refused.text()
    assert "starting Ray" not in refused.text()
    assert refused.folder is None  # nothing is written
    refused.check_nothing_is_left()

    second = start_run(profile, "--hw-wait", variables=here)
    second.wait_for(lambda run: f"waiting: this host is under test by {first}" in run.text())
    assert "starting Ray" not in second.text()
    lock.release()
    second.wait_for_stage("gemm", inside_s=0)
    holder = lock.take(first)
    assert (holder.pid, holder.folder) == (second.process.pid, str(second.folder))
    assert second.finish() in (0, 6), second.text()  # a slow machine may not do enough products
    assert second.not_well() == set(), second.text()
    assert lock.take(first) is None
    lock.release()
    second.check_nothing_is_left()
