"""`--hw-notify`: the user's own command, run once when the verdict of a run is on the disk."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping

from rigproof.records.message_text import one_line

# A mail or push server answers within seconds; one that does not must not hold up whoever waits for the run.
LIMIT_S = 60.0
CHECK_S = 5.0  # for a shell to read a line
SHOWN = 400  # characters of what it said last
SHELL = ("/bin/sh", "-c")
PLAIN = re.compile(r"[\w./+-]+")  # the name of a program, and no assignment, quote or variable


def unreadable(command: str) -> str:
    """The reason why the shell cannot run the command; empty if it may. Nothing of it is executed.

    Looked for is its first word, if that is a plain one: who finds out in the morning that `mail` is not
    installed was told nothing in the night.
    """
    try:
        read = _shell("-n", "-c", command)
        if read.returncode:
            return _last_line(read.stderr) or "the shell cannot read it"
        (first,) = command.split(maxsplit=1)[:1]
        if PLAIN.fullmatch(first) and _shell("-c", 'command -v "$1"', "sh", first).returncode:
            return f"there is no program {first} here"
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return ""


def _shell(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=CHECK_S, check=False
    )


def notify(command: str, text: str, variables: Mapping[str, str]) -> str:
    """Run the command with `text` as its input; a warning if it does not end with 0 in time, else nothing.

    It has this process's environment and `variables`, its folder, none of its files, and a session of its
    own, all of which is killed once LIMIT_S have passed.
    """
    try:
        with (
            os.fdopen(os.memfd_create("rigproof-notice"), "w+b") as given,
            os.fdopen(os.memfd_create("rigproof-notice-output"), "w+b") as said,
        ):
            given.write(text.encode(errors="replace"))
            given.seek(0)
            process = subprocess.Popen(
                [*SHELL, command],
                stdin=given,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
                start_new_session=True,
            )
            why = _ended(process)
            said.seek(max(0, said.seek(0, os.SEEK_END) - SHOWN))
            last = _last_line(said.read())
    except OSError as error:
        why, last = f"could not be started: {error.strerror or error}", ""
    return why and f"notify: `{one_line(command, SHOWN)}` {why}{f': {last}' if last else ''}"


def _ended(process: "subprocess.Popen[bytes]") -> str:
    """Wait for the command; returns how it ended, if not with 0."""
    try:
        status = process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        why = f"did not end within {LIMIT_S:g} s, and was killed"
    except KeyboardInterrupt:
        why = "was interrupted"
    else:
        return f"ended with exit status {status}" if status else ""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return why


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return one_line(lines[-1].strip(), SHOWN) if lines else ""
