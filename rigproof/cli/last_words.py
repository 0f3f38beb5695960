"""What this host's black box says about a run that never ended."""

import contextlib
from pathlib import Path

from rigproof.cluster.actors.remembering import shut_down_since
from rigproof.cluster.actors.state_folder import host_folder, runs_of, this_host
from rigproof.host.proc import boot_id
from rigproof.records.black_box import event_of, fate
from rigproof.records.disk.reading import PARQUET_FILE
from rigproof.records.recording import Recording

KIND = {"restarted": "host_reset", "shut_down": "driver_killed", "killed": "driver_killed"}


def add_last_words(run: Path, recording: Recording) -> None:
    """Add to a recording without an orderly end an event that says how the run ended on this host.

    Adds nothing if that is not known. What happened on other hosts is never known here: the next run on them
    reports it.
    """
    now = boot_id().value
    if now is None or recording.run.simulated or (run / PARQUET_FILE).exists():
        return
    host = this_host()
    with contextlib.suppress(OSError):
        for found in runs_of(host, host_folder(host)):
            if found.box.head.run_id == recording.run.run_id and not found.going_on:
                ended = fate(found.box, now, shut_down_since(found.box))
                if ended in KIND:
                    recording.add(event_of(found.box, ended, KIND[ended], found.box.head.node))
