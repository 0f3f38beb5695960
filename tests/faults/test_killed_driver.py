"""A run whose driver is killed under load: judged as killed and as reset, and reported by the next one.

A host that restarts has another boot id. Here the dead run's last words are given another one instead.
"""

import signal
import time

from rigproof.host.proc import boot_id
from support.acceptance import rigproof
from support.last_words import OTHER_BOOT
from support.real_runs import LEFT_S, program
from support.small_rigs import small_rig

STALL_S = 6


def test_a_killed_driver_leaves_nothing_but_words_and_the_next_one_may_be_frozen_for_a_while(
    start_run, tmp_path, monkeypatch
):
    """Frozen for longer than any worker may be silent: it was the driver, and nobody else is blamed."""
    killed = start_run(small_rig(tmp_path, sustained_s=60))
    killed.wait_for_stage("sustained", inside_s=1.5)
    killed.look()
    assert {program(one.pid) for one in killed.family} >= {"raylet", "gcs_server"}
    assert {killed.agent(), killed.worker("here/cpu0")} <= killed.family
    seen = len(killed.all_records())
    killed.hurt(None, signal.SIGKILL)
    killed.process.wait()
    assert killed.left_processes(LEFT_S) == []
    killed.ended_s = time.monotonic()
    killed.check_nothing_is_left()
    killed.check_recording(ended=False)
    assert len(killed.all_records()) >= seen
    killed.record("driver, SIGKILL", "sustained stage", deadline_s=0, outcome="no verdict; nothing is left")

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    judged_as_killed_and_as_reset(killed, tmp_path / "home")

    run = start_run(
        small_rig(tmp_path, sustained_s=4, gemm_s=1, stall_s=STALL_S), report_dir=killed.report_dir
    )
    run.wait_for_stage("sustained")
    run.hurt(None, signal.SIGSTOP)
    time.sleep(2 * STALL_S)
    run.process.send_signal(signal.SIGCONT)
    assert run.finish() in (0, 6), run.text()  # a slow machine may not do enough products
    assert run.not_well() == {("health.reset", "here")}, run.text()  # it reports the killed one
    assert run.outcomes()["health.reset", "here"] == "warn"
    assert f"an earlier run ({killed.folder.name}) never ended: here restarted" in run.text()
    assert {one["data"]["restarted"] for one in run.events("unfinished_run")} == {True, False}
    assert max(one["data"]["paused_s"] for one in run.events("paused")) >= STALL_S
    assert run.outcomes()["cluster.no_timeouts", "rig"] == "pass"
    run.check_recording()
    run.check_nothing_is_left()
    run.record(
        f"driver, SIGSTOP for {2 * STALL_S} s",
        "sustained stage",
        deadline_s=2 * STALL_S,
        outcome="ACCEPTED: nobody else is blamed",
    )


def judged_as_killed_and_as_reset(killed, home):
    """Incomplete where the host went on, rejected where it did not. The words of a run of each kind stay."""
    latest = killed.report_dir / "latest"  # it began after any other run there
    assert latest.resolve() == killed.folder.resolve()
    done = rigproof("judge", latest)
    assert done.returncode == 6, done.stdout + done.stderr
    assert f"the run {killed.folder.name} has not ended" in done.stdout
    assert "into sustained" in done.stdout
    assert "the host did not restart" in done.stdout

    (words,) = (home / ".local/state/rigproof").glob("black-box/*/*.jsonl")
    content = words.read_text()
    words.write_text(content.replace(boot_id().value, OTHER_BOOT))
    done = rigproof("judge", killed.folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "here health.reset: here restarted" in done.stdout
    assert "power supply" in done.stdout

    name = killed.folder.name
    words.with_name(words.name.replace(name, "another")).write_text(content.replace(name, "another"))
