"""`rigproof verdict`: does the last verdict on this machine hold? Starts in milliseconds, without typer."""

import argparse
import io
import sys
from pathlib import Path
from typing import NoReturn

from rigproof.history.standing import Wanted, standing
from rigproof.host.exit_status import keep_status
from rigproof.host.standard_streams import outlive_readers
from rigproof.profiles.tables.level_names import LEVELS
from rigproof.records.message_text import one_line
from rigproof.records.verdict import USAGE, Decision

NOTE = 1000  # characters
ABOUT = """\
Read the last verdict on this machine, without loading anything: exit status 0 if it is ACCEPTED and holds,
1 if it is REJECTED, 6 if there is none that holds, such as after a restart or with another driver.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"rigproof: {message}; `rigproof verdict --help` lists the options\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:  # after --help, too
        keep_status(status)
        super().exit(status, message)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    as_written = argparse.RawDescriptionHelpFormatter
    made = _Parser("rigproof verdict", description=ABOUT, formatter_class=as_written, allow_abbrev=False)
    option = made.add_argument
    option("--max-age", metavar="TIME", help="the oldest that counts, such as 24h, 90m or 7d; default: any")
    option("--level", choices=LEVELS, help="the shortest level that counts; default: any")
    option("--hwprofile", metavar="NAME", help="the rig's name or profile; default: any with this machine")
    option("--report-dir", type=Path, default=Path("reports"), help="folder of runs; default: reports")
    limits = "compare power limits, too, by NVML: seconds where no program keeps the driver awake"
    option("--power-limits", action="store_true", help=limits)
    return made


def main() -> None:
    """Print one line of at most 80 characters, then notes; end with the exit status."""
    outlive_readers()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    options = parser()
    given = options.parse_args(sys.argv[2:])
    wanted = Wanted(given.max_age, given.level, given.hwprofile, given.power_limits)
    try:
        found = standing(given.report_dir, wanted)
    except ValueError as error:
        options.error(f"--max-age: {error}")
    except OSError as error:
        options.error(f"{error.filename}: {error.strerror}")
    to_type = () if found.decision is Decision.ACCEPTED else (f"what to type: {wanted.command}",)
    sys.stdout.writelines(f"{one_line(line, NOTE)}\n" for line in (found.line, *found.notes, *to_type))
    sys.stdout.flush()
    options.exit(found.exit_status)
