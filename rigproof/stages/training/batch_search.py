"""Finds the largest batch that fits, by bisection over measured peaks, without trying one that does not fit.

A step's peak memory grows linearly with the batch, so two measured batches predict all others. Only batches
predicted to fit are tried; each try is measured and improves the prediction.
"""

from bisect import bisect_right

MOST_BATCH = 2**16
NEAR_SHARE = 1 / 16  # close enough to the smallest batch that does not fit


class BatchSearch:
    """One precision's peak memory by batch size, MiB, and the next batch to try under a limit.

    `held_mib`: held by the model without any example. The search ends when the largest batch that fits is
    next to one that does not (measured or predicted), or within 1/16 of it.
    """

    def __init__(self, held_mib: float, limit_mib: float) -> None:
        self._held_mib = held_mib
        self._limit_mib = limit_mib
        self.peaks: dict[int, float] = {}
        self.failed_from: int | None = None  # the smallest batch whose allocation failed

    def measured(self, batch: int, peak_mib: float) -> None:
        """The batch fitted the device, with this peak."""
        self.peaks[batch] = max(peak_mib, self.peaks.get(batch, 0.0))

    def failed(self, batch: int) -> None:
        """The batch did not fit the device."""
        self.failed_from = batch if self.failed_from is None else min(self.failed_from, batch)

    def predicted_mib(self, batch: int) -> float:
        """The predicted peak of a batch; `held_mib` before any was measured.

        From one batch, it is rather too high: all of its peak except `held_mib` is assumed to grow with the
        batch. From two or more, a line through the two largest.
        """
        if not self.peaks:
            return self._held_mib
        *_, large = ordered = sorted(self.peaks)
        peak_mib = self.peaks[large]
        slope = (peak_mib - self._held_mib if peak_mib > self._held_mib else peak_mib) / large
        if len(ordered) > 1:
            smaller = ordered[-2]
            measured = (peak_mib - self.peaks[smaller]) / (large - smaller)
            slope = measured if measured > 0 else slope
        return peak_mib + slope * (batch - large)

    def largest(self, most: int = MOST_BATCH) -> int | None:
        """The largest batch up to `most` that was measured to fit."""
        below = self._below(most)
        fitting = (one for one, mib in self.peaks.items() if one < below and mib <= self._limit_mib)
        return max(fitting, default=None)

    def too_large(self, most: int = MOST_BATCH) -> int:
        """The smallest batch that does not fit: it failed, or its measured or predicted peak is too high.

        At most `most` + 1.
        """
        over = [batch for batch, peak_mib in self.peaks.items() if peak_mib > self._limit_mib]
        least = min([*over, self._below(most)])
        if self.peaks:
            fitting = bisect_right(range(1, most + 1), self._limit_mib, key=self.predicted_mib)
            least = min(least, fitting + 1)
        return least

    def next(self, most: int = MOST_BATCH) -> int | None:
        """The batch to try, up to `most`; None once the search is over."""
        low, high = self.largest(most) or 0, self.too_large(most)
        if not self.peaks:
            return 1 if high > 1 else None
        if high - low <= max(1.0, low * NEAR_SHARE if high <= most else 1.0):
            return None
        return (low + high) // 2  # also safe if a small batch gave too high a prediction

    def _below(self, most: int) -> int:
        return most + 1 if self.failed_from is None else self.failed_from
