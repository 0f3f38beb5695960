"""Finds the largest batch that fits, by bisection over measured peaks, without trying one that does not fit.

A step's peak memory grows linearly with the batch, so two measured batches predict all others. Only batches
predicted to fit are tried; each try is measured and improves the prediction.
"""

from bisect import bisect_right

MOST_BATCH = 2**16
NEAR_SHARE = 1 / 16  # close enough to the smallest batch that does not fit


class PeakLine:
    """Peak memory by batch size, MiB, measured and predicted.

    From one batch, the prediction is rather too high: all of its peak except `held_mib` (held by the model
    without any example) is assumed to grow with the batch. From two or more, a line through the two largest.
    """

    def __init__(self, held_mib: float = 0.0) -> None:
        self._held_mib = held_mib
        self.peaks: dict[int, float] = {}

    def add(self, batch: int, peak_mib: float) -> None:
        """Add a measured batch."""
        self.peaks[batch] = max(peak_mib, self.peaks.get(batch, 0.0))

    def at(self, batch: int) -> float:
        """The predicted peak of a batch. Raises ValueError if nothing was measured."""
        if not self.peaks:
            raise ValueError("no batch was measured yet")
        *_, large = ordered = sorted(self.peaks)
        peak_mib = self.peaks[large]
        slope = (peak_mib - self._held_mib if peak_mib > self._held_mib else peak_mib) / large
        if len(ordered) > 1:
            smaller = ordered[-2]
            measured = (peak_mib - self.peaks[smaller]) / (large - smaller)
            slope = measured if measured > 0 else slope
        return peak_mib + slope * (batch - large)

    def largest_within(self, limit_mib: float, most: int = MOST_BATCH) -> int:
        """The largest batch predicted to need at most `limit_mib`; 0 if none is."""
        return bisect_right(range(1, most + 1), limit_mib, key=self.at)


class BatchSearch:
    """Chooses the next batch to try. Report each outcome with `measured` or `failed` before the next call.

    `line` may already have measured batches. The search ends when the largest batch that fits is next to one
    that does not (measured or predicted), or within 1/16 of it.
    """

    def __init__(self, line: PeakLine, limit_mib: float, most: int = MOST_BATCH) -> None:
        self.line = line
        self.limit_mib = limit_mib
        self._most = most
        self._failed: int | None = None

    @property
    def largest(self) -> int | None:
        """The largest batch that was measured to fit."""
        below = self._most + 1 if self._failed is None else self._failed
        peaks = self.line.peaks.items()
        return max(
            (batch for batch, peak_mib in peaks if batch < below and peak_mib <= self.limit_mib), default=None
        )

    @property
    def too_large(self) -> int:
        """The smallest batch that does not fit: it failed, or its measured or predicted peak is too high."""
        over = [batch for batch, peak_mib in self.line.peaks.items() if peak_mib > self.limit_mib]
        least = min([*over, self._most + 1 if self._failed is None else self._failed])
        if self.line.peaks:
            least = min(least, self.line.largest_within(self.limit_mib, self._most) + 1)
        return least

    def next(self) -> int | None:
        """The batch to try; None once the search is over."""
        low, high = self.largest or 0, self.too_large
        if not self.line.peaks:
            return 1 if high > 1 else None
        if high - low <= max(1.0, low * NEAR_SHARE if high <= self._most else 1.0):
            return None
        return (low + high) // 2  # also safe if a small batch gave too high a prediction

    def measured(self, batch: int, peak_mib: float) -> None:
        """The batch fitted, with this peak."""
        self.line.add(batch, peak_mib)

    def failed(self, batch: int) -> None:
        """The batch did not fit."""
        self._failed = batch if self._failed is None else min(self._failed, batch)
