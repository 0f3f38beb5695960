"""`sh` scripts on another machine, over ssh as the user's own ssh is configured; never asks for a password.

What is sent does not depend on the login shell there: one short line that every shell understands starts
`/bin/sh`, which gets the script on its stdin. Two marks in the output enclose what the script printed and
prove that it ran to its end; what the login shell prints by itself is outside of them.

ssh is a system program, so `host.child.Child`, which runs this package's modules, does not apply.
"""

import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass

from rigproof.cluster.ray.preconditions import ClusterError

CONNECT_S = 10
NOT_REACHED = 255  # ssh's own failure, in place of the command's status
SHELL = "exec /bin/sh"
QUOTED = 300  # characters of what a machine printed instead


# By what ssh complains of, as OpenSSH words it.
WAYS_IN = {
    "Permission denied": "type `ssh-copy-id {host}`, once (if that finds no key of yours, `ssh-keygen` "
    "before)",
    "Host key verification failed": "type `ssh {host}`, once, to say whether its host key is right",
    "Connection refused": "install an ssh server there, such as by `sudo apt install openssh-server`",
    "timed out|No route|unreachable": "switch it on; `ip address`, typed there, shows whether that is its "
    "address",
    "[Rr]esolve": "write its IP address into the profile, as `ip address` shows it there",
}


class NoSsh(ClusterError):  # noqa: N818 - named for the condition
    """A machine cannot be reached by ssh, or gives no shell there."""


class NoAnswer(NoSsh):
    """What was sent to a machine did not end in time."""


@dataclass(frozen=True)
class Answer:
    """A remote script's exit status and output."""

    status: int
    output: str


@dataclass(frozen=True)
class Remote:
    """A machine; `user` None leaves the choice to ssh. This machine itself needs no ssh then."""

    address: str
    user: str | None = None
    key: str | None = None

    def run(self, script: str, *arguments: str, limit_s: float) -> Answer:
        """Run a `sh` script there, without input. Its arguments do not appear in a list of processes.

        Raises:
            NoSsh: there is no ssh, it cannot connect, or the script does not run to its end.
            NoAnswer: it does not in `limit_s`.
        """
        mark = f"rigproof-{secrets.token_hex(8)}"
        words = shlex.join(arguments)
        text = f"echo {mark} begins\nset -- {words}\n(\n{script}\n) < /dev/null 2>&1\n"
        text += f"set -- $?\necho\necho {mark} ends $1\n"
        status, printed, complained = self._sent(text, limit_s)
        whole = re.search(rf"^{mark} begins\n(.*)\n{mark} ends (\d+)$", printed, re.DOTALL | re.MULTILINE)
        if whole is not None:
            return Answer(int(whole[2]), whole[1])
        complaints = complained.strip().splitlines()
        if status == NOT_REACHED and mark not in printed:
            complaint = complaints[-1] if complaints else "ssh gave no reason"
            raise NoSsh(f"{self}: {complaint}; {self._way_in(complaint)}")
        said = " | ".join(line for line in (*printed.splitlines(), *complaints) if line and mark not in line)
        raise NoSsh(
            f"{self}: what was sent did not run to its end (status {status}); the shell there printed "
            f'"{said[-QUOTED:]}"; `ssh {self} {SHELL}` has to give a shell there'
        )

    def __str__(self) -> str:
        return f"{self.user}@{self.address}" if self.user else self.address

    def _way_in(self, complaint: str) -> str:
        """The remedy by which ssh logs in, by what it complains of."""
        for said, way_in in WAYS_IN.items():
            if re.search(said, complaint):
                return way_in.format(host=self)
        return f"`ssh {self}` has to log in without a question"

    def _command(self) -> list[str]:
        from rigproof.telemetry.host import host_addresses  # noqa: PLC0415 - psutil, which only this needs

        if self.user is None and self.address in host_addresses():
            return ["/bin/sh"]
        if shutil.which("ssh") is None:
            raise NoSsh(
                "there is no `ssh` on this machine; install it, such as by `apt install openssh-client`"
            )
        own = ["-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}"]
        own += ["-i", self.key] if self.key else []
        own += ["-l", self.user] if self.user else []
        return ["ssh", *own, "--", self.address, SHELL]

    def _sent(self, text: str, limit_s: float) -> tuple[int, str, str]:
        """The status, stdout and stderr of a shell there that reads `text`."""
        # Files, because a pipe ends only with the last process that has it, such as a master of ssh's.
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complained:
            process = subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=complained,
                cwd="/",
                start_new_session=True,
            )
            try:
                process.communicate(text.encode(), limit_s)
            except subprocess.TimeoutExpired:
                raise NoAnswer(
                    f"{self}: no answer within {limit_s:g} s; see what keeps `ssh {self}` waiting"
                ) from None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            outputs = []
            for stream in (printed, complained):
                stream.seek(0)
                outputs.append(stream.read().decode(errors="replace"))
        return process.returncode, outputs[0], outputs[1]
