"""A Ray of our own that does not start says why."""

import pytest

from rigproof.cluster.ray.preconditions import ClusterStartFailed
from rigproof.cluster.ray.session import RaySession, start_local


def test_what_its_processes_wrote_is_quoted_before_their_folder_goes(monkeypatch):
    folders = []

    def fail(session, *_):
        folders.append(session.folder)
        logs = session.folder / "session_latest" / "logs"
        logs.mkdir(parents=True)
        (logs / "gcs_server.err").write_text("OSError: No space left on device\n")
        raise TimeoutError("Ray did not answer within 1 s")

    monkeypatch.setattr(RaySession, "open", fail)
    with pytest.raises(
        ClusterStartFailed, match=r"within 1 s; OSError: No space left on device\. Correct that"
    ):
        start_local("host", cpus=1, gpus=0, namespace="n", limit_s=1, stop_s=1, stall_s=1)
    assert not folders[0].exists()
