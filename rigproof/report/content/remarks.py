"""What every output says about how a run was done, because it decides how far the verdict can be trusted."""

from rigproof.records.recording import Recording


def remarks(recording: Recording) -> tuple[str, ...]:
    """A sentence each; none for a run that nothing needs to be said about."""
    return tuple(event.message for event in recording.events if event.kind == "open_cluster")
