"""A run whose driver is killed under load, judged afterwards, and the next start; as killed, and as reset.

A host that restarts has another boot id. Here the dead run's last words are given another one instead.
"""

import signal
import subprocess
import sys

from rigproof.host.proc import boot_id
from support.last_words import OTHER_BOOT
from support.real_runs import CHECKOUT, LEFT_S, own_environment
from support.two_devices import two_devices


def judged(run, home):
    return subprocess.run(
        [sys.executable, "-m", "rigproof.cli.main", "judge", str(run.folder)],
        cwd=CHECKOUT,
        env=own_environment(HOME=str(home)),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_killed_run_is_incomplete_and_one_that_its_host_did_not_survive_is_rejected(start_run, tmp_path):
    profile, _ = two_devices(tmp_path, sustained_s=60)
    home = tmp_path / "home"
    killed = start_run(profile)
    killed.wait_for_stage("sustained", inside_s=1.5)
    killed.hurt(None, signal.SIGKILL)
    killed.process.wait()
    assert killed.left_processes(LEFT_S) == []

    done = judged(killed, home)
    assert done.returncode == 6, done.stdout + done.stderr
    assert "into sustained" in done.stdout
    assert "the host did not restart" in done.stdout

    (words,) = (home / ".local/state/rigproof").glob("black-box/*/*.jsonl")
    words.write_text(words.read_text().replace(boot_id().value, OTHER_BOOT))
    done = judged(killed, home)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "here health.reset: from t=" in done.stdout
    assert "here restarted" in done.stdout
    assert "power supply" in done.stdout

    profile, _ = two_devices(tmp_path, sustained_s=2)
    run = start_run(profile, report_dir=killed.report_dir)
    assert run.finish() in (0, 6), run.text()  # a slow machine may not do enough products
    assert run.outcomes()["health.reset", "here"] == "warn", run.text()
    assert f"an earlier run ({killed.folder.name}) never ended: here restarted" in run.text()
    run.check_nothing_is_left()
