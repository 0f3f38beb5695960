"""The output of frames: redrawn on a terminal, or as plain lines one below the other."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

PLAIN_WIDTH = 80
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

    def __init__(self, stream: TextIO, *, color: bool) -> None:
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # a closed terminal
            self._live.stop()

    def show(self, lines: Lines) -> None:
        """Draw it."""
        self._live.update(Group(*lines(self._console.width, SIGNS_SHOWN, self._console.height)), refresh=True)


def is_terminal(stream: TextIO) -> bool:
    """Whether frames can be drawn over each other there."""
    try:
        return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    except ValueError:  # closed
        return False
