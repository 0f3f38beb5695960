"""What standard output can show: colours and width of a terminal, plain text elsewhere."""

import os
import shutil
import sys

PLAIN_WIDTH = 80


def colored() -> bool:
    """Whether standard output is a terminal that shows colours; not if NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """The terminal's columns; elsewhere PLAIN_WIDTH."""
    return shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns if sys.stdout.isatty() else PLAIN_WIDTH
