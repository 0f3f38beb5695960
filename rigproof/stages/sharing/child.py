"""One of the processes that share a device: `python -m rigproof.stages.sharing.child SETTINGS`.

SETTINGS is a JSON object: `kind` and `threads` of the device, `precision` and `size` of the
operands, `round_s`. It reads orders as JSON lines from stdin, and writes messages to stdout in the same way:

    messages                                      orders
    opened (uuid)                                 fill (mib)
    round (warmup), …, ready (mib, checksums)     work (start_s, settled_s, end_s)
    round, …, done                                (stdin closes: it ends)

`wrong` reports a result that differs, `error` why it gives up, after `out_of_memory` if that is why. Times
are those of the host's monotonic clock, which all processes share.
"""

import json
import sys
import time
from functools import partial
from typing import Any

from rigproof.devices.device import Device
from rigproof.devices.golden import GoldenData
from rigproof.devices.opening import open_device
from rigproof.devices.pool import Launched, Pool, matrices_in
from rigproof.devices.round_queue import FinishedRound, RoundQueue, adapted, products_for
from rigproof.devices.verification import differing
from rigproof.host.parent import ERROR_CHARACTERS, Orders, serve, tell
from rigproof.records.measurements import Phase

WARM_SIZE = 64
MOST_REPORTED = 16  # wrong results of one round: each is a message


class SharedPool:
    """One process's operands and the rounds over them, each result compared with its reference."""

    def __init__(self, device: Device, settings: dict[str, Any], orders: Orders) -> None:
        self._device = device
        self._precision = str(settings["precision"])
        self._size = int(settings["size"])
        self._round_s = float(settings["round_s"])
        self._orders = orders
        golden = GoldenData(device, self._size, self._precision)
        self._pool = Pool(device, self._size, self._precision, golden)
        self._products = 1

    def fill(self, mib: float) -> None:
        """Fill `mib` with operands; the products that make references are reported as warm-up rounds."""
        seconds, products, correct, latest_s = 0.0, 0, True, 0.0
        for _ in range(matrices_in(mib, self._size, self._precision)):
            if self._orders.closed.is_set():
                return
            for made in self._pool.grow():
                latest_s = made.seconds
                seconds, products = seconds + latest_s, products + 1
                correct = correct and made.verified
                if not made.reference.correct:
                    self._report_wrong(*made.reference.wrong(self._precision))
                elif not made.verified:
                    self._report_wrong_product(made.wrong)
            if seconds >= self._round_s:
                self._report_round(time.monotonic(), seconds, products, "warmup", verified=correct)
                seconds, products, correct = 0.0, 0, True
        if products:
            self._report_round(time.monotonic(), seconds, products, "warmup", verified=correct)
        self._products = products_for(self._round_s, latest_s)
        tell(what="ready", mib=self._pool.mib, checksums=self._pool.checksums)

    def work(self, start_s: float, settled_s: float, end_s: float) -> None:
        """Rounds over all pairs from `start_s` to `end_s`, warm-up until `settled_s`.

        All processes work until `end_s`. A round that ends later may have had the card to itself, and is not
        measured: the last one of three to end did 1.7 times its rate on an H100.
        """
        self._orders.closed.wait(max(0.0, start_s - time.monotonic()))
        rounds = RoundQueue(self._device, self._pool.launch)
        while not self._orders.closed.is_set() and (now_s := time.monotonic()) < end_s:
            phase: Phase = "warmup" if now_s < settled_s else "measure"
            while not rounds.full:
                rounds.add(self._products, phase)
            finished = rounds.finish()
            self._check(finished, end_s)
            if phase == "warmup":
                self._products = adapted(finished.products, finished.seconds, self._round_s)
        while rounds:
            self._check(rounds.finish(), end_s)

    def release(self) -> None:
        """Free the operands."""
        self._pool.release()

    def _check(self, finished: FinishedRound[Launched], end_s: float) -> None:
        ended_s = time.monotonic()
        pairs, host_paced = finished.work.pairs, finished.work.host_paced
        verified, wrong = differing(self._pool.references, pairs, finished.checksums)
        for result in wrong[:MOST_REPORTED]:
            self._report_wrong_product(result)
        phase: Phase = finished.phase if ended_s <= end_s else "warmup"
        done = (ended_s, finished.seconds, finished.products, phase)
        self._report_round(*done, verified=verified, host_paced=host_paced)

    def _report_round(
        self,
        ended_s: float,
        seconds: float,
        products: int,
        phase: Phase,
        *,
        verified: bool,
        host_paced: bool | None = None,
    ) -> None:
        done = {"t_s": ended_s, "seconds": seconds, "products": products, "phase": phase}
        tell(what="round", verified=verified, host_paced=host_paced, **done)

    def _report_wrong_product(self, result: dict[str, Any]) -> None:
        message = f"{self._precision} product {result['pair']} is not exact"
        self._report_wrong(message, {"precision": self._precision, "golden": True, **result})

    def _report_wrong(self, message: str, data: dict[str, Any]) -> None:
        tell(what="wrong", message=message, data=data)


def share(settings: dict[str, Any], orders: Orders) -> None:
    """Follow orders until stdin closes."""
    precision = settings["precision"]
    device = open_device(settings["kind"], int(settings["threads"]))
    try:
        device.use(precision)
        _warm(device, precision)
        tell(what="opened", uuid=device.uuid)
        if (fill := orders.next()) is None:
            return
        shared = SharedPool(device, settings, orders)
        try:
            shared.fill(float(fill["mib"]))
            if (work := orders.next()) is not None:
                shared.work(float(work["start_s"]), float(work["settled_s"]), float(work["end_s"]))
        finally:
            shared.release()
    except Exception as error:
        if device.is_out_of_memory(error):
            tell(what="out_of_memory", message=f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS])
        raise


def _warm(device: Device, precision: str) -> None:
    """Do small products, so that context and libraries take their memory before the rest is divided."""
    pool = Pool(device, WARM_SIZE, precision)
    pool.grow()
    pool.grow()
    pool.release()


if __name__ == "__main__":
    sys.exit(serve(partial(share, json.loads(sys.argv[1]))))
