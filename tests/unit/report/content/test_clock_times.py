"""Moments of a long run are named by the clock of the rig, those of a short one by its seconds."""

from dataclasses import replace

import pytest

from rigproof.report.content.clock_times import begun_at, by_the_clock, duration, hours, is_long


@pytest.fixture
def night(recording):
    """Eight hours that began at 22:04:05 in a zone an hour east of UTC."""
    started = {"started_at": "2026-01-02T21:04:05Z", "utc_offset_s": 3600}
    recording.run = replace(recording.run, **started)
    recording.add(replace(next(iter(recording.gpu_samples.of("pc1/gpu0"))), t_s=28_800.0))
    return recording


@pytest.mark.parametrize(
    ("said", "worded"),
    [
        ("84 °C (from t=9660 s, 41 s long)", "84 °C (from 00:45, 2 h 41 min into the run, 41 s long)"),
        ("Xid 79 (at t=12 s)", "Xid 79 (at 22:04, 12 s into the run)"),
        ("lost at t=9660 s: gone", "lost at 00:45 (2 h 41 min into the run): gone"),
        ("none was read from t=3600 to 7200 s", "none was read from 23:04 to 00:04 (1 h into the run)"),
        ("(from t=60 s, 7200 s long)", "(from 22:05, 60 s into the run, 2 h long)"),
        ("at t=61.5 s", "at 22:05 (62 s into the run)"),
        ("set=3 s, T=9 s, 10 s of load", "set=3 s, T=9 s, 10 s of load"),
    ],
)
def test_a_moment_of_a_long_run_is_named_by_the_clock(night, said, worded):
    assert is_long(night)
    assert by_the_clock(night)(said) == worded


def test_a_moment_of_a_short_run_stays_as_it_is(recording):
    assert not is_long(recording)
    said = "84 °C (from t=41 s, 15 s long)"
    assert by_the_clock(recording)(said) == said


def test_a_run_of_days_says_on_which(night):
    night.add(replace(next(iter(night.gpu_samples.of("pc1/gpu0"))), t_s=100_000.0))
    assert by_the_clock(night)("at t=9660 s") == "at Sat 00:45 (2 h 41 min into the run)"


def test_where_no_time_zone_was_recorded_it_is_utc_and_says_so(night):
    night.run = replace(night.run, utc_offset_s=None)
    assert begun_at(night) == "2026-01-02 21:04 UTC"
    assert by_the_clock(night)("at t=9660 s") == "at 23:45 (2 h 41 min into the run)"


@pytest.mark.parametrize(("started_at", "offset_s"), [("yesterday", 0), ("2026-01-02T21:04:05Z", 10**9)])
def test_a_damaged_beginning_or_zone_leaves_seconds(night, started_at, offset_s):
    night.run = replace(night.run, started_at=started_at, utc_offset_s=offset_s)
    assert by_the_clock(night)("at t=9660 s").startswith("at ")
    assert isinstance(begun_at(night), str)


def test_lengths_and_moments_are_written_as_people_say_them():
    assert [duration(one) for one in (75, 170, 3600, 4000)] == ["75 s", "3 min", "1 h", "1 h 7 min"]
    assert [hours(one) for one in (0, 61, 9667.9)] == ["0:00:00", "0:01:01", "2:41:07"]
