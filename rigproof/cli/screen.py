"""Whether standard output shows colours."""

import os
import sys


def colored() -> bool:
    """Whether standard output is a terminal that shows colours; not if NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
