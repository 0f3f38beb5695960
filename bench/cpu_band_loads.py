"""The loads that `cpu_band.py` compares, and the hog beside them: each in processes of its own."""

import argparse
import contextlib
import math
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rigproof.cluster.actors.host_load import HostLoadProcess
from rigproof.host.cpu_band import HostLoad, thread_plan
from rigproof.telemetry.host import HostReader

DEFAULTS = Path(__file__).resolve().parent.parent / "hwprofiles/defaults.toml"
SLOT_S = 0.1
BUFFER = bytes(2**20)


@dataclass(frozen=True)
class Host:
    """What is loaded, and how the profile's defaults want it."""

    cpus: float
    band: tuple[float, float]
    warn_percent: float
    primary_threads: int
    secondary_threads: int

    @property
    def target_percent(self) -> float:
        """The middle of the band."""
        return sum(self.band) / 2

    @property
    def threads(self) -> int:
        """What the load may start."""
        return self.primary_threads + self.secondary_threads


def host() -> Host:
    """This host, and the [cpu] table of hwprofiles/defaults.toml."""
    cpu = tomllib.loads(DEFAULTS.read_text())["cpu"]
    cpus = HostReader().usable_cpus()
    threads = thread_plan(cpus, cpu["primary_thread_share"], cpu["secondary_thread_share"])
    return Host(cpus, tuple(cpu["band_percent"]), cpu["warn_percent"], *threads)


@contextlib.contextmanager
def controller(here: Host, given: argparse.Namespace) -> Iterator[int]:  # noqa: ARG001 - called as the others are
    """What an acceptance run does."""
    load = HostLoadProcess(HostLoad(here.primary_threads, here.secondary_threads, here.target_percent))
    try:
        yield load.pid
    finally:
        load.stop()


@contextlib.contextmanager
def open_loop(here: Host, given: argparse.Namespace) -> Iterator[int]:  # noqa: ARG001 - called as the others are
    """As many threads, each at the duty cycle that would bring an idle host to the target."""
    duty = min(1.0, here.target_percent / 100 * here.cpus / here.threads)
    with child("open-loop", here.threads, duty) as process:
        yield process.pid


@contextlib.contextmanager
def stress_ng(here: Host, given: argparse.Namespace) -> Iterator[int]:
    """One stressor for each CPU; with a fractional quota they aim at as much less."""
    stressors = math.ceil(here.cpus)
    percent = round(here.target_percent * here.cpus / stressors)
    command = [given.stress_ng, "--cpu", str(stressors), "--cpu-load", str(percent), "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(10)


LOADS: dict[str, Callable[[Host, argparse.Namespace], AbstractContextManager[int]]] = {
    "controller": controller,
    "open-loop": open_loop,
    "stress-ng": stress_ng,
}


@contextlib.contextmanager
def child(*words: object) -> Iterator[subprocess.Popen[str]]:
    """A load of this file in a process of its own, which ends when its input closes."""
    command = [sys.executable, __file__, *map(str, words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            sys.exit(f"{' '.join(command)} did not start")
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(10)


def be_open_loop(threads: int, duty: float) -> None:
    """Each thread works for a fixed part of each slot of the wall clock, until stdin closes."""

    def work(place: int) -> None:
        slot_at_s = time.monotonic() + SLOT_S * place / threads
        while True:
            time.sleep(max(0.0, slot_at_s - time.monotonic()))
            until_s = time.monotonic() + duty * SLOT_S
            while time.monotonic() < until_s:
                sha256(BUFFER)
            slot_at_s = max(slot_at_s + SLOT_S, time.monotonic())

    start(work, threads)
    sys.stdin.read()


def be_hog(cores: int) -> None:
    """Work on so many cores between each "on" and "off" of stdin."""
    on = threading.Event()

    def work(_: int) -> None:
        while on.wait():
            sha256(BUFFER)

    start(work, cores)
    for line in sys.stdin:
        if line.strip() == "on":
            on.set()
        else:
            on.clear()


def start(work: Callable[[int], None], count: int) -> None:
    """Threads that die with the process; "ready" once they run."""
    for place in range(count):
        threading.Thread(target=work, args=(place,), daemon=True).start()
    print("ready", flush=True)


if __name__ == "__main__":
    role, count, *more = sys.argv[1:]
    if role == "hog":
        be_hog(int(count))
    else:
        be_open_loop(int(count), float(*more))
