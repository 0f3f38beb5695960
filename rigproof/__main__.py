"""The command line `rigproof`, which is `python -m rigproof`, too."""

import contextlib
import sys
import traceback

INTERNAL = 3  # as pytest's; here nothing can be imported that may be what is broken


def main() -> None:
    """Run it. An error of rigproof itself, or of what it imports, is no REJECTED, which Python's own 1 is."""
    try:
        from rigproof.cli.main import main as command_line  # noqa: PLC0415 - an installation may be broken

        command_line()
    except Exception:  # whatever it is, nothing is said of the rig
        with contextlib.suppress(Exception):  # nor if standard error cannot be written
            traceback.print_exc()
            sys.stderr.write("rigproof: an error of rigproof itself, or of its installation; no verdict\n")
        sys.exit(INTERNAL)


if __name__ == "__main__":
    main()
