"""`rigproof monitor`: from its options to its exit status."""

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TextIO

from rigproof.monitor.document import document
from rigproof.monitor.following import Nodes, Source
from rigproof.monitor.frame import frame
from rigproof.monitor.gathering import Gathering
from rigproof.monitor.local import this_machine
from rigproof.monitor.run_tail import RunTail
from rigproof.monitor.signs import WarningSign, warning_signs
from rigproof.monitor.snapshot import Snapshot
from rigproof.monitor.view import Keys, PlainView, TerminalView, View, is_terminal, typed_keys
from rigproof.profiles.auto import AUTO
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.run.simulated.making import NotSimulated
from rigproof.stages.registry import KINDS

CALM, WARNED = 0, 1  # exit status of --once
READY_LIMIT_S = 30.0  # --once waits this long for the first readings
READING_S = 1.5  # and then for this long: fewer wake-ups say little about the host
CLOSE_S = 0.8
SIMULATED_RIG = "dual-3090-3070"  # if none is named: two unlike cards on two PCs
FIRST_FRAME_S = 3.0  # a live view begins by then, whatever has been read
GLANCE_S = 0.05
NOBODY_READS = (errno.EPIPE, errno.EIO)  # as with `| head`, or a closed terminal
SIGNALS = (signal.SIGTERM, signal.SIGHUP)  # handled like Ctrl-C; the last is a lost ssh connection

Handler = Callable[[int, FrameType | None], object] | signal.Handlers


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `rigproof monitor`."""

    hwprofile: str = AUTO
    ray_address: str | None = None
    allow_open: bool = False
    report_dir: Path = Path("reports")
    interval_s: float = 2.0
    once: bool = False
    as_json: bool = False
    color: bool = True
    simulate: bool = False
    inject: tuple[str, ...] = ()


class Monitor:
    """The rig, looked at periodically. A context manager: it ends what it starts."""

    def __init__(self, options: Options) -> None:
        begun_s = time.monotonic()
        self._now_s: Callable[[], float] = lambda: time.monotonic() - begun_s
        named = (
            options.hwprofile if options.hwprofile != AUTO else SIMULATED_RIG if options.simulate else None
        )
        self._rig = None if named is None else load_rig(named, KINDS)
        self._gathering = Gathering()
        self._tail = RunTail(options.report_dir)
        nodes = _nodes(options, self._rig, self._gathering, self._now_s)
        self._source = Source(nodes, self._gathering, self._now_s)

    def __enter__(self) -> "Monitor":
        try:
            self._source.open()
        except BaseException:
            self._source.close(CLOSE_S)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with _handling((signal.SIGINT, *SIGNALS), signal.SIG_IGN):  # closing is short
            self._source.close(CLOSE_S)

    def wait_ready(self, limit_s: float) -> None:
        """Wait until all nodes that are there have been read, at most `limit_s`."""
        end_s = time.monotonic() + limit_s
        while not (self._source.settled and self._gathering.complete) and time.monotonic() < end_s:
            time.sleep(GLANCE_S)

    def look(self) -> tuple[Snapshot, list[WarningSign]]:
        """The rig's current state, and its warning signs."""
        snapshot = Snapshot(
            at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            rig=self._rig.rig.name if self._rig is not None else AUTO,
            source=self._source.name,
            nodes=self._gathering.nodes(self._now_s()),
            run=self._tail.now(time.time()),
            errors=self._gathering.errors,
        )
        return snapshot, warning_signs(snapshot)


def monitor(options: Options, stream: TextIO) -> int:
    """Show the rig on `stream` until Ctrl-C or the key q, or once; the exit status.

    0 at the end of a live view and of a `once` without warnings, 1 for a `once` with warnings.

    Raises:
        ProfileError, ClusterUnreachable, NotSimulated: it cannot begin.
        KeyboardInterrupt: `once` was interrupted before it could show anything.
    """
    if options.simulate and options.hwprofile == AUTO:
        sys.stderr.write(f"rigproof: SIMULATED: {SIMULATED_RIG}, since no --hwprofile names another rig\n")
    try:
        with _handling(SIGNALS, signal.default_int_handler), Monitor(options) as rig:
            return _once(rig, options, stream) if options.once else _live(rig, options, stream)
    except KeyboardInterrupt:
        if options.once:
            raise
        return CALM
    except OSError as error:
        if error.errno not in NOBODY_READS:
            raise
        _let_go(stream)
        return CALM


def _once(rig: Monitor, options: Options, stream: TextIO) -> int:
    rig.wait_ready(READY_LIMIT_S)
    time.sleep(max(READING_S, options.interval_s))
    snapshot, signs = rig.look()
    if options.as_json:
        stream.write(document(snapshot, signs, indent=2) + "\n")
        stream.flush()
    else:
        _show(PlainView(stream, color=options.color and is_terminal(stream)), snapshot, signs)
    return WARNED if signs else CALM


def _live(rig: Monitor, options: Options, stream: TextIO) -> int:
    rig.wait_ready(FIRST_FRAME_S)
    with ExitStack() as stack:
        view: View = PlainView(stream)
        keys: Keys | None = None
        if is_terminal(stream) and not options.as_json:
            keys = stack.enter_context(typed_keys())
            view = stack.enter_context(TerminalView(stream, color=options.color, quits=keys is not None))
        while True:
            snapshot, signs = rig.look()
            if options.as_json:
                stream.write(document(snapshot, signs) + "\n")
                stream.flush()
            else:
                _show(view, snapshot, signs)
            if keys is None:
                time.sleep(options.interval_s)
            elif keys.quit_within(options.interval_s):
                return CALM


def _show(view: View, snapshot: Snapshot, signs: list[WarningSign]) -> None:
    view.show(lambda width, most_signs, rows: frame(snapshot, signs, width, most_signs, rows))


def _nodes(
    options: Options, rig: LoadedRig | None, gathering: Gathering, now_s: Callable[[], float]
) -> Nodes:
    if options.simulate:
        from rigproof.monitor.simulated import simulated  # noqa: PLC0415 - loads the simulator

        assert rig is not None
        if options.ray_address is not None:
            raise NotSimulated(
                f"--hw-ray-address {options.ray_address}: a simulated rig is on this machine; leave out "
                "the option"
            )
        return simulated(rig, options.inject, gathering, now_s)
    if options.inject:
        raise NotSimulated(
            f"--hw-inject {options.inject[0]}: real hardware has its own faults; add --hw-simulate"
        )
    if options.ray_address is None:
        return this_machine(rig, gathering, now_s)
    from rigproof.monitor.cluster import cluster  # noqa: PLC0415 - imports Ray

    return cluster(rig, options.ray_address, gathering, now_s, allow_open=options.allow_open)


@contextmanager
def _handling(numbers: Sequence[signal.Signals], handler: Handler) -> Iterator[None]:
    """Handle these signals so, and afterwards as before."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _let_go(stream: TextIO) -> None:
    """The reader is gone: the rest of the stream must not fail when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
