"""Last words of a run in a state folder, as a host leaves them."""

from collections.abc import Iterable
from pathlib import Path

from rigproof.cluster.actors.state_folder import VARIABLE, file_name, host_folder, make_folder, this_host
from rigproof.host.proc import boot_id
from rigproof.records.black_box import CardWords, Entry, Head, Moment, text_of

OTHER_BOOT = "0e0e6ab5-6d8f-4c1a-9f47-2f0f57a0a0de"
CARDS = {
    "pc1/gpu0": CardWords(348.0, 71.0, 1695.0, 100.0),
    "pc1/gpu1": CardWords(231.0, 64.0, 1725.0, 100.0),
}
# Long from now: no log of this machine has anything after it.
LAST = Moment(26.0, 4e9, "sustained", 22.0, {"pc1/gpu0#0": "bf16"}, CARDS)
RESTARTED = "restarted 4 s into sustained (bf16), both cards at 100 %, last 348 + 231 W, 71 °C"


def head_of(run_id: str, *, node: str = "pc1", boot: str | None = None) -> Head:
    """Of this host; of its present start, unless another is given."""
    host = this_host()
    present = boot_id().value
    assert present is not None
    return Head(run_id, node, host.name, host.machine, boot or present)


def leave(state: Path, head: Head, entries: Iterable[Entry] = (LAST,), *, pid: int = 1) -> Path:
    """The file that an agent leaves below the state folder."""
    folder = host_folder(this_host(), {VARIABLE: str(state)})
    make_folder(folder)
    path = folder / file_name(head.run_id, head.node, pid)
    path.write_bytes(b"".join(map(text_of, (head, *entries))))
    return path
