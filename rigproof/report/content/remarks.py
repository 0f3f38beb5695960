"""Remarks in every output about how a run was done, since they affect how far its verdict can be trusted."""

from rigproof.records.recording import Recording


def remarks(recording: Recording) -> tuple[str, ...]:
    """One sentence each; usually none."""
    return tuple(event.message for event in recording.events if event.kind == "open_cluster")
