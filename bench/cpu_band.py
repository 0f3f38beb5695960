"""Does the CPU load hold a whole host in its band, whatever else runs there?

The shipped controller against open-loop threads and `stress-ng --cpu-load`, in one run: each method on the
host as it is, then beside a foreign hog that comes and goes. Needs psutil, but neither Ray nor a GPU.

    python3 bench/cpu_band.py --json cpu_band.json
"""

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from cpu_band_loads import LOADS, Host, child, host

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rigproof.records.samples import CpuTimes
from rigproof.telemetry.host import HostReader
from rigproof.telemetry.responsiveness import ResponsivenessProbe

METHODS = tuple(LOADS)
CONDITIONS = ("quiet", "hog")
TITLE = (
    "method      host    others    mean     sd  in band  out: changes"
    "  otherwise  >warn    hog  p99 ms  max ms"
)
WINDOW_S = 1.0
SETTLE_S = 3.0  # from the load's start to the first window
HOG_S = 8.0  # on, then off, then on …
# Where in its window each change falls: a fixed phase could be the one that suits a method.
HOG_PHASES_S = (0.1, 0.5, 0.9, 0.3, 0.7)
HOG_SHARE = 0.15  # of the CPUs, one full core at least


@dataclass(frozen=True)
class Window:
    """The host's CPU over one second."""

    from_s: float  # since the arm's first window began
    to_s: float
    percent: float  # everybody
    load_percent: float
    hog_percent: float
    changed: bool  # the hog came or went in it
    hog_on: bool  # at its end

    @property
    def others_percent(self) -> float:
        """Neither the load nor the hog: what disturbed the measurement."""
        return max(0.0, self.percent - self.load_percent - self.hog_percent)


@dataclass(frozen=True)
class UsedTimes:
    """Times of the whole host, and CPU seconds of the load and of the hog."""

    host: CpuTimes
    load_s: float
    hog_s: float


# The measurement


def changes(seconds: float) -> list[float]:
    """When the hog comes, goes, comes, …, from the first window on."""
    count = int(seconds / HOG_S)
    moments = [HOG_S * (n + 1) + HOG_PHASES_S[n % len(HOG_PHASES_S)] for n in range(count)]
    return [moment for moment in moments if moment < seconds]


def measure(method: str, condition: str, here: Host, given: argparse.Namespace) -> dict:
    """One arm: a method under a condition."""
    with ExitStack() as stack:
        hog = stack.enter_context(child("hog", given.hog_cpus)) if condition == "hog" else None
        probe = ResponsivenessProbe()
        stack.callback(probe.stop)
        load = psutil.Process(stack.enter_context(LOADS[method](here, given)))
        time.sleep(SETTLE_S)
        family = [load, *load.children(recursive=True)]
        probe.drain()
        windows = watch(Meter(family, hog), given.seconds, hog)
        delays_ms = sorted(probe.drain() or ())
        if load.status() == psutil.STATUS_ZOMBIE:
            sys.exit(f"{method} ended by itself")
    return {
        "method": method,
        "condition": condition,
        "processes": len(family),
        **summary(windows, here),
        "delays": len(delays_ms),
        "p99_ms": delays_ms[math.ceil(0.99 * len(delays_ms)) - 1] if delays_ms else None,
        "max_ms": delays_ms[-1] if delays_ms else None,
        "windows": [asdict(window) for window in windows],
    }


class Meter:
    """CPU times of the host, of the load's processes and of the hog."""

    def __init__(self, load: list[psutil.Process], hog: subprocess.Popen[str] | None) -> None:
        self._reader = HostReader()
        self._load = load
        self._hog = [psutil.Process(hog.pid)] if hog else []

    def read(self) -> UsedTimes:
        """Now."""
        return UsedTimes(self._reader.cpu_times(), used_s(self._load), used_s(self._hog))


def used_s(processes: list[psutil.Process]) -> float:
    """CPU seconds since they began."""
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def watch(meter: Meter, seconds: int, hog: subprocess.Popen[str] | None) -> list[Window]:
    """Windows one after another; on the way the hog is switched on and off."""
    ahead = changes(seconds) if hog else []
    moments: list[float] = []
    last = meter.read()
    began_s = last.host.clock_s
    windows = []
    for number in range(1, seconds + 1):
        to_s = number * WINDOW_S
        while ahead and ahead[0] < to_s:
            sleep_until(began_s + ahead.pop(0))
            assert hog is not None
            assert hog.stdin is not None
            hog.stdin.write("off\n" if len(moments) % 2 else "on\n")
            hog.stdin.flush()
            moments.append(time.monotonic() - began_s)
        sleep_until(began_s + to_s)
        now = meter.read()
        span = (last.host.clock_s - began_s, now.host.clock_s - began_s)
        available_s = (span[1] - span[0]) * now.host.capacity_cpus
        windows.append(
            Window(
                *span,
                percent=100 * (now.host.busy_s - last.host.busy_s) / available_s,
                load_percent=100 * (now.load_s - last.load_s) / available_s,
                hog_percent=100 * (now.hog_s - last.hog_s) / available_s,
                changed=any(span[0] <= moment < span[1] for moment in moments),
                hog_on=len(moments) % 2 == 1,
            )
        )
        last = now
    return windows


def sleep_until(moment_s: float) -> None:
    """On the monotonic clock."""
    time.sleep(max(0.0, moment_s - time.monotonic()))


def summary(windows: list[Window], here: Host) -> dict:
    """What the table shows of one arm."""
    values = [window.percent for window in windows]
    low, high = here.band
    out = [window for window in windows if not low <= window.percent <= high]
    beside_hog = [window.hog_percent for window in windows if window.hog_on and not window.changed]
    return {
        "others_percent": statistics.fmean(window.others_percent for window in windows),
        "mean_percent": statistics.fmean(values),
        "sd_percent": statistics.pstdev(values),
        "in_band_share": 1 - len(out) / len(windows),
        "out_with_change": sum(window.changed for window in out),
        "out_without_change": sum(not window.changed for window in out),
        "changes": sum(window.changed for window in windows),
        "over_warn": sum(value > here.warn_percent for value in values),
        "hog_got_cpus": statistics.fmean(beside_hog) / 100 * here.cpus if beside_hog else None,
    }


# The command


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=45, help="windows of each arm")
    parser.add_argument("--methods", default=",".join(METHODS), help="some of them, in this order")
    parser.add_argument("--conditions", default=",".join(CONDITIONS), help="some of them, in this order")
    parser.add_argument("--hog-cpus", type=int, help=f"full cores; without it {HOG_SHARE:.0%} of the CPUs")
    parser.add_argument("--stress-ng", default="stress-ng", metavar="PATH")
    parser.add_argument("--json", "--out", dest="json", type=Path, metavar="FILE")
    given = parser.parse_args()
    given.methods, given.conditions = given.methods.split(","), given.conditions.split(",")
    for name, known in (("methods", METHODS), ("conditions", CONDITIONS)):
        if unknown := set(getattr(given, name)) - set(known):
            parser.error(f"--{name} {','.join(sorted(unknown))}: give some of {','.join(known)}")
    if given.seconds < 1:
        parser.error(f"--seconds {given.seconds}: give 1 or more")
    return given


def left_out(method: str, condition: str, here: Host, given: argparse.Namespace) -> str | None:
    """Why an arm cannot be measured here; None where it can."""
    if method == "stress-ng" and shutil.which(given.stress_ng) is None:
        return f"no {given.stress_ng} here: install it or name it by --stress-ng"
    if condition == "hog" and given.hog_cpus >= here.target_percent / 100 * here.cpus:
        return f"a hog of {given.hog_cpus} of {here.cpus:g} CPUs leaves nothing under the target"
    return None


def facts(here: Host, given: argparse.Namespace) -> dict:
    """On what it was measured."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cpus_of_the_host": os.cpu_count(),
        **asdict(here),
        "target_percent": here.target_percent,
        "hog_cpus": given.hog_cpus,
        "seconds": given.seconds,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def row(arm: dict) -> str:
    """One line of the table."""
    name = f"{arm['method']:<11} {arm['condition']:<6}"
    if "skipped" in arm:
        return f"{name} skipped: {arm['skipped']}"
    hog, p99, longest = (
        "-" if arm[key] is None else f"{arm[key]:.2f}" for key in ("hog_got_cpus", "p99_ms", "max_ms")
    )
    return (
        f"{name} {arm['others_percent']:>7.1f} {arm['mean_percent']:>7.1f} {arm['sd_percent']:>6.2f}"
        f" {100 * arm['in_band_share']:>8.1f} {arm['out_with_change']:>6}/{arm['changes']:<3}"
        f" {arm['out_without_change']:>9} {arm['over_warn']:>6} {hog:>6} {p99:>7} {longest:>7}"
    )


def main() -> None:
    """Measure every arm, print and write."""
    given = arguments()
    here = host()
    if given.hog_cpus is None:
        given.hog_cpus = max(1, int(HOG_SHARE * here.cpus))
    result = {"host": facts(here, given), "arms": []}
    print(json.dumps(result["host"], indent=1))
    print(TITLE)
    for method in given.methods:
        for condition in given.conditions:
            why = left_out(method, condition, here, given)
            arm = (
                {"method": method, "condition": condition, "skipped": why}
                if why
                else measure(method, condition, here, given)
            )
            result["arms"].append(arm)
            print(row(arm), flush=True)
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
