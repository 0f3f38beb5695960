"""What each card was rejected for, by the runs of a folder of reports."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from rigproof.history.verdicts import verdicts
from rigproof.records.limits import MIB, FileRefusedError, read_bounded
from rigproof.records.message_text import one_line
from rigproof.records.verdict import FOLLOWS, Decision, Outcome, count_of

LAST = 20  # runs of a card that are looked at: a card that was mended has a name to regain
RUNS_MOST = 1000  # that are read
BYTES_MAX = 64 * MIB  # of a verdict.json that is read whole: of some 3,000 GPUs
LINE = 400  # characters
XID = re.compile(r"Xid (\d{1,3})\b")  # the first one that a verdict names: the root of the others
COUNTED = {
    "ecc_uncorrected": "uncorrected ECC errors",
    "ecc_corrected": "corrected ECC errors",
    "lost_workers": "lost workers",
}
LOSS = "cluster.no_timeouts"  # is judged of the whole rig: of the cards whose workers were lost
SHOWN = 3  # criteria that a sentence names


@dataclass(slots=True)
class Card:
    """A card, as its last run knew it, with what it was rejected for: criteria by run, the newest first."""

    subject: str
    name: str
    uuid: str
    runs: int = 0
    rejections: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)  # day and criteria
    counted: Counter[str] = field(default_factory=Counter)  # in these runs, by the keys of COUNTED

    @property
    def sentence(self) -> str:
        """For example `rejected in 2 of its last 9 runs: compute.exact (2, last 2026-11-09)`."""
        count = Counter(criterion for _, criteria in self.rejections for criterion in criteria)
        last = {criterion: day for day, criteria in reversed(self.rejections) for criterion in criteria}
        named = [f"{name} ({number}, last {last[name]})" for name, number in count.most_common(SHOWN)]
        more = [f"{len(count) - SHOWN} more"] if len(count) > SHOWN else []
        runs = count_of(self.runs, "runs")
        counted = [count_of(self.counted[one], what) for one, what in COUNTED.items() if self.counted[one]]
        found = f"rejected in {len(self.rejections)} of its last {runs}: {', '.join([*named, *more])}"
        return f"{found}; in all {', '.join(counted)}" if counted else found


def rejected_cards(report_dir: Path, rig: str | None = None) -> dict[str, Card]:
    """The cards that real runs, of one rig or of all, have rejected, by UUID; of each its last runs count.

    What follows from another failure is left out, and so are runs whose verdict.json cannot be read.
    """
    cards: dict[str, Card] = {}
    for run, head in islice(verdicts(report_dir), RUNS_MOST):
        if head is None or head.get("simulated") or rig not in (None, head["rig"].get("name")):
            continue
        every = (gpu for node in head["rig"]["nodes"] for gpu in node["gpus"])
        cuda = (gpu for gpu in every if gpu.get("device") == "cuda" and gpu.get("uuid"))
        took_part = {str(gpu.get("subject")): gpu for gpu in cuda}
        failed = _failed(run / "verdict.json") if head.get("verdict") == Decision.REJECTED else {}
        for subject, gpu in took_part.items():
            card = cards.setdefault(str(gpu["uuid"]), Card(subject, str(gpu.get("name")), str(gpu["uuid"])))
            if card.runs == LAST:
                continue
            card.runs += 1
            card.counted += Counter({one: gpu[one] for one in COUNTED if type(gpu.get(one)) is int})
            lost = [name for name in failed.get("rig", ()) if name == LOSS and gpu.get("lost_workers")]
            if criteria := (*failed.get(subject, ()), *lost):
                card.rejections.append((str(head["started_at"])[:10], criteria))
    return {uuid: card for uuid, card in cards.items() if card.rejections}


def rejection_lines(report_dir: Path, rig: str | None = None) -> Iterator[str]:
    """The lines of `rigproof history` about rejected cards; none if there are none."""
    cards = rejected_cards(report_dir, rig)
    if cards:
        yield "rejected cards"
    for card in cards.values():
        yield one_line(f"  {card.subject} {card.name} {card.uuid}: {card.sentence}", LINE)


def _failed(file: Path) -> dict[str, tuple[str, ...]]:
    """The criteria that failed by themselves, by subject."""
    try:
        criteria = json.loads(read_bounded(file, BYTES_MAX))["criteria"]
        found: dict[str, tuple[str, ...]] = {}
        for one in criteria:
            if one["outcome"] == Outcome.FAIL and not str(one.get("remedy")).startswith(FOLLOWS):
                xid = XID.search(str(one.get("detail"))) if one["criterion"] == "health.xid" else None
                name = str(one["criterion"]) + (f" {xid[1]}" if xid else "")
                found[one["subject"]] = (*found.get(one["subject"], ()), name)
    except (FileRefusedError, OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
    return found
