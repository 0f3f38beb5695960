"""Moments of a run as people name them: seconds since a short one began, the clock of a long one."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

from rigproof.records.recording import Recording

LONG_S = 600.0  # "from t=9660 s" of a longer run sends its reader to a calculator
DAY_S = 86_400.0
NUMBER = r"(\d+(?:\.\d+)?)"
# A bracket that begins with the moment, its first moment, and the second one of a span.
MOMENT = re.compile(rf"(\((?:from|at) )?\bt={NUMBER}(?: to {NUMBER})?(?: s\b)?")
LENGTH = re.compile(rf"\b{NUMBER} s long\b")

Worded = Callable[[str], str]


def duration(seconds: float) -> str:
    """A length of time for people to read: `75 s`, `3 min`, `1 h`, `1 h 5 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def hours(seconds: float) -> str:
    """A moment of a long run, or a length in it: `2:41:07`."""
    whole = max(int(seconds), 0)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def is_long(recording: Recording) -> bool:
    """Whether moments of this run are named by the clock."""
    return (recording.last_s() or 0.0) > LONG_S


def lasted(recording: Recording, elapsed_s: float) -> str:
    """How long a run was that took so long here, since simulated time is not that of the clock."""
    return duration(max(elapsed_s, recording.last_s() or 0.0))


def zone_of(recording: Recording) -> timezone:
    """The time zone in which the run's driver was; UTC if that was not recorded."""
    offset_s = recording.run.utc_offset_s
    return timezone(timedelta(seconds=offset_s)) if offset_s and abs(offset_s) < DAY_S else UTC


def begun_at(recording: Recording) -> str:
    """When the run began, in its time zone: `2026-01-02 22:04 UTC+01:00`."""
    begun = _begun(recording)
    return "" if begun is None else f"{begun:%Y-%m-%d %H:%M} {begun.tzname()}"


def by_the_clock(recording: Recording) -> Worded:
    """Rewrites what a sentence says of a moment: `(from t=9660 s)` of a run of eight hours becomes
    `(from 02:41, 2 h 41 min into the run)`; that of a short run stays as it is.
    """
    begun = _begun(recording) if is_long(recording) else None
    if begun is None:
        return str
    day = "%a " if (recording.last_s() or 0.0) > DAY_S else ""

    def clock(t_s: float) -> str:
        return f"{begun + timedelta(seconds=t_s):{day}%H:%M}"

    def moment(found: re.Match[str]) -> str:
        bracket, first, last = found.groups()
        span = clock(float(first)) + ("" if last is None else f" to {clock(float(last))}")
        into = f"{duration(float(first))} into the run"
        return f"{bracket}{span}, {into}" if bracket else f"{span} ({into})"

    return lambda text: LENGTH.sub(
        lambda found: f"{duration(float(found[1]))} long", MOMENT.sub(moment, text)
    )


def _begun(recording: Recording) -> datetime | None:
    """When the run began, in its time zone; None if that record is damaged."""
    try:
        return datetime.fromisoformat(recording.run.started_at).astimezone(zone_of(recording))
    except (ValueError, OverflowError):
        return None
