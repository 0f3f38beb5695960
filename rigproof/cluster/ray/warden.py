"""A process that outlives the driver of a Ray of our own, and cleans up after one that was killed.

Most of Ray ends with the driver, but two of its helpers notice only after a minute, and its folder is never
removed. The warden learns of the driver's end by the end of its stdin; if the folder is gone by then, the
driver has cleaned up itself.
"""

import os
import shutil
import signal
import time
from pathlib import Path

from rigproof.host import processes
from rigproof.host.child import Child
from rigproof.host.parent import Orders

MODULE = "rigproof.cluster.ray.warden"
GRACE_S = 2.0  # for Ray's processes to end by themselves
CLEAR_S = 10.0  # to kill those that do not
STEP_S = 0.2


class Warden(Child):
    """Watches over `folder` from its creation until `stop`, even if this process is killed in between.

    Call `stop` once the folder is gone: nothing is left to do then.
    """

    def __init__(self, folder: Path) -> None:
        # The folder comes by stdin: a search for processes that name it must not find this one.
        super().__init__(MODULE)
        self.tell(folder=str(folder))


def clear(folder: Path, session: int) -> None:
    """Wait a little for its writers to end, kill those that do not, and remove the folder."""
    begun_s = time.monotonic()
    while left := processes.writers(folder, session):
        passed_s = time.monotonic() - begun_s
        if passed_s > GRACE_S:
            for process in left:
                processes.kill(process)
        if passed_s > GRACE_S + CLEAR_S:
            break
        time.sleep(STEP_S)
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Read the folder's name, wait for the end of stdin, and clean up what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a signal that ends the driver is not meant for its warden
    orders = Orders(grace_s=None)  # it outlives the driver: only then its work begins
    order = orders.next()
    orders.closed.wait()
    if order is not None and (folder := Path(order["folder"])).is_dir():
        clear(folder, os.getsid(0))


if __name__ == "__main__":
    main()
