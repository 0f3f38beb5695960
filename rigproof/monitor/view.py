"""The output of frames: redrawn on a terminal, or as plain lines one below the other."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

PLAIN_WIDTH = 80
QUIT = "q"
HINT = "q: quit"
SIGNS_SHOWN = 8  # on a terminal, where they would push the readings off the screen

Lines = Callable[[int, int | None, int | None], Sequence[Text]]  # arguments: width, most signs, rows


class View(Protocol):
    """Shows one frame after the other."""

    def show(self, lines: Lines) -> None:
        """The next frame. Raises OSError if the reader is gone."""


class PlainView:
    """Frames one below the other, an empty line between them; without `color` no control codes at all."""

    def __init__(self, stream: TextIO, *, color: bool = False) -> None:
        self._stream = stream
        self._console = Console(file=stream, force_terminal=True, highlight=False) if color else None
        self._first = True

    def show(self, lines: Lines) -> None:
        """Print it below the last one."""
        if not self._first:
            self._stream.write("\n")
        self._first = False
        for line in lines(PLAIN_WIDTH, None, None):
            if self._console is not None:
                self._console.print(line, soft_wrap=True)
            else:
                self._stream.write(f"{line.plain}\n")
        self._stream.flush()


class TerminalView:
    """Draws each frame over the last one, below what was on the screen; the last one stays there."""

    def __init__(self, stream: TextIO, *, color: bool, quits: bool = False) -> None:
        """`quits`: whether a key ends it, which the last line then says."""
        self._hint = [Text(HINT, "dim")] if quits else []
        self._console = Console(file=stream, force_terminal=True, no_color=not color, highlight=False)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="ellipsis",
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a closed terminal
            self._live.stop()

    def show(self, lines: Lines) -> None:
        rows = self._console.height - len(self._hint)
        shown = list(lines(self._console.width, SIGNS_SHOWN, rows))
        if len(shown) > rows:
            shown[max(rows - 1, 0) :] = [Text("...")]
        self._live.update(Group(*shown, *self._hint), refresh=True)


class Keys:
    """The keys that are typed while a view is shown."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def quit_within(self, seconds: float) -> bool:
        """Wait for so long; returns early, and True, once QUIT is typed."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            if not select.select([self._descriptor], [], [], left_s)[0]:
                break
            typed = os.read(self._descriptor, 100)
            if QUIT.encode() in typed.lower():
                return True
            if not typed:  # the terminal is closed: its signal comes
                time.sleep(left_s)
        return False


@contextmanager
def typed_keys() -> Iterator[Keys | None]:
    """The terminal of standard input without echo, each key at once; None if there is none, or not for us.

    Ctrl-C and Ctrl-Z do what they always do. Afterwards the terminal is as it was.
    """
    try:
        descriptor = sys.stdin.fileno()
        if os.tcgetpgrp(descriptor) != os.getpgrp():  # in the background its keys are somebody else's
            raise OSError
        before = termios.tcgetattr(descriptor)
    except (OSError, ValueError, AttributeError, termios.error):
        yield None
        return
    tty.setcbreak(descriptor)
    try:
        yield Keys(descriptor)
    finally:
        with suppress(OSError, termios.error):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def is_terminal(stream: TextIO) -> bool:
    """Whether frames can be drawn over each other there."""
    try:
        return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    except ValueError:  # closed
        return False
