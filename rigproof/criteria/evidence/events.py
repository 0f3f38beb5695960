"""The events of a run, found by their kind and their subject."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import attrgetter

from rigproof.criteria.evidence.series import grouped
from rigproof.records.measurements import Event


class EventIndex:
    """The events of a run, in the order of time; those of a kind are indexed by subject on first use."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._by_kind: dict[str, list[Event]] = defaultdict(list)
        for event in sorted(events, key=attrgetter("t_s")):
            self._by_kind[event.kind].append(event)
        self._by_subject: dict[str, dict[str, list[Event]]] = {}

    def of_kind(self, kind: str) -> Sequence[Event]:
        """The events of this kind."""
        return self._by_kind.get(kind, ())

    def of(self, subject: str, *kinds: str) -> list[Event]:
        """The events of these kinds that concern the subject."""
        if len(kinds) == 1:
            return self._subjects_of(kinds[0]).get(subject, [])
        found = [event for kind in kinds for event in self._subjects_of(kind).get(subject, ())]
        return sorted(found, key=attrgetter("t_s"))

    @cached_property
    def left_out(self) -> dict[tuple[str, str], str]:
        """Why a criterion was not requested, by subject and criterion: the first reason."""
        found: dict[tuple[str, str], str] = {}
        for event in self.of_kind("left_out"):
            found.setdefault((event.subject, str(event.data.get("criterion"))), event.message)
        return found

    def _subjects_of(self, kind: str) -> dict[str, list[Event]]:
        """The events of this kind by subject."""
        if kind not in self._by_subject:
            self._by_subject[kind] = grouped(self.of_kind(kind))
        return self._by_subject[kind]
