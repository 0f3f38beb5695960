"""Signals that end a run cleanly."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from rigproof.host.exit_status import end_interrupts, note_signal, noted_signal

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE = 3  # the number of signals that means "immediately, whatever is lost"


class SignalGuard:
    """While installed, SIGINT, SIGTERM and SIGHUP end the run the same way: cleanly.

    The first raises KeyboardInterrupt. A second one, which impatient people and process managers send, must
    not interrupt taking the rig down and writing the reports, so it is only noted; nor may the first,
    once everything is measured: after `hold` the run ends as it would have done. The third has its
    ordinary effect. A signal that whoever started the run has it ignore, as `nohup` does, stays ignored.
    """

    def __init__(self, note: Callable[[signal.Signals], None]) -> None:
        self._note = note
        self._previous: dict[signal.Signals, Any] = {}
        self.seen: list[signal.Signals] = []
        self._held = False

    def hold(self) -> None:
        """Have a first signal interrupt nothing any more, since only clean-up and writing are left."""
        self._held = True

    def install(self) -> None:
        """Install the handlers. Only for the main thread. Raises KeyboardInterrupt if one came already."""
        heard = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
        self._previous = {number: signal.signal(number, self._stop) for number in heard}
        if (came := noted_signal()) is not None:
            self._stop(came, None)

    def restore(self) -> None:
        """Restore the previous handlers. A second call does nothing."""
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, handler)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number)
        self.seen.append(name)
        if len(self.seen) == 1:
            note_signal(name)
        if len(self.seen) > 1 or not self._held:
            self._note(name)
        if len(self.seen) == 1 and not self._held:
            raise KeyboardInterrupt(name.name)
        if len(self.seen) >= PATIENCE:
            self.restore()
            end_interrupts()
            signal.raise_signal(number)
