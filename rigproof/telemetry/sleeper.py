"""How late a 10 ms sleeper wakes: `python -m rigproof.telemetry.sleeper`.

It only uses the standard library: it starts fast and stays small. It prints batches of delays (ms),
one JSON object a line, and ends when its stdin is closed, as it is when its parent dies.
"""

import time

from rigproof.host.parent import Orders, tell

PERIOD_S = 0.010
BATCH_S = 0.25


def main() -> None:
    """Sleep until each point of a 10 ms grid and print how late each wake-up was.

    A wake-up later than further grid points skips those: one stall is one delay.
    """
    orders = Orders()
    due_s = time.monotonic() + PERIOD_S
    delays_ms: list[float] = []
    printed_s = time.monotonic()
    while not orders.closed.is_set():
        time.sleep(max(0.0, due_s - time.monotonic()))
        now_s = time.monotonic()
        delays_ms.append(round((now_s - due_s) * 1000, 3))
        due_s += PERIOD_S * (1 + int((now_s - due_s) / PERIOD_S))
        if now_s - printed_s >= BATCH_S or orders.closed.is_set():
            tell(delays_ms=delays_ms)
            delays_ms, printed_s = [], now_s


if __name__ == "__main__":
    main()
