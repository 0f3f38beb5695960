"""Watches the PCIe errors of a host's GPUs: records a reading if a count has changed, and now and then."""

from collections.abc import Callable, Iterable

from rigproof.records.samples import PcieErrors

READ_S = 1.0
RECORDED_S = 60.0  # at least so often, which shows that the watch goes on
SLACK = 0.9  # a grid of 10 Hz is not exact: the reading that is due now is not to wait for the next point


class PcieWatch:
    """The readings of some GPUs. `read(t_s, subject)` returns the present counts of one."""

    def __init__(self, subjects: Iterable[str], read: Callable[[float, str], PcieErrors]) -> None:
        self._subjects = tuple(subjects)
        self._read = read
        self._read_s: float | None = None
        self._recorded: dict[str, PcieErrors] = {}

    def when_due(self, t_s: float) -> list[PcieErrors]:
        """Read all GPUs, if the last time was READ_S ago, and return what is to be recorded."""
        if self._read_s is not None and t_s - self._read_s < SLACK * READ_S:
            return []
        self._read_s = t_s
        return [one for one in self._readings(t_s) if self._is_due(one)]

    def now(self, t_s: float) -> list[PcieErrors]:
        """Read all GPUs, and return all readings."""
        found = self._readings(t_s)
        self._recorded |= {one.subject: one for one in found}
        return found

    def _is_due(self, found: PcieErrors) -> bool:
        last = self._recorded.get(found.subject)
        due = last is None or last.counts != found.counts or found.t_s - last.t_s >= RECORDED_S
        if due:
            self._recorded[found.subject] = found
        return due

    def _readings(self, t_s: float) -> list[PcieErrors]:
        return [self._read(t_s, subject) for subject in self._subjects]
