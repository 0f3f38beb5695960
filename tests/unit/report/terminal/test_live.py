import fcntl
import io
import itertools
import os
import pty
import re
import struct
import termios
from dataclasses import replace

import pytest

from rigproof.records.measurements import Stage
from rigproof.report.content.facts import QUIET_EVENTS
from rigproof.report.terminal.live import LiveView, plain_line, terminal_copy
from rigproof.report.terminal.live_state import RunNow, StageNow, state_of


class Clock:
    def __init__(self, now_s=0.0):
        self.now_s = now_s

    def __call__(self):
        return self.now_s


@pytest.fixture
def running(recording):
    """The sample run at t=45 s, inside its sustained stage."""
    recording.stages["sustained"] = Stage("sustained", 24.5, loaded_from_s=25.0)
    for name in ("rounds", "gpu_samples", "host_samples"):
        setattr(recording, name, [one for one in getattr(recording, name) if one.t_s <= 45])
    return recording


@pytest.fixture
def terminal(monkeypatch):
    """A pseudo-terminal of 80 × 24: (stream to write to, function that reads what was written)."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("CI", raising=False)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.set_blocking(master, False)
    stream = os.fdopen(slave, "w", encoding="utf-8", buffering=1)

    def read():
        parts = []
        while True:
            try:
                parts.append(os.read(master, 65536))
            except BlockingIOError:
                return b"".join(parts).decode()

    yield stream, read
    stream.close()
    os.close(master)


def lines_of(written):
    """What a person sees of it: without the codes that move and colour."""
    return [
        line.rstrip()
        for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written).replace("\r", "\n").split("\n")
    ]


def test_elsewhere_there_is_a_plain_line_every_thirty_seconds(running, plan):
    out, clock = io.StringIO(), Clock()
    view = LiveView(running, plan, out, clock)
    for second in range(65):
        clock.now_s = float(second)
        if second == 45:
            break
        view.tick()
    assert out.getvalue().count("\n") == 1
    clock.now_s = 45.0
    view.tick()
    assert out.getvalue().count("\n") == 1
    clock.now_s = 60.0
    view.tick()
    view.close()
    assert out.getvalue().count("\n") == 2
    assert "\x1b" not in out.getvalue()


def test_a_night_in_a_log_is_not_a_thousand_lines(running, plan):
    out, clock, said_s = io.StringIO(), Clock(), []
    view = LiveView(running, plan, out, clock)
    for clock.now_s in range(0, 8 * 3600, 5):
        before = out.tell()
        view.tick()
        if out.tell() > before:
            said_s.append(clock.now_s)
    pauses_s = [later - one for one, later in itertools.pairwise([0, *said_s])]
    assert said_s[:20] == list(range(30, 601, 30))  # as long as a standard run
    assert max(pauses_s) == 300
    assert len(said_s) < 160
    assert pauses_s == sorted(pauses_s)


def test_the_plain_line_says_how_every_device_and_host_is(running, plan):
    out = io.StringIO()
    LiveView(running, plan, out, Clock(45.0)).tick()
    line = out.getvalue()
    assert line.startswith("rigproof: 00:45 | sustained 20/35 s | pc1/gpu0 ")
    assert re.search(r"pc1/gpu0 6\d\.\d TFLOP/s 7\d °C 3\d\d W 1[67]\d\d MHz 16\.8 GiB 1/1 worker", line)
    assert re.search(r"\| pc1 CPU 7\d %", line)
    assert line.endswith("| 1 event\n")


def test_of_many_devices_and_hosts_the_plain_line_says_the_ranges(running, plan):
    state = state_of(running, plan, 45.0, QUIET_EVENTS)
    first = state.devices[0]
    assert first.sample is not None
    silent = replace(first, subject="pc1/gpu8", sample=None, alive=0)
    hot = replace(first, subject="pc1/gpu9", sample=replace(first.sample, core_temperature_c=91))
    hosts = tuple(replace(state.hosts[0], cpu_percent=percent) for percent in (70, None, 99))
    line = plain_line(replace(state, devices=(first, hot, silent), hosts=hosts))
    assert re.search(r"\| 3 devices 6\d\.\d TFLOP/s 7\d…91 °C \(2 of 3\) ", line)
    assert "GiB (2 of 3) 2/3 workers | 3 hosts CPU 70…99 % (2 of 3)" in line


def test_what_is_not_known_is_left_out_not_zero(running, plan):
    running.gpu_samples = []
    running.host_samples = []
    out = io.StringIO()
    LiveView(running, plan, out, Clock(45.0)).tick()
    assert "°C" not in out.getvalue()
    assert "pc1 CPU –" in out.getvalue()


def test_a_simulated_run_says_so_in_every_line(running, plan):
    running.run = replace(running.run, simulated=True)
    out = io.StringIO()
    LiveView(running, plan, out, Clock(45.0)).tick()
    assert out.getvalue().startswith("rigproof: SIMULATED 00:45")


def test_on_a_terminal_there_is_one_line_for_each_device_and_host(running, plan, terminal):
    stream, read = terminal
    view = LiveView(running, plan, stream, Clock(45.0))
    view.tick()
    lines = lines_of(read())
    assert max(map(len, lines)) <= 80
    assert any(re.match(r"00:45  sustained █+░+ 20/35 s  1 event$", line) for line in lines)
    assert any(
        re.match(r"pc1/gpu0 6\d\.\d TFLOP/s 7\d °C 3\d\d W 1[67]\d\d MHz 16\.8 GiB 1/1 worker", line)
        for line in lines
    )
    assert any(line.startswith("pc1/gpu1 ") for line in lines)
    assert any(re.match(r"pc1 CPU 7\d % \(band 70–85 %\), wake-up p99 0\.\d\d ms", line) for line in lines)
    view.close()


def test_it_is_drawn_again_when_it_is_time_and_taken_off_at_the_end(running, plan, terminal):
    stream, read = terminal
    clock = Clock(45.0)
    view = LiveView(running, plan, stream, clock)
    view.tick()
    read()
    clock.now_s = 45.2
    view.tick()
    assert read() == ""
    clock.now_s = 45.6
    view.tick()
    assert "pc1/gpu0" in read()
    view.close()
    end = read()
    assert "\x1b[?25h" in end  # the cursor is back
    assert end.count("\x1b[2K") >= 4  # and every line is wiped
    view.close()
    view.tick()
    assert read() == ""


def test_it_makes_room_for_others_and_returns_the_cursor_to_where_they_were(running, plan, terminal):
    stream, read = terminal
    clock = Clock(45.0)
    view = LiveView(running, plan, stream, clock, lambda: 17)
    view.tick()
    assert read().startswith("\r\n")  # pytest's own line stays above it
    view.hide()
    hidden = read()
    assert hidden.count("\x1b[2K") >= 4  # every line is wiped
    assert hidden.endswith("\x1b[A\x1b[18G")
    view.hide()
    assert read() == ""
    view.tick()
    assert "pc1/gpu0" in read()
    view.close()


def test_at_the_left_of_a_line_it_takes_no_line_of_its_own(running, plan, terminal):
    stream, read = terminal
    view = LiveView(running, plan, stream, Clock(45.0))
    view.tick()
    assert not read().startswith("\r\n")
    view.hide()
    assert "\x1b[A\x1b[" not in read()
    view.close()


def test_what_is_done_before_the_first_stage_is_shown_at_once(running, plan, terminal):
    stream, read = terminal
    running.stages.clear()
    for name in ("rounds", "gpu_samples", "workers"):
        setattr(running, name, [])
    view = LiveView(running, plan, stream, Clock(3.0))
    view.say("starting Ray")
    assert any(line.startswith("00:03  starting Ray") for line in lines_of(read()))
    view.close()


def test_elsewhere_what_is_done_is_a_line_that_breaks_pytests_once(running, plan):
    out, clock, column = io.StringIO(), Clock(0.0), iter([17, 17, 20])
    view = LiveView(running, plan, out, clock, lambda: next(column))
    for doing in ("starting Ray", "starting 2 workers", "starting 1 worker"):
        view.say(doing)
    assert out.getvalue() == (
        "\nrigproof: 00:00 | starting Ray\nrigproof: 00:00 | starting 2 workers\n"
        "\nrigproof: 00:00 | starting 1 worker\n"
    )


def test_a_narrow_terminal_is_not_broken(running, plan, terminal):
    stream, read = terminal
    fcntl.ioctl(stream.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    view = LiveView(running, plan, stream, Clock(45.0))
    view.tick()
    assert max(map(len, lines_of(read()))) <= 40
    view.close()


@pytest.mark.parametrize("name", ["CI", "TERM"])
def test_a_terminal_that_cannot_draw_gets_plain_lines(running, plan, terminal, monkeypatch, name):
    stream, read = terminal
    monkeypatch.setenv(name, "dumb")
    LiveView(running, plan, stream, Clock(45.0)).tick()
    written = read()
    assert written.startswith("rigproof: 00:45")
    assert "\x1b" not in written


def test_a_stream_that_breaks_off_ends_the_view_not_the_run(running, plan):
    class Broken(io.StringIO):
        def write(self, _):
            raise OSError(5, "Input/output error")

    clock = Clock(45.0)
    view = LiveView(running, plan, Broken(), clock)
    view.tick()
    clock.now_s = 90.0
    view.tick()
    view.close()


def test_without_a_stream_there_is_no_view(running, plan):
    view = LiveView(running, plan, None, Clock(45.0))
    view.tick()
    view.close()


def test_a_copy_of_a_stream_outlives_what_capture_does_to_it(tmp_path):
    path = tmp_path / "terminal"
    with path.open("w") as real:
        copy = terminal_copy(real)
        with (tmp_path / "captured").open("w") as elsewhere:
            os.dup2(elsewhere.fileno(), real.fileno())
        copy.write("seen\n")
        copy.close()
    assert path.read_text() == "seen\n"
    assert terminal_copy(io.StringIO()) is None


@pytest.mark.parametrize(
    ("now_s", "stage", "said"),
    [
        (75.0, StageNow("gemm", 12.0, 30.0), "01:15 | gemm 12/30 s"),
        (3599.0, StageNow("sustained", 165.0, 721.0), "59:59 | sustained 0:02:45/0:12:01"),
        (9667.0, StageNow("sustained", 9600.0, 28_800.0), "2:41:07 | sustained 2:40:00/8:00:00"),
    ],
)
def test_a_long_run_and_a_long_stage_are_counted_in_hours(now_s, stage, said):
    assert plain_line(RunNow(now_s, stage, (), (), 0)) == said
