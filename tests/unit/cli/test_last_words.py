"""`rigproof judge` of a run that never ended, on the host that it ran on."""

import pytest

from rigproof.cli.rejudge import rejudge, rewrite
from rigproof.host.proc import boot_id
from rigproof.records.black_box import FINISHED, End
from rigproof.records.disk.store import RecordingWriter
from rigproof.records.identity import RunInfo
from rigproof.records.measurements import BootReading
from support.last_words import LAST, OTHER_BOOT, RESTARTED, head_of, leave
from support.recordings import gpu_identity, node_identity
from support.rig_profile import loaded_rig


@pytest.fixture
def state(tmp_path, monkeypatch):
    """A state folder of the test's own."""
    monkeypatch.setenv("RIGPROOF_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def recorded(folder, *, ended=False, simulated=False):
    """A run of pc1 and pc2 that broke off in its load, or ended."""
    folder.mkdir()
    rig, stages = loaded_rig().dump(), ("gemm", "sustained")
    run = RunInfo("run-1", "2026-01-02T03:04:05Z", "standard", "0", "3.11", rig, stages, simulated)
    writer = RecordingWriter(folder, run)
    for node in ("pc1", "pc2"):
        writer.add(node_identity(node))
        writer.add(gpu_identity(f"{node}/gpu0", "h200"))
        writer.add(BootReading(1.0, node, "before", boot_id().value))
    writer.close()
    if not ended:
        (folder / "telemetry.parquet").unlink()
    return folder


def judged(folder):
    lines = []
    return rejudge(folder, None, lines.append), "\n".join(lines)


def test_a_restart_rejects_the_run_in_the_sentence_that_people_look_for(state, tmp_path):
    leave(state, head_of("run-1", boot=OTHER_BOOT))
    status, output = judged(recorded(tmp_path / "run"))
    assert status == 1
    assert f"pc1 health.reset: pc1 {RESTARTED} (from t=26 s). Usually the power supply" in output
    assert "REJECTED" in output


def test_a_killed_driver_leaves_it_incomplete_and_says_so(state, tmp_path):
    leave(state, head_of("run-1"))
    status, output = judged(recorded(tmp_path / "run"))
    assert status == 6
    assert "on pc1 4 s into sustained (bf16); the host did not restart" in output


@pytest.mark.parametrize(
    "entries",
    [[LAST, End("SIGTERM")], [LAST, End(FINISHED)]],
)
def test_an_orderly_shutdown_is_no_reset(state, tmp_path, entries):
    leave(state, head_of("run-1", boot=OTHER_BOOT), entries)
    status, output = judged(recorded(tmp_path / "run"))
    assert status == 6
    assert "restarted" not in output


def test_a_run_that_has_been_reported_is_rejected_all_the_same(state, tmp_path):
    path = leave(state, head_of("run-1", boot=OTHER_BOOT))
    path.write_bytes(path.read_bytes() + b'{"type":"reported","run_id":"run-2"}\n')
    assert judged(recorded(tmp_path / "run"))[0] == 1


def test_words_of_another_run_are_not_those_of_this_one(state, tmp_path):
    leave(state, head_of("run-0", boot=OTHER_BOOT))
    assert judged(recorded(tmp_path / "run"))[0] == 6


@pytest.mark.parametrize("kind", [{"ended": True}, {"simulated": True}])
def test_a_run_that_ended_or_was_simulated_is_not_asked_for(state, tmp_path, kind):
    leave(state, head_of("run-1", boot=OTHER_BOOT))
    status, output = judged(recorded(tmp_path / "run", **kind))
    assert status == 6
    assert "restarted" not in output


def test_a_host_without_a_state_folder_proves_nothing(state, tmp_path):
    assert judged(recorded(tmp_path / "run"))[0] == 6


def test_the_report_says_it_too(state, tmp_path):
    leave(state, head_of("run-1", boot=OTHER_BOOT))
    folder = recorded(tmp_path / "run")
    assert rewrite(folder, lambda _line: None) == 0
    assert RESTARTED in (folder / "summary.md").read_text()
