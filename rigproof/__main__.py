"""The command line `rigproof`, which is `python -m rigproof`, too."""

import contextlib
import sys
import traceback

from rigproof.host.exit_status import (
    INTERRUPTED,
    UNSAID,
    guard_status,
    interrupt_by_signals,
    interrupted_early,
    keep_status,
    status_kept,
)


def main() -> None:
    """Run it. An error of rigproof itself, or of what it imports, is no REJECTED, which Python's own 1 is.

    Nor is it ACCEPTED if a module ends Python with 0 while it is imported.
    """
    guard_status()
    try:
        if sys.argv[1:2] in (["accept"], ["calibrate"]):
            interrupt_by_signals()
        if sys.argv[1:2] == ["verdict"]:  # in milliseconds: without what the others import
            from rigproof.cli.verdict import main as command_line  # noqa: PLC0415
        else:
            from rigproof.cli.main import main as command_line  # noqa: PLC0415 - an installation may be broken

        command_line()
    except (Exception, SystemExit) as error:  # whatever it is, nothing is said of the rig
        if isinstance(error, SystemExit) and status_kept() is not None:
            raise
        with contextlib.suppress(Exception):  # nor if standard error cannot be written
            traceback.print_exc()
            sys.stderr.write("rigproof: an error of rigproof itself, or of its installation; no verdict\n")
        sys.exit(UNSAID)
    except KeyboardInterrupt:  # while modules are imported, or when all is said
        if (status := status_kept()) is None:
            status = INTERRUPTED
            with contextlib.suppress(Exception):
                sys.stderr.write(f"rigproof: {interrupted_early()}\n")
        keep_status(status)
        sys.exit(status)


if __name__ == "__main__":
    main()
