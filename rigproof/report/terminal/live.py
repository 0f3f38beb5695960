"""Shows a run in progress: a live view on a terminal, elsewhere a plain line from time to time."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rigproof.profiles.planning.plan import Plan
from rigproof.records.recording import Recording
from rigproof.records.verdict import count_of, figure
from rigproof.report.content.clock_times import LONG_S, hours
from rigproof.report.content.facts import NOTICES, QUIET_EVENTS, run_facts
from rigproof.report.terminal.live_state import DeviceNow, HostNow, RunNow, StageNow, state_of

# Plain lines come every 30 s in the first ten minutes, so that a log shows life; then one for each further
# twentieth of the time, and at least every five minutes: many CI systems end a job that is silent for ten.
PLAIN_EVERY_S, PLAIN_SHARE, PLAIN_AT_LEAST_EVERY_S = 30.0, 1 / 20, 300.0
DRAW_EVERY_S = 0.5
BAR = 20  # characters
UNKNOWN = "–"
BETWEEN = "between stages"
LISTED = 2  # devices, or hosts, that a plain line lists one by one

Figure = tuple[float | None, str]  # value, unit


def terminal_copy(stream: TextIO | None = None) -> TextIO | None:
    """A text stream on a duplicate of `stream`'s descriptor (default: standard output); None without one.

    pytest's capture redirects descriptor 1 to a file while tests and fixtures run. A duplicate made before
    that, in `pytest_configure`, still reaches the terminal. The caller closes it.
    """
    stream = sys.__stdout__ if stream is None else stream
    try:
        descriptor = os.dup(stream.fileno()) if stream is not None else None
    except (OSError, ValueError):
        return None
    if descriptor is None:
        return None
    return os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", buffering=1)


class LiveView:
    """Shows a growing Recording on `stream`; nothing if that is None.

    `tick` may be called as often as you like, from one thread; it draws only when a drawing is due, by
    `now_s`, the run time. `column` returns how much of the current line pytest has written: the view is below
    that line. Whoever else writes calls `hide` before, else it would be wiped with the next drawing. If the
    stream breaks, the view ends, but not the run. `close` restores the terminal.
    """

    def __init__(
        self,
        recording: Recording,
        plan: Plan,
        stream: TextIO | None,
        now_s: Callable[[], float],
        column: Callable[[], int] = lambda: 0,
    ) -> None:
        self._recording = recording
        self._plan = plan
        self._stream = stream
        self._now_s = now_s
        self._column = column
        self._bands = {node.name: node.band_percent for node in run_facts(recording).nodes}
        self._doing = BETWEEN
        self._drawn_s: float | None = None
        self._live: Live | None = None
        self._left_column = 0  # where pytest was when the view was drawn
        self._broken_column = 0  # where a plain line broke pytest's
        self._console: Console | None = None
        self._terminal = stream is not None and _is_terminal(stream)

    def say(self, doing: str) -> None:
        """Show immediately what is being done outside of any stage, such as `starting Ray`."""
        self._doing = doing
        with self._giving_up():
            if self._terminal:
                self._draw(self._state(self._now_s()))
            else:
                self._write_plain(f"{_clock(self._now_s())} | {doing}")

    def tick(self) -> None:
        """Draw, if a drawing is due."""
        if self._stream is None:
            return
        now_s = self._now_s()
        every_s = DRAW_EVERY_S if self._terminal else plain_every_s(now_s)
        since_s = 0.0 if self._drawn_s is None and not self._terminal else self._drawn_s
        if since_s is not None and now_s - since_s < every_s:
            return
        self._drawn_s = now_s
        state = self._state(now_s)
        if state.stage is not None:
            self._doing = BETWEEN
        with self._giving_up():
            if self._terminal:
                self._draw(state)
            else:
                self._write_plain(plain_line(state, self._doing))

    def hide(self) -> None:
        """Remove the view if it is there, and return the cursor to where pytest had left it.

        The next drawing brings it back.
        """
        live, self._live = self._live, None
        if live is None or self._stream is None:
            return
        with self._giving_up():
            live.stop()
            if self._left_column:
                self._stream.write(f"\x1b[A\x1b[{self._left_column + 1}G")
            self._stream.flush()
            self._drawn_s = None

    def close(self) -> None:
        """Remove the view from the terminal. A second call does nothing."""
        self.hide()
        self._give_up()

    @contextlib.contextmanager
    def _giving_up(self) -> Iterator[None]:
        """End the view if its stream breaks."""
        try:
            yield
        except (OSError, ValueError):
            self._give_up()

    def _give_up(self) -> None:
        self._stream = None
        self._live = None

    def _state(self, now_s: float) -> RunNow:
        return state_of(self._recording, self._plan, now_s, QUIET_EVENTS | NOTICES)

    def _write_plain(self, text: str) -> None:
        if self._stream is None:
            return
        column = self._column()
        start = "\n" if column != self._broken_column else ""  # once for each line that pytest has begun
        self._broken_column = column
        mark = "SIMULATED " if self._recording.run.simulated else ""
        self._stream.write(f"{start}rigproof: {mark}{text}\n")
        self._stream.flush()

    def _draw(self, state: RunNow) -> None:
        if self._stream is None:
            return
        if self._live is None or self._console is None:
            self._left_column = self._column()
            if self._left_column:
                self._stream.write("\n")
                self._stream.flush()
            self._console = Console(file=self._stream, force_terminal=True, highlight=False)
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="ellipsis",
            )
            self._live.start()
        with contextlib.suppress(OSError):  # rich's own guess stays if the size is unknown
            size = os.get_terminal_size(self._stream.fileno())
            if size.columns and size.lines:
                self._console.size = (size.columns, size.lines)
        self._live.update(self._table(state), refresh=True)

    def _table(self, state: RunNow) -> Table:
        whole = Table.grid(padding=0)
        mark = "[SIMULATED] " if self._recording.run.simulated else ""
        trouble = f"  {state.troubles} event{'' if state.troubles == 1 else 's'}" if state.troubles else ""
        whole.add_row(Text(f"{mark}{_clock(state.now_s)}  {self._stage_bar(state.stage)}{trouble}", "bold"))
        if not any(device.sample or device.rate or device.alive for device in state.devices):
            return whole  # still starting
        devices = Table.grid(padding=(0, 1))
        for _ in range(7):
            devices.add_column(justify="right", no_wrap=True)
        devices.columns[0].justify = "left"
        for device in state.devices:
            devices.add_row(*_device_cells(device))
        whole.add_row(devices)
        for host in state.hosts:
            whole.add_row(Text(_host_text(host, self._bands.get(host.subject))))
        return whole

    def _stage_bar(self, stage: StageNow | None) -> str:
        if stage is None:
            return self._doing
        full = round(stage.share * BAR)
        return f"{stage.name} {'█' * full}{'░' * (BAR - full)} {_progress(stage)}"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
    except ValueError:  # closed
        return False


def plain_every_s(now_s: float) -> float:
    """The time between two plain lines, which grows with the run time."""
    return min(PLAIN_AT_LEAST_EVERY_S, max(PLAIN_EVERY_S, PLAIN_SHARE * now_s))


def plain_line(state: RunNow, doing: str = BETWEEN) -> str:
    """The run in one line, of many devices and hosts their ranges; `doing` stands there between stages."""
    parts = [_clock(state.now_s)]
    stage = state.stage
    parts.append(f"{stage.name} {_progress(stage)}" if stage else doing)
    if len(state.devices) > LISTED:
        parts.append(_devices_text(state.devices))
    else:
        parts += map(_device_text, state.devices)
    if len(state.hosts) > LISTED:
        percents = [(_rounded(one.cpu_percent), "%") for one in state.hosts]
        parts.append(f"{count_of(len(state.hosts), 'hosts')} CPU {_range(percents) or UNKNOWN}")
    else:
        parts += [f"{one.subject} CPU {_cell(_rounded(one.cpu_percent), '%')}" for one in state.hosts]
    if state.troubles:
        parts.append(f"{state.troubles} event{'' if state.troubles == 1 else 's'}")
    return " | ".join(parts)


def _clock(now_s: float) -> str:
    minutes, seconds = divmod(max(int(now_s), 0), 60)
    return f"{minutes:02d}:{seconds:02d}" if minutes < 60 else hours(now_s)


def _progress(stage: StageNow) -> str:
    """How much of the stage is over: `12/30 s`, or of a long one `1:12:00/8:00:00`."""
    if stage.expected_s > LONG_S:
        return f"{hours(stage.elapsed_s)}/{hours(stage.expected_s)}"
    return f"{stage.elapsed_s:.0f}/{stage.expected_s:.0f} s"


def _device_cells(device: DeviceNow) -> tuple[str, ...]:
    """Subject, rate, temperature, power, clock, memory, workers; a dash for an unknown value."""
    figures = (_cell(*one) for one in _figures(device))
    return (device.subject, *figures, f"{device.alive}/{count_of(device.planned, 'workers')}")


def _figures(device: DeviceNow) -> tuple[Figure, ...]:
    """A device's rate, temperature, power, clock and memory."""
    sample, rate = device.sample, device.rate
    held_mib = sample.memory_used_mib if sample else None
    return (
        (None, "") if rate is None else (rate.value, rate.unit),
        (sample.core_temperature_c if sample else None, "°C"),
        (_rounded(sample.power_w) if sample else None, "W"),
        (sample.sm_clock_mhz if sample else None, "MHz"),
        (None if held_mib is None else held_mib / 1024, "GiB"),
    )


def _device_text(device: DeviceNow) -> str:
    """The known cells of one device."""
    return " ".join(cell for cell in _device_cells(device) if UNKNOWN not in cell)


def _devices_text(devices: Sequence[DeviceNow]) -> str:
    """The number of devices, and the range of each figure."""
    ranges = filter(None, map(_range, zip(*map(_figures, devices), strict=True)))
    alive, planned = sum(one.alive for one in devices), sum(one.planned for one in devices)
    return " ".join(
        [f"{count_of(len(devices), 'devices')}", *ranges, f"{alive}/{count_of(planned, 'workers')}"]
    )


def _range(figures: Sequence[Figure]) -> str | None:
    """Lowest and highest value, and of how many if not of all; None if none is known, or units differ."""
    known = [value for value, _ in figures if value is not None]
    units = {unit for value, unit in figures if value is not None}
    if len(units) != 1:
        return None
    (unit,), low, high = units, figure(min(known)), figure(max(known))
    missing = f" ({len(known)} of {len(figures)})" if len(known) < len(figures) else ""
    return f"{low if low == high else f'{low}…{high}'} {unit}{missing}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value)


def _cell(value: float | None, unit: str) -> str:
    return f"{UNKNOWN} {unit}".strip() if value is None else figure(value, unit)


def _host_text(host: HostNow, band: tuple[float, float] | None) -> str:
    promised = f" (band {band[0]:g}–{band[1]:g} %)" if band is not None else ""
    percent, delay = _cell(_rounded(host.cpu_percent), "%"), _cell(host.wakeup_p99_ms, "ms")
    return f"{host.subject} CPU {percent}{promised}, wake-up p99 {delay}"
