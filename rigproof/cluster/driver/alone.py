"""One run at a time on each host: two would halve each other's rates, and call each other strangers."""

import random
import time
from collections.abc import Callable, Mapping

from rigproof.cluster.ray.preconditions import ClusterError
from rigproof.host.run_lock import Claim

LOOK_S = 2.0  # between two looks at whether the other run has ended, on average

# Takes all hosts of the run, or none: returns the runs that have some of them, by host.
Take = Callable[[], Mapping[str, Claim | str]]


class HostInUse(ClusterError):  # noqa: N818 - named for the condition
    """Another run is going on on a host of the rig."""


def take_alone(take: Take, wait_s: float, say: Callable[[str], None]) -> None:
    """Take all hosts of a run, waiting at most `wait_s` for their other runs to end.

    Raises:
        HostInUse: another run has one of them.
    """
    end_s, said = time.monotonic() + wait_s, ""
    while held := take():
        runs = "; ".join(f"{host} is under test by {run}" for host, run in held.items())
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            waited = f" (waited {wait_s:g} s)" if wait_s else ""
            raise HostInUse(
                f"{runs}{waited}: two runs at once on a host would halve each other's rates; run again when "
                "it has ended, or add --hw-wait to wait for it"
            )
        if runs != said:
            said = runs
            say(f"waiting: {runs}")
        # Not in step with others that wait, each of which might take a host that another one needs.
        time.sleep(min(left_s, LOOK_S * random.uniform(0.5, 1.5)))  # noqa: S311 - no secret
