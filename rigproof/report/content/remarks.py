"""Remarks in every output about how a run was done, since they affect how far its verdict can be trusted."""

from collections.abc import Mapping

from rigproof.profiles.loading.loaded import LeftOut, left_out_text
from rigproof.records.recording import Recording


def remarks(recording: Recording) -> tuple[str, ...]:
    """Sentences about how the run was done, usually none."""
    return tuple(event.message for event in recording.events if event.kind == "open_cluster")


def left_out(recording: Recording) -> tuple[LeftOut, ...]:
    """Hardware that was found beside the rig and not tested, as recorded; what is damaged is skipped."""
    listed = recording.run.rig.get("left_out", ())
    return tuple(
        LeftOut(str(one.get("node")), str(one.get("what")))
        for one in (listed if isinstance(listed, list | tuple) else ())
        if isinstance(one, Mapping)
    )


def not_tested(recording: Recording) -> str:
    """The hardware of `left_out` in a line; empty if there is none."""
    return left_out_text(left_out(recording))
