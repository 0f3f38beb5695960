"""When the parts of a run's start ended: from the start of the driver's process until the workers are up.

Several parts go on side by side, so each is known by its end, and the order is that in which they ended.
"""

import time

from rigproof.host import processes
from rigproof.records.measurements import Event


class StartUp:
    """Notes the end of each part. Run time begins later than the process: its earliest ends are negative."""

    def __init__(self) -> None:
        self._began_s = time.monotonic() - processes.age_s()
        self._ended_s: dict[str, float] = {}

    def ended(self, part: str) -> None:
        """Note that the part is over now."""
        self._ended_s[part] = time.monotonic()

    def event(self, origin_s: float) -> Event:
        """The ends of all parts; `origin_s` is run time 0 on this process's monotonic clock."""
        now_s = time.monotonic()
        parts_s = {part: round(at_s - origin_s, 3) for part, at_s in self._ended_s.items()}
        message = f"the workers were up {now_s - self._began_s:.1f} s after the process began"
        data = {"process_s": round(self._began_s - origin_s, 3), "ended_s": parts_s}
        return Event(now_s - origin_s, "start_up", "rig", message, data=data)
