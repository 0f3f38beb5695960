"""Commands on another machine over ssh, as the user's own ssh is configured; never asks for a password.

ssh is a system program, so `host.child.Child`, which runs this package's modules, does not apply.
"""

import shlex
import shutil
import subprocess
from dataclasses import dataclass

from rigproof.cluster.ray.errors import ClusterError

CONNECT_S = 10
NOT_REACHED = 255  # ssh's own failure, in place of the command's status


class NoSsh(ClusterError):  # noqa: N818 - named for the condition
    """A machine cannot be reached by ssh."""


@dataclass(frozen=True)
class Answer:
    """How a command there ended, and what it printed."""

    status: int
    output: str


@dataclass(frozen=True)
class Remote:
    """One machine."""

    address: str
    user: str
    key: str | None = None

    def run(self, script: str, *arguments: str, given: str = "", limit_s: float) -> Answer:
        """Run a `sh` script there, `given` on its stdin.

        Raises:
            NoSsh: there is no ssh, it cannot connect, or the script takes longer than `limit_s`.
        """
        if shutil.which("ssh") is None:
            raise NoSsh("there is no `ssh` on this machine")
        own = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}"]
        if self.key is not None:
            own += ["-i", self.key]
        words = ["sh", "-c", script, "sh", *arguments]
        try:
            done = subprocess.run(
                ["ssh", *own, "-l", self.user, self.address, shlex.join(words)],
                input=given,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NoSsh(f"{self.user}@{self.address}: no end within {limit_s:g} s") from None
        if done.returncode == NOT_REACHED:
            reason = (done.stderr.strip().splitlines() or ["ssh gave no reason"])[-1]
            raise NoSsh(f"{self.user}@{self.address}: {reason}")
        return Answer(done.returncode, done.stdout + done.stderr)
